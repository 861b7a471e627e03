//! State of the world: the regions, the ledger, and the queue of events.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use fastrand::Rng;
use tollgate_aggregator_engine::budget::ledger::Ledger;
use tollgate_core::counter::CounterId;

use super::event::Event;
use crate::regions::mistake::RegionMistake;
use crate::regions::outcome::RegionsOutcome;
use crate::regions::process::Process;
use crate::regions::queue::EventQueue;
use crate::regions::region_store::RegionStore;
use crate::regions::settings::{RegionSettings, RegionsSettings};

/// Longest time from a process to its store, in ms.
pub(super) const STORE_MS_MAX: u64 = 5;
/// Number of records that a mirror repeats at most.
pub(super) const REPEATED_LEN_MAX: usize = 12;
/// Number of counters up to which all of them are checked after each event, and all readers of the ledger. Of more counters, those are
/// checked whose units an event may raise.
pub(super) const CHECKED_ALWAYS_MAX: u32 = 4;

/// A run of simulated regions.
pub struct RegionsWorld {
    pub(super) settings: RegionsSettings,
    pub(super) mistake: Option<RegionMistake>,
    pub(super) rng: Rng,
    pub(super) now_ms: u64,
    pub(super) queue: EventQueue<Event>,
    /// The ledger as appended, and the digests of its states by their lengths, if all readers are compared with them.
    pub(super) truth: Ledger,
    pub(super) digests: Vec<u64>,
    /// Numbers of the counters, and the units that all regions hold of each by the ledger.
    pub(super) numbers: BTreeMap<CounterId, u32>,
    pub(super) held: Vec<u64>,
    pub(super) regions: Vec<RegionSim>,
    pub(super) coordinators: Vec<Process>,
    /// Instants at which the records of the ledger arrive at each coordinator, in ms.
    pub(super) arrivals: Vec<Vec<u64>>,
    pub(super) lives: u64,
    pub(super) outcome: RegionsOutcome,
}

#[derive(Debug)]
pub(super) struct RegionSim {
    pub(super) settings: RegionSettings,
    pub(super) store: RegionStore,
    /// Sums of the steps of its store's clock, and of those forward, in ms.
    pub(super) stepped_ms: i64,
    pub(super) forward_ms: u64,
    pub(super) processes: Vec<Process>,
    /// Places in the ledger of the records of its mirror.
    pub(super) mirror: Vec<usize>,
    /// Instant at which the last record arrives at the mirror, in ms.
    pub(super) mirrored_ms: u64,
}

/// Returns the identifier of a counter by its number.
#[must_use]
pub fn counter_id(number: u32) -> CounterId {
    CounterId::from_u128(u128::from(number) + 1)
}

pub(super) fn rule_name(settings: &RegionsSettings) -> Arc<str> {
    settings.terms.first().map_or_else(|| "".into(), |change| change.terms.rule.clone())
}

pub(super) fn digest(ledger: &Ledger) -> u64 {
    let mut hasher = DefaultHasher::new();
    ledger.hash(&mut hasher);
    hasher.finish()
}
