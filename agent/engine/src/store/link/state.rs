//! State of the link to the store. The files after this one are its methods, each for one purpose.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use parking_lot::{Mutex, RwLock};
use tollgate_core::counter::{PRIMARIES_MAX, PrimaryIndex};

use crate::bus::BusLink;
use crate::counters::AgentTable;
use crate::engine_settings::{EngineSettings, StoreShape};
use crate::primaries::PrimaryMap;
use crate::report::Reports;
use crate::store::breaker::Breaker;
use crate::store::corrections::Corrections;
use crate::store::losses::Losses;
use crate::store::outbox::{Outbox, PendingEntries};
use crate::store::resets::Resets;
use crate::store::unnamed_settlements::UnnamedSettlements;
use crate::time::{LeaseEpochs, ServerClock};

/// Link of one agent to its store: the state of each primary, and what is known beside the store.
pub(crate) struct StoreLink {
    pub(super) settings: Arc<EngineSettings>,
    pub(super) reports: Arc<Reports>,
    pub(super) counters: Arc<AgentTable>,
    pub(super) bus: Arc<BusLink>,
    pub(super) owners: PrimaryMap,
    pub(super) primaries: Box<[Primary]>,
    pub(super) entries: PendingEntries,
    pub(super) resets: Resets,
    /// Corrections that the store does not know.
    pub(super) corrections: Mutex<Corrections>,
    pub(super) unnamed_settlements: Mutex<UnnamedSettlements>,
}

/// One primary of the store: its time, its health, and the charges that wait for it. A fact about a counter belongs to the
/// primary that holds it.
#[derive(Debug, Default)]
pub(crate) struct Primary {
    pub(super) clock: RwLock<ServerClock>,
    pub(super) breaker: Breaker,
    pub(super) lease_epochs: LeaseEpochs,
    /// True once a ping was answered.
    pub(super) is_reached: AtomicBool,
    pub(super) losses: Losses,
    pub(super) outbox: Outbox,
}

impl Primary {
    fn new(index: PrimaryIndex) -> Self {
        Self { lease_epochs: LeaseEpochs::of(index), ..Self::default() }
    }
}

impl StoreLink {
    pub(crate) fn new(
        settings: Arc<EngineSettings>,
        reports: Arc<Reports>,
        counters: Arc<AgentTable>,
        bus: Arc<BusLink>,
    ) -> Self {
        let are_several = settings.store == StoreShape::Primaries;
        let primaries = if are_several { PRIMARIES_MAX } else { 1 };
        Self {
            settings,
            reports,
            counters,
            bus,
            owners: PrimaryMap::new(are_several),
            primaries: (0..primaries).filter_map(PrimaryIndex::new).map(Primary::new).collect(),
            entries: PendingEntries::default(),
            resets: Resets::default(),
            corrections: Mutex::default(),
            unnamed_settlements: Mutex::default(),
        }
    }
}
