//! An aggregator as a member of the ledger: the engines of the budgets, the clock by which it measures terms, and its place in the
//! mirror.
//!
//! The clock goes on while the process is suspended, unless a mistake is planted.

use std::collections::BTreeMap;
use std::sync::Arc;

use fastrand::Rng;
use tollgate_aggregator_engine::budget::coordinator::Coordinator;
use tollgate_aggregator_engine::budget::region::{RegionBudgets, RegionMember};
use tollgate_core::clock::Timestamp;
use tollgate_core::counter::{CounterId, DigestKey};
use tollgate_core::messages::calls::{Batch, Outcome, Row};

use super::event::Life;
use super::random_stream::random_stream;
use super::scheduler::DriftingClock;
use super::settings::SimSettings;

/// Maximum offset of the clock of a process, in ms: clocks of regions are never compared.
const OFFSET_MS_MAX: i64 = 36_000_000;

pub(super) struct BudgetMember {
    pub(super) region: Arc<str>,
    /// True in the second region, in which mistakes of a region are planted.
    pub(super) is_second: bool,
    pub(super) budgets: RegionBudgets,
    /// The coordinator, in the home region.
    pub(super) coordinator: Option<Coordinator>,
    /// Units that callers have asked for since the last tick.
    pub(super) offered: BTreeMap<CounterId, (Arc<str>, u64)>,
    pub(super) rng: Rng,
    /// Interval of its ticks, in ms.
    pub(super) tick_ms: u64,
    clock: DriftingClock,
    /// Time for which the process was suspended and its clock stood still, in ms.
    stopped_ms: u64,
    /// Number of records of the mirror that it has read.
    pub(super) read: usize,
    /// Own time of the last tick.
    pub(super) ticked_at: Timestamp,
    /// True times of the last looks of the coordinator at requests and at terms, and of the last answer of the store.
    pub(super) coordinated_at: Timestamp,
    pub(super) terms_at: Timestamp,
    pub(super) store_time_at: Timestamp,
    /// True while the tick waits for the store's time.
    pub(super) awaits_time: bool,
    /// Instant from which its next request reaches the store: a process writes in its order.
    pub(super) writes_after: Timestamp,
    pub(super) has_all_counters: bool,
}

impl BudgetMember {
    /// Returns a member that has read nothing, if the aggregators of these settings take part.
    pub(super) fn new(settings: &SimSettings, index: usize, life: Life) -> Option<Self> {
        let budgets = settings.budgets?;
        let place = index * 1_000_000 + usize::try_from(life).unwrap_or_default();
        let mut rng = random_stream(settings.seed, "member", place);
        let clock = DriftingClock {
            offset_ms: rng.i64(0..OFFSET_MS_MAX),
            drift_ppm: rng.i64(-budgets.drift_ppm_max..=budgets.drift_ppm_max),
            since: settings.start,
        };
        let region: Arc<str> = settings.region.into();
        let key_fingerprint = DigestKey::default().fingerprint();
        let member = RegionMember { region: region.clone(), writer: rng.u64(..), key_fingerprint };
        Some(Self {
            region,
            is_second: budgets.is_second,
            budgets: RegionBudgets::new(member),
            coordinator: budgets.is_home.then(|| Coordinator::new(rng.u64(..))),
            offered: BTreeMap::new(),
            rng,
            tick_ms: budgets.tick_ms,
            clock,
            stopped_ms: 0,
            read: 0,
            ticked_at: Timestamp::default(),
            coordinated_at: Timestamp::default(),
            terms_at: Timestamp::default(),
            store_time_at: Timestamp::default(),
            awaits_time: false,
            writes_after: Timestamp::default(),
            has_all_counters: false,
        })
    }

    /// Returns its own time.
    pub(super) fn time(&self, now: Timestamp) -> Timestamp {
        self.clock.at(now).minus_ms(self.stopped_ms)
    }

    /// Lets its clock stand still for a while.
    pub(super) fn stop_clock(&mut self, for_ms: u64) {
        self.stopped_ms += for_ms;
    }

    /// Adds the rows of a batch that was counted for the first time, of rules with terms.
    pub(super) fn count(&mut self, batch: &Batch) {
        for row in &batch.rows {
            let Some(entry) = row.counter.and_then(|index| batch.counters.get(index as usize)) else { continue };
            if self.budgets.ledger().terms(&entry.rule).is_some() {
                self.offered.entry(entry.id).or_insert_with(|| (entry.rule.clone(), 0)).1 += asked_for(row);
            }
        }
    }
}

fn asked_for(row: &Row) -> u64 {
    let counts = row.outcome.is_admitted() || matches!(row.outcome, Outcome::Denied(_));
    if counts { u64::try_from(row.cost).unwrap_or(0) } else { 0 }
}
