//! Tables of the experiment.

use tollgate_sim::figures::ratio;

use super::cap::CapTally;
use super::cost::{EntryTally, LedgerCost};
use super::findings::{BASELINES, percent, seconds};
use super::results::GlobalQuota;
use super::settings::{GlobalQuotaSettings, REGIONS};
use crate::scenario::ResultTable;

pub(super) fn tables(settings: &GlobalQuotaSettings, all: &GlobalQuota) -> Vec<ResultTable> {
    vec![ways(settings, all), cuts(all), rotations(settings, all), cost(settings, all)]
}

/// Compares the ways on one day.
fn ways(settings: &GlobalQuotaSettings, all: &GlobalQuota) -> ResultTable {
    let row = |name: String, shares: [f64; 2], latency_ms: u64, entries: f64| {
        let [admitted, fullest] = shares.map(|share| format!("{share:.1}%"));
        vec![name, admitted, fullest, format!("{latency_ms} ms"), format!("{entries:.2}")]
    };
    let days = settings.rebalance_ms.iter().zip(&all.days).map(|(interval_ms, day)| {
        let shares = [percent(day.admitted, day.exact), percent(day.fullest, settings.quota)];
        row(format!("budgets, {} s", seconds(*interval_ms)), shares, 0, day.entries_s(settings))
    });
    let ways = BASELINES.iter().zip(&all.baselines).map(|(name, way)| {
        let shares = [percent(way.admitted, all.days[0].exact), percent(way.fullest, settings.quota)];
        // A free zone asks for the units beyond its minimum.
        let latency_ms = if ["central store", "free zone"].contains(name) { 2 * settings.link_ms } else { 0 };
        row((*name).to_owned(), shares, latency_ms, 0.0)
    });
    ResultTable {
        caption: "A day: admitted calls in percent of those of one exact limiter; fullest minute of all regions in percent of the \
                  quota; time that a call outside the home region waits for another region; entries of the ledger per second. \
                  Budgets follow the demand in intervals of 0.2 to 5 s."
            .replace("0.2 to 5 s", &intervals(settings)),
        header: ["", "admitted", "fullest minute", "waits", "entries/s"].map(str::to_owned).to_vec(),
        rows: days.chain(ways).collect(),
    }
}

/// Returns the shortest and the longest interval.
fn intervals(settings: &GlobalQuotaSettings) -> String {
    let [least, most] = [settings.rebalance_ms.iter().min(), settings.rebalance_ms.iter().max()];
    let text = |ms: Option<&u64>| seconds(ms.copied().unwrap_or_default()).to_string();
    format!("{} to {} s", text(least), text(most))
}

/// States the admissions while each region is cut off.
fn cuts(all: &GlobalQuota) -> ResultTable {
    let row = |(region, cut): (&&str, &super::CutTally)| {
        vec![
            (*region).to_owned(),
            cut.admitted.to_string(),
            format!("{:.1}%", percent(cut.admitted, cut.possible)),
            format!("{:.1}%", percent(cut.admitted, cut.exact)),
        ]
    };
    ResultTable {
        caption: "Each region cut off at its noon: admitted calls of all regions; in percent of what the reachable regions and the live \
                  budget and floor of the others could admit; in percent of an exact limiter that reaches all. The ledger is in eu."
            .to_owned(),
        header: ["cut off", "admitted", "of possible", "of exact"].map(str::to_owned).to_vec(),
        rows: REGIONS.iter().zip(&all.outage.cuts).map(row).collect(),
    }
}

/// States the units of clients that move.
fn rotations(settings: &GlobalQuotaSettings, all: &GlobalQuota) -> ResultTable {
    let row = |(stay_s, tally): (&u64, &super::RotationTally)| {
        vec![
            format!("{stay_s} s"),
            format!("{:.1}%", percent(tally.fullest, settings.quota)),
            format!("{:.1}%", percent(tally.admitted, tally.exact)),
            format!("{:.0}%", percent(tally.fullest_regional, settings.quota)),
        ]
    };
    ResultTable {
        caption: format!(
            "A client of {} quotas that stays at each region for a time: fullest minute in percent of the quota, admitted calls in \
             percent of one exact limiter; fullest minute with limits of each region",
            settings.rotation_demand
        ),
        header: ["stays for", "fullest minute", "admitted", "regional limits"].map(str::to_owned).to_vec(),
        rows: settings.rotation_s.iter().zip(&all.rotations).map(row).collect(),
    }
}

/// States the entries and bytes of the ledger, and the counters beyond the cap.
fn cost(settings: &GlobalQuotaSettings, all: &GlobalQuota) -> ResultTable {
    let row = |cost: &LedgerCost, kind: &str, tally: &EntryTally| {
        vec![
            format!("{} {kind}", cost.counters),
            format!("{:.3}", cost.per_counter_s(tally.entries)),
            format!("{:.0}%", percent(tally.renewals, tally.entries)),
            format!("{:.0}", ratio(tally.bytes, tally.entries)),
            format!("{:.0}", cost.per_s(tally.entries)),
            format!("{:.0} kB", cost.per_s(tally.bytes) / 1_000.0),
        ]
    };
    let rows = all
        .costs
        .iter()
        .flat_map(|cost| [row(cost, "above floors", &cost.above), row(cost, "below floors", &cost.below)]);
    let CapTally { asking, taken, left_out_units } = all.cap;
    ResultTable {
        caption: format!(
            "Ledger at demands that do not change, with a quota of {} a minute: entries of a counter per second, the part of renewals, \
             bytes of an entry as production encodes it; entries and bytes of all counters per second. Only counters above their floors \
             take part, at most {taken}: of {asking} that ask, {} are left out, and each of those has its floor of {left_out_units} at \
             each region.",
            settings.cost.quota,
            asking - taken,
        ),
        header: ["counters", "entries/s of each", "renewals", "bytes", "entries/s", "bytes/s"]
            .map(str::to_owned)
            .to_vec(),
        rows: rows.collect(),
    }
}
