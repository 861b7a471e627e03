//! Numbers and sentence of the experiment.

use indexmap::IndexMap;
use tollgate_sim::figures::ratio;

use super::results::GlobalQuota;
use super::settings::REGIONS;
use super::{DayTally, GlobalQuotaSettings, RotationTally};

/// Names of the other ways.
pub(super) const BASELINES: [&str; 4] = ["static shares", "central store", "free zone", "regional limits"];

pub(super) fn percent(part: u64, whole: u64) -> f64 {
    100.0 * ratio(part, whole)
}

#[expect(clippy::cast_precision_loss, reason = "a time")]
pub(super) fn seconds(ms: u64) -> f64 {
    ms as f64 / 1_000.0
}

impl DayTally {
    /// Returns the entries of the ledger per second.
    pub(super) fn entries_s(&self, settings: &GlobalQuotaSettings) -> f64 {
        ratio(self.entries.entries, settings.day_ms() / 1_000)
    }
}

pub(super) fn numbers(settings: &GlobalQuotaSettings, all: &GlobalQuota) -> IndexMap<String, f64> {
    let mut numbers = IndexMap::new();
    let mut insert = |name: String, value: f64| {
        numbers.insert(name, value);
    };
    let quota = settings.quota;
    for (interval_ms, day) in settings.rebalance_ms.iter().zip(&all.days) {
        let name = format!("day, {} s", seconds(*interval_ms));
        insert(format!("{name}: admitted, % of exact"), percent(day.admitted, day.exact));
        insert(format!("{name}: fullest minute, % of quota"), percent(day.fullest, quota));
        insert(format!("{name}: ledger entries per second"), day.entries_s(settings));
        insert(format!("{name}: void entries, %"), percent(day.void, day.entries.entries));
    }
    for (name, way) in BASELINES.iter().zip(&all.baselines) {
        insert(format!("{name}: admitted, % of exact"), percent(way.admitted, all.days[0].exact));
        insert(format!("{name}: fullest minute, % of quota"), percent(way.fullest, quota));
    }
    for (region, cut) in REGIONS.iter().zip(&all.outage.cuts) {
        insert(format!("{region} cut off: admitted, % of possible"), percent(cut.admitted, cut.possible));
        insert(format!("{region} cut off: admitted, % of exact"), percent(cut.admitted, cut.exact));
    }
    insert("cut off: fullest minute, % of quota".to_owned(), percent(all.outage.fullest, quota));
    for (stay_s, tally) in settings.rotation_s.iter().zip(&all.rotations) {
        let name = format!("rotation, {stay_s} s");
        insert(format!("{name}: fullest minute, % of quota"), percent(tally.fullest, quota));
        insert(format!("{name}: admitted, % of exact"), percent(tally.admitted, tally.exact));
        let regional = percent(tally.fullest_regional, quota);
        insert(format!("{name}: fullest minute with regional limits, % of quota"), regional);
    }
    for cost in &all.costs {
        let name = format!("{} counters above their floors", cost.counters);
        insert(format!("{name}: entries per second of each"), cost.per_counter_s(cost.above.entries));
        insert(format!("{name}: ledger entries per second"), cost.per_s(cost.above.entries));
        insert(format!("{name}: ledger kB per second"), cost.per_s(cost.above.bytes) / 1_000.0);
        insert(format!("{name}: bytes of an entry"), ratio(cost.above.bytes, cost.above.entries));
        insert(format!("{name}: renewals, % of entries"), percent(cost.above.renewals, cost.above.entries));
        let below = format!("{} counters below their floors: ledger entries per second", cost.counters);
        insert(below, cost.per_s(cost.below.entries));
    }
    insert("largest number of counters that take part".to_owned(), ratio(all.cap.taken, 1));
    insert("states that must not be".to_owned(), f64::from(violated(all)));
    numbers
}

/// Returns the number of runs in which the regions held or admitted more than the quota, or readers of the ledger differed.
fn violated(all: &GlobalQuota) -> u32 {
    let days = all.days.iter().map(|day| day.is_violated);
    let rotations = all.rotations.iter().map(|tally| tally.is_violated);
    let costs = all.costs.iter().map(|cost| cost.is_violated);
    days.chain(rotations).chain(costs).chain([all.outage.is_violated]).map(u32::from).sum()
}

/// States the share of the exact limiter, the fullest minutes, and the cost.
pub(super) fn finding(settings: &GlobalQuotaSettings, all: &GlobalQuota) -> String {
    let (least, most) = settings.demands();
    let (Some(day), Some(cost)) = (all.days.first(), all.costs.iter().max_by_key(|cost| cost.counters)) else {
        return String::new();
    };
    let quota = settings.quota;
    let cuts = all.outage.cuts.iter().map(|cut| percent(cut.admitted, cut.possible));
    let worst_cut = cuts.fold(f64::MAX, f64::min);
    let most_of = |value: fn(&RotationTally) -> u64| percent(all.rotations.iter().map(value).max().unwrap_or(0), quota);
    let [shares, central, free, regional] = &all.baselines[..] else { return String::new() };
    format!(
        "While the load moves around the globe, at {least:.2} to {most:.2} quotas in all, regions with budgets of one quota admit \
         {:.1}% of the calls that one exact limiter admits, and no minute of all regions holds more than {:.0}% of the quota. A central \
         store admits {:.1}%, but adds {} ms to the calls of other regions; static shares admit {:.0}%. A minimum of {} units that each \
         region admits without asking lets {:.0}% pass, limits of each region {:.0}%. While a region is cut off, at least {worst_cut:.0}% \
         of what is possible is admitted. A client that moves from region to region gets at most {:.1}% of the quota in a minute, \
         {:.0}% with limits of each region. {} counters whose demand passes their floors make {:.0} entries \
         and {:.0} kB a second in the ledger, and as many others {:.0} entries.",
        percent(day.admitted, day.exact),
        percent(day.fullest, quota),
        percent(central.admitted, day.exact),
        2 * settings.link_ms,
        percent(shares.admitted, day.exact),
        settings.free,
        percent(free.fullest, quota),
        percent(regional.fullest, quota),
        most_of(|tally| tally.fullest),
        most_of(|tally| tally.fullest_regional),
        cost.counters,
        cost.per_s(cost.above.entries),
        cost.per_s(cost.above.bytes) / 1_000.0,
        cost.per_s(cost.below.entries),
    )
}
