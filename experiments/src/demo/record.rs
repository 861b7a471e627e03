//! The demo's record: every decision, and the lag of every signal.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::time::Duration;

use hdrhistogram::Histogram;
use tollgate::{Decision, Quota, Source};
use tollgate_core::clock::Timestamp;
use tollgate_core::counter::CounterId;
use tollgate_core::messages::signals::SignalBatch;

use super::summary::{SourceSummary, Summary};
use crate::figures::{as_us, histogram};
use crate::oracle::Oracle;

/// Number of callers in the live display.
const TOP_LEN: usize = 5;

/// Record of one run.
pub(super) struct Recorder {
    quota: Quota,
    /// Decisions, each with its caller and the duration of its check.
    pub(super) decisions: Vec<(u32, Decision, Duration)>,
    reported: usize,
    lag_ms: Histogram<u64>,
    /// Time of the newest charge in the last signal of each counter.
    signalled: HashMap<CounterId, Timestamp>,
}

/// Figures for the live display: counts since the last one, and the top callers of the whole run.
#[derive(Default)]
pub(super) struct Figures {
    pub(super) allowed: u64,
    pub(super) denied: u64,
    pub(super) by_source: [u64; Source::ALL.len()],
    /// Callers, each with its calls and the denied ones among them.
    pub(super) top: Vec<(u32, (u64, u64))>,
    pub(super) lag_p50_ms: u64,
}

impl Recorder {
    pub(super) fn new(quota: Quota) -> Self {
        Self { quota, decisions: Vec::new(), reported: 0, lag_ms: histogram(), signalled: HashMap::new() }
    }

    /// Records the age of the newest charge in each signal.
    pub(super) fn received(&mut self, batch: &SignalBatch, now: Timestamp) {
        for signal in &batch.signals {
            // A repeated signal has no lag.
            if self.signalled.insert(signal.counter, signal.newest_at) != Some(signal.newest_at) {
                self.lag_ms.saturating_record(now.ms_since(signal.newest_at));
            }
        }
    }

    /// Returns the figures since the last call.
    pub(super) fn figures(&mut self) -> Figures {
        let mut figures = Figures { lag_p50_ms: self.lag_ms.value_at_quantile(0.5), ..Figures::default() };
        for (_, decision, _) in &self.decisions[self.reported..] {
            *(if decision.allowed { &mut figures.allowed } else { &mut figures.denied }) += 1;
            figures.by_source[decision.source as usize] += 1;
        }
        self.reported = self.decisions.len();
        let mut callers: HashMap<u32, (u64, u64)> = HashMap::new();
        for (caller, decision, _) in &self.decisions {
            let (calls, denied) = callers.entry(*caller).or_default();
            *calls += 1;
            *denied += u64::from(!decision.allowed);
        }
        figures.top = callers.into_iter().collect();
        figures.top.sort_unstable_by_key(|(caller, (calls, _))| (Reverse(*calls), *caller));
        figures.top.truncate(TOP_LEN);
        figures
    }

    /// Evaluates the whole run against an exact count.
    pub(super) fn summary(&mut self) -> Summary {
        // In order of store time; within one millisecond, in order of the answers.
        self.decisions.sort_by_key(|(_, decision, _)| decision.at);
        let mut oracles: HashMap<u32, Oracle> = HashMap::new();
        let mut summary = Summary {
            quota: self.quota,
            by_source: Source::ALL.map(|_| SourceSummary { allowed: 0, denied: 0, latency_us: histogram() }),
            over_admitted: 0,
            worst_excess: 0,
            under_admitted: 0,
            lag_ms: self.lag_ms.clone(),
        };
        for (caller, decision, took) in &self.decisions {
            let of_source = &mut summary.by_source[decision.source as usize];
            of_source.latency_us.saturating_record(as_us(*took));
            let oracle = oracles.entry(*caller).or_insert_with(|| Oracle::new(self.quota));
            if decision.allowed {
                of_source.allowed += 1;
                summary.over_admitted += u64::from(oracle.admit(decision.at, 1));
                summary.worst_excess = summary.worst_excess.max(oracle.units().saturating_sub(self.quota.units()));
            } else {
                of_source.denied += 1;
                summary.under_admitted += u64::from(oracle.has_room(decision.at, 1));
            }
        }
        summary
    }
}
