//! The demo's summary.

use std::fmt;

use indicatif::HumanCount;
use tollgate::{Quota, Source};

use crate::replay::{percent, plain_table};

/// Largest excess of a key over its quota that counts as correct, in percent of the quota.
const EXCESS_PERCENT_MAX: u64 = 5;

/// Summary of a run.
#[derive(Clone, Debug)]
pub struct Summary {
    /// Quota of each caller.
    pub quota: Quota,
    /// Decisions by source.
    pub by_source: Vec<SourceSummary>,
    /// Calls admitted with more than the quota in the window that ends with them.
    pub over_admitted: u64,
    /// Largest excess over the quota in any window of any key, in units.
    pub worst_excess: u64,
    /// Calls denied although the window had room.
    pub under_admitted: u64,
    /// Signals that were received.
    pub signals: u64,
    /// Median time from a charge to its signal, in ms.
    pub lag_p50_ms: u64,
    /// 99th percentile of that time, in ms.
    pub lag_p99_ms: u64,
}

/// The decisions of one source.
#[derive(Clone, Debug)]
pub struct SourceSummary {
    /// The source.
    pub source: Source,
    /// Calls admitted.
    pub allowed: usize,
    /// Calls denied.
    pub denied: usize,
    /// Median duration of a check, in microseconds.
    pub p50_us: u64,
    /// 99th percentile of the duration of a check, in microseconds.
    pub p99_us: u64,
}

impl Summary {
    /// Returns true if no key exceeded its quota by more than the bound.
    #[must_use]
    pub fn is_within_bound(&self) -> bool {
        self.worst_excess * 100 <= self.quota.units() * EXCESS_PERCENT_MAX
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = plain_table(&["source", "admitted", "denied", "p50 ms", "p99 ms"], 1);
        for of in &self.by_source {
            table.add_row([
                of.source.to_string(),
                HumanCount(of.allowed as u64).to_string(),
                HumanCount(of.denied as u64).to_string(),
                ms(of.p50_us),
                ms(of.p99_us),
            ]);
        }
        writeln!(f, "{table}\n")?;
        let verdict = if self.is_within_bound() { "within" } else { "ABOVE" };
        writeln!(
            f,
            "over-admitted   {} calls; the worst key was {} units above {}:\n                {} of its quota, {verdict} the bound of {EXCESS_PERCENT_MAX}%",
            HumanCount(self.over_admitted),
            self.worst_excess,
            self.quota,
            percent(self.worst_excess, self.quota.units()),
        )?;
        writeln!(
            f,
            "under-admitted  {} calls were denied although the window had room",
            HumanCount(self.under_admitted)
        )?;
        write!(
            f,
            "signal lag      p50 {} ms, p99 {} ms from a call to its signal ({} signals)",
            self.lag_p50_ms,
            self.lag_p99_ms,
            HumanCount(self.signals)
        )
    }
}

fn ms(us: u64) -> String {
    format!("{}.{:03}", us / 1_000, us % 1_000)
}
