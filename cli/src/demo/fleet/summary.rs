//! The demo's summary.

use std::fmt;

use hdrhistogram::Histogram;
use tollgate::{Quota, Source};
use tollgate_sim::figures::{count, percent, plain_table};

use super::settings::{ABUSER_PERIOD_MS, CALLERS, LENGTH, QUOTA_UNITS, QUOTA_WIDTH_MS};
use crate::demo::record::DemoJudgement;

/// Largest excess of a key over its quota that the demo aims at, in percent of the quota.
const EXCESS_PERCENT_MAX: u64 = 5;

pub(super) struct Summary {
    pub(super) quota: Quota,
    /// Length of a sub-window of the quota.
    pub(super) sub_window_ms: u64,
    /// Decisions, in the order of [`Source::ALL`].
    pub(super) by_source: [SourceSummary; Source::ALL.len()],
    pub(super) judgement: DemoJudgement,
    /// Denials of callers other than the abuser, whose demand is below the quota.
    pub(super) honest_denied: u64,
    /// Calls of the abuser that were admitted.
    pub(super) abuser_admitted: u64,
    /// Time from a charge to the signal that it caused.
    pub(super) lag_ms: Histogram<u64>,
    /// Number of signals that a falling threshold caused.
    pub(super) caught_up: u64,
}

pub(super) struct SourceSummary {
    pub(super) allowed: u64,
    pub(super) denied: u64,
    /// Duration of a check.
    pub(super) latency_us: Histogram<u64>,
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = plain_table(&["source", "admitted", "denied", "p50 ms", "p99 ms"], 1);
        for (source, of) in Source::ALL.into_iter().zip(&self.by_source) {
            let ms = |quantile| {
                let us = of.latency_us.value_at_quantile(quantile);
                format!("{}.{:03}", us / 1_000, us % 1_000)
            };
            table.add_row([source.to_string(), count(of.allowed), count(of.denied), ms(0.5), ms(0.99)]);
        }
        writeln!(f, "{table}\n")?;
        let DemoJudgement { over_admitted, under_admitted, fullest } = self.judgement;
        let worst_excess = fullest.saturating_sub(self.quota.units());
        let is_within = worst_excess * 100 <= self.quota.units() * EXCESS_PERCENT_MAX;
        writeln!(
            f,
            "over-admitted   {} calls; the worst key was {} units above {}:\n                {} of its quota, {} the aim of {EXCESS_PERCENT_MAX}%",
            count(over_admitted),
            worst_excess,
            self.quota,
            percent(worst_excess, self.quota.units()),
            if is_within { "within" } else { "ABOVE" },
        )?;
        let denied: u64 = self.by_source.iter().map(|of| of.denied).sum();
        writeln!(
            f,
            "under-admitted  {1} of {2} denials had room in an exact window: units are\n                counted by sub-windows of {0} ms, and free up to {0} ms late,\n                in which the abuser calls {3} times; it got {4} of the {5} calls\n                that its quota allows in {6} s",
            self.sub_window_ms,
            count(under_admitted),
            count(denied),
            self.sub_window_ms / ABUSER_PERIOD_MS,
            count(self.abuser_admitted),
            count(QUOTA_UNITS * LENGTH.as_secs() * 1_000 / QUOTA_WIDTH_MS),
            LENGTH.as_secs(),
        )?;
        writeln!(
            f,
            "honest callers  {} calls of {CALLERS} callers below their quota were denied",
            count(self.honest_denied)
        )?;
        write!(
            f,
            "signal lag      p50 {} ms, p99 {} ms from a call to its signal ({});\n                {} more told of older calls when the store became unavailable",
            self.lag_ms.value_at_quantile(0.5),
            self.lag_ms.value_at_quantile(0.99),
            count(self.lag_ms.len()),
            count(self.caught_up)
        )
    }
}
