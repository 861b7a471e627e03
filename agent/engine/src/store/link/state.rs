//! State of the link to the store. The files after this one are its methods, each for one purpose.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use parking_lot::{Mutex, RwLock};

use crate::bus::BusLink;
use crate::counters::AgentTable;
use crate::engine_settings::EngineSettings;
use crate::report::Reports;
use crate::store::breaker::Breaker;
use crate::store::corrections::Corrections;
use crate::store::losses::Losses;
use crate::store::outbox::Outbox;
use crate::store::resets::Resets;
use crate::time::{LeaseEpochs, ServerClock};

/// Link of one agent to its store: its time, its health, and the charges that wait for it.
pub(crate) struct StoreLink {
    pub(super) settings: Arc<EngineSettings>,
    pub(super) reports: Arc<Reports>,
    pub(super) counters: Arc<AgentTable>,
    pub(super) bus: Arc<BusLink>,
    pub(super) clock: RwLock<ServerClock>,
    pub(super) breaker: Breaker,
    pub(super) lease_epochs: LeaseEpochs,
    /// True once a ping was answered.
    pub(super) is_reached: AtomicBool,
    pub(super) losses: Losses,
    pub(super) outbox: Outbox,
    pub(super) resets: Resets,
    /// Corrections that the store does not know.
    pub(super) corrections: Mutex<Corrections>,
}

impl StoreLink {
    pub(crate) fn new(
        settings: Arc<EngineSettings>,
        reports: Arc<Reports>,
        counters: Arc<AgentTable>,
        bus: Arc<BusLink>,
    ) -> Self {
        Self {
            settings,
            reports,
            counters,
            bus,
            clock: RwLock::default(),
            breaker: Breaker::default(),
            lease_epochs: LeaseEpochs::default(),
            is_reached: AtomicBool::default(),
            losses: Losses::default(),
            outbox: Outbox::default(),
            resets: Resets::default(),
            corrections: Mutex::default(),
        }
    }
}
