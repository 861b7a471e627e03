//! Entries and bytes of the ledger for many counters, of which a half passes the floors of the regions and the others do not.
//!
//! Each entry is encoded as production encodes it. Kafka's framing is not contained.

use std::collections::BTreeSet;

use fastrand::Rng;
use tollgate_core::counter::CounterId;
use tollgate_core::messages::ledger::LedgerEntry;
use tollgate_sim::figures::ratio;

use tollgate_wire::Record;

use super::settings::{GlobalQuotaSettings, REGIONS};
use super::world::{CallerPlan, RegionsOutcome, RegionsRun, counter_id};
use crate::scenario::arrivals::MINUTE_MS;

/// Entries of some counters.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct EntryTally {
    pub(super) entries: u64,
    pub(super) renewals: u64,
    pub(super) bytes: u64,
}

/// Entries of counters after the first minutes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LedgerCost {
    /// Number of counters of each kind, and the time, in s.
    pub(super) counters: u64,
    pub(super) seconds: u64,
    /// Counters whose demand passes floors, and those whose demand is below them.
    pub(super) above: EntryTally,
    pub(super) below: EntryTally,
    pub(super) is_violated: bool,
}

impl EntryTally {
    /// Counts the entries of counters from an instant on.
    pub(super) fn of(outcome: &RegionsOutcome, since_ms: u64, is_counted: impl Fn(CounterId) -> bool) -> Self {
        let mut tally = Self::default();
        for (_, record) in outcome.ledger.iter().filter(|(at_ms, _)| *at_ms >= since_ms) {
            let counter = match &record.entry {
                LedgerEntry::Request(request) => request.counter,
                LedgerEntry::Grant { counter, .. }
                | LedgerEntry::Renewal { counter, .. }
                | LedgerEntry::GiveBack { counter, .. }
                | LedgerEntry::Expiry { counter, .. } => *counter,
                LedgerEntry::Terms(_) | LedgerEntry::FloorGiveBack { .. } => continue,
            };
            if is_counted(counter) {
                tally.entries += 1;
                tally.renewals += u64::from(matches!(record.entry, LedgerEntry::Renewal { .. }));
                tally.bytes += record.encode().len() as u64;
            }
        }
        tally
    }
}

impl LedgerCost {
    /// Returns the cost of a number of counters in no time.
    pub(super) fn without_entries(counters: u32) -> Self {
        Self { counters: counters.into(), ..Self::default() }
    }

    /// Returns a number of all counters of a kind per second.
    pub(super) fn per_s(&self, number: u64) -> f64 {
        ratio(number, self.seconds)
    }

    /// Returns a number of one counter per second.
    pub(super) fn per_counter_s(&self, number: u64) -> f64 {
        ratio(number, self.counters * self.seconds)
    }
}

/// Runs the counters at demands that do not change.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "rates of calls"
)]
pub(super) fn ledger_cost(settings: &GlobalQuotaSettings, of_kind: u32, seed: u64, tick_ms: u64) -> LedgerCost {
    let cost = &settings.cost;
    let mut rng = Rng::with_seed(seed);
    let run_ms = (cost.warm_min + cost.minutes) * MINUTE_MS;
    let mut callers = vec![Vec::new(); REGIONS.len()];
    for counter in 0..2 * of_kind {
        let weights: Vec<f64> = REGIONS.iter().map(|_| 0.1 + rng.f64()).collect();
        let sum: f64 = weights.iter().sum();
        for (region, weight) in weights.iter().enumerate() {
            let is_above = counter < of_kind;
            let of_quota = cost.demand * cost.quota as f64 * weight / sum;
            let of_floor = cost.demand_below * cost.floor as f64;
            let per_minute = (if is_above { of_quota } else { of_floor }).round() as u64;
            callers[region].push(CallerPlan { counter, from_ms: 0, until_ms: run_ms, per_minute });
        }
    }
    let (quota, floor, counters) = (cost.quota, cost.floor, 2 * of_kind);
    let run = RegionsRun { seed, run_ms, tick_ms, counters, quota, floor, callers, cuts: Vec::new() };
    let outcome = run.outcome(settings);
    let above: BTreeSet<CounterId> = (0..of_kind).map(counter_id).collect();
    let since_ms = cost.warm_min * MINUTE_MS;
    LedgerCost {
        counters: u64::from(of_kind),
        seconds: cost.minutes * 60,
        above: EntryTally::of(&outcome, since_ms, |counter| above.contains(&counter)),
        below: EntryTally::of(&outcome, since_ms, |counter| !above.contains(&counter)),
        is_violated: outcome.is_violated,
    }
}
