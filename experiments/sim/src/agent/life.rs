//! An agent, and one life of it.

use std::sync::Arc;

use tollgate_core::clock::Timestamp;
use tollgate_engine::{Engine, Exchange, ExchangeInput, Maintenance};

use super::requests::StoreRequests;
use super::waker::Sleep;
use crate::bus::SimReader;
use crate::event::{AgentEvent, Life};
use crate::late_parts::OwnAdmissions;
use crate::mutants::MutantMemory;
use crate::planted_bugs::LateRows;
use crate::scheduler::DriftingClock;
use crate::settings::SimAgentSettings;

/// An agent.
pub struct SimAgent<'c> {
    pub(super) index: usize,
    /// Its clock and its table.
    pub settings: SimAgentSettings,
    pub(super) clock: DriftingClock,
    /// The number of its starts.
    pub(super) lives: Life,
    pub(crate) running: Option<AgentLife<'c>>,
}

/// A running agent; its state is lost in a crash.
pub(crate) struct AgentLife<'c> {
    pub(super) index: usize,
    pub(super) life: Life,
    pub(super) clock: DriftingClock,
    pub(super) engine: Arc<Engine>,
    pub(super) exchange: Exchange,
    pub(super) maintenance: Maintenance,
    pub(super) sleeps: [Sleep; 2],
    /// Reports that the writer has not fetched yet.
    pub(super) reports: Vec<ExchangeInput>,
    pub(super) ticked_at: Timestamp,
    pub(super) signals: SimReader,
    pub(super) presence: SimReader,
    pub(super) requests: StoreRequests<'c>,
    /// True while the maintenance follows the answer to a ping.
    pub(super) is_pinged: bool,
    pub(super) has_late_ping: bool,
    pub(super) paused_until: Timestamp,
    /// Events of a pause, which are handled after it.
    pub(super) held: Vec<AgentEvent>,
    pub(super) late_rows: LateRows,
    pub(super) memory: MutantMemory<'c>,
    pub(super) own: OwnAdmissions,
}
