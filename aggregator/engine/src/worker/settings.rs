//! Settings of a worker.

use std::sync::Arc;

use tollgate_core::clock::Timestamp;

use crate::analytics::AnalyticsSettings;
use crate::replay_window::ReplayWindow;

const COUNTERS_MAX_DEFAULT: usize = 1_000_000;
/// Default part of a quota from which on a counter is signalled, in thousandths.
pub const THRESHOLD_PERMILLE_DEFAULT: u32 = 500;

/// The identity of an aggregator, and its caps.
#[derive(Clone, Debug)]
pub struct WorkerSettings {
    /// The name of this aggregator, unique among the live ones.
    pub id: Arc<str>,
    /// The start of this life of the aggregator.
    pub epoch: Timestamp,
    /// The region.
    pub region: Arc<str>,
    /// The part of a quota from which on a counter is signalled, in thousandths.
    pub threshold_permille: u32,
    /// Maximum number of counters in all partitions together.
    pub counters_max: usize,
    /// True if other aggregators may be on the same bus, which then share the partitions.
    pub shares: bool,
    /// True if it may coordinate the budgets of regions.
    pub coordinates: bool,
    /// The part of the log that is read to restore counts.
    pub replay_window: ReplayWindow,
    /// Caps of the analytics; nothing if calls are not summed.
    pub analytics: Option<AnalyticsSettings>,
    /// The address at which other aggregators reach this one's HTTP, as host:port; empty if they do not.
    pub http: Arc<str>,
}

impl WorkerSettings {
    /// Returns the settings of an aggregator that is alone on its bus, with the default threshold and cap.
    #[must_use]
    pub fn new(id: &str) -> Self {
        Self {
            id: id.into(),
            epoch: Timestamp::default(),
            region: "default".into(),
            threshold_permille: THRESHOLD_PERMILLE_DEFAULT,
            counters_max: COUNTERS_MAX_DEFAULT,
            shares: false,
            coordinates: false,
            replay_window: ReplayWindow::default(),
            analytics: Some(AnalyticsSettings::default()),
            http: "".into(),
        }
    }
}
