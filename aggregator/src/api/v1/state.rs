//! State of the routes under `/api/v1`.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use crate::analytics::Analytics;
use crate::queries::Queries;

/// State of the routes.
#[derive(Clone)]
pub(super) struct V1 {
    pub(super) id: Arc<str>,
    /// True if agents and aggregators of other processes are part of the answers.
    pub(super) is_fleet: bool,
    pub(super) queries: Queries,
    pub(super) analytics: Analytics,
    /// Number of clients that receive events.
    pub(super) listeners: Arc<AtomicUsize>,
}
