//! Counters that ask for units beyond the number of those that may take part.

use tollgate_aggregator_engine::budget::ledger::{COUNTERS_LEN_MAX, Ledger};
use tollgate_core::messages::ledger::{BudgetRequest, EntryId, LedgerEntry, LedgerRecord, Terms};

use super::settings::{CostSettings, REGIONS};
use super::world::counter_id;
use crate::scenario::arrivals::MINUTE_MS;

/// Part of the largest number of counters that ask beyond it, as a divisor.
const BEYOND_PARTS: u32 = 10;

/// Counters that ask for units, all at once.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CapTally {
    /// Number that asks.
    pub(super) asking: u64,
    /// Number whose requests count.
    pub(super) taken: u64,
    /// Units of a counter that is left out, at each region.
    pub(super) left_out_units: u64,
}

/// Lets more counters ask than may take part: a ledger reads one request of each.
pub(super) fn cap(cost: &CostSettings) -> CapTally {
    let asking = u32::try_from(COUNTERS_LEN_MAX).unwrap_or(u32::MAX / 2);
    let asking = asking + asking / BEYOND_PARTS;
    let region = REGIONS[0];
    let id = |sequence| EntryId { writer: 1, sequence };
    let terms = Terms {
        rule: "global".into(),
        generation: 1,
        quota: cost.quota,
        window_ms: MINUTE_MS,
        term_ms: MINUTE_MS,
        key_fingerprint: 0,
        floors: REGIONS.iter().map(|name| ((*name).into(), cost.floor)).collect(),
    };
    let mut ledger = Ledger::default();
    ledger.apply(&LedgerRecord { id: id(1), entry: LedgerEntry::Terms(terms) }).expect("the first terms");
    let request = |counter| BudgetRequest { terms: id(1), counter, region: region.into(), wants: cost.quota };
    let takes_part = |number: &u32| {
        let entry = LedgerEntry::Request(request(counter_id(*number)));
        ledger.apply(&LedgerRecord { id: id(u64::from(*number) + 2), entry }).is_ok()
    };
    let taken = (0..asking).filter(takes_part).count() as u64;
    let left_out = ledger.budget("global", counter_id(asking - 1));
    CapTally { asking: asking.into(), taken, left_out_units: left_out.map_or(0, |budget| budget.held(region)) }
}
