//! The demo's record: every decision, and the lag of every signal.

use std::collections::HashMap;
use std::time::Duration;

use hdrhistogram::Histogram;
use tollgate::{Decision, Quota, Source};
use tollgate_core::clock::Timestamp;
use tollgate_core::counter::CounterId;
use tollgate_core::messages::signals::SignalBatch;

use super::summary::{SourceSummary, Summary};
use crate::oracle::Oracle;

/// Longest lag or latency that a histogram distinguishes, in microseconds.
const MEASURED_US_MAX: u64 = 10_000_000;
/// Number of callers in the live display.
const TOP_LEN: usize = 5;

/// Record of one run.
pub(super) struct Recorder {
    quota: Quota,
    decisions: Vec<RecordedDecision>,
    reported: usize,
    latency_us: HashMap<Source, Histogram<u64>>,
    lag_ms: Histogram<u64>,
    /// Time of the newest charge in the last signal of each counter.
    signalled: HashMap<CounterId, Timestamp>,
}

/// Figures for the live display: counts since the last one, and the top callers of the whole run.
#[derive(Clone, Debug, Default)]
pub(super) struct Figures {
    pub(super) allowed: u64,
    pub(super) denied: u64,
    pub(super) by_source: [u64; 4],
    pub(super) top: Vec<(u32, u64, u64)>,
    pub(super) lag_p50_ms: u64,
}

#[derive(Clone, Copy)]
struct RecordedDecision {
    at: Timestamp,
    caller: u32,
    allowed: bool,
    source: Source,
}

fn histogram() -> Histogram<u64> {
    Histogram::new_with_max(MEASURED_US_MAX, 3).expect("bounds that are in order")
}

impl Recorder {
    pub(super) fn new(quota: Quota) -> Self {
        Self {
            quota,
            decisions: Vec::new(),
            reported: 0,
            latency_us: HashMap::new(),
            lag_ms: histogram(),
            signalled: HashMap::new(),
        }
    }

    pub(super) fn decided(&mut self, caller: u32, decision: &Decision, took: Duration) {
        let took_us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.latency_us.entry(decision.source).or_insert_with(histogram).saturating_record(took_us);
        self.decisions.push(RecordedDecision {
            at: decision.at,
            caller,
            allowed: decision.allowed,
            source: decision.source,
        });
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
        for recorded in &self.decisions[self.reported..] {
            *(if recorded.allowed { &mut figures.allowed } else { &mut figures.denied }) += 1;
            figures.by_source[recorded.source as usize] += 1;
        }
        self.reported = self.decisions.len();
        let mut callers: HashMap<u32, (u64, u64)> = HashMap::new();
        for recorded in &self.decisions {
            let (calls, denied) = callers.entry(recorded.caller).or_default();
            *calls += 1;
            *denied += u64::from(!recorded.allowed);
        }
        figures.top = callers.into_iter().map(|(caller, (calls, denied))| (caller, calls, denied)).collect();
        figures.top.sort_unstable_by_key(|(caller, calls, _)| (std::cmp::Reverse(*calls), *caller));
        figures.top.truncate(TOP_LEN);
        figures
    }

    /// Evaluates the whole run against an exact count.
    pub(super) fn summary(&mut self) -> Summary {
        // In order of store time; within one millisecond, in order of the answers.
        self.decisions.sort_by_key(|recorded| recorded.at);
        let mut oracles: HashMap<u32, Oracle> = HashMap::new();
        let (mut over, mut under, mut worst) = (0, 0, 0);
        for recorded in &self.decisions {
            let oracle = oracles.entry(recorded.caller).or_insert_with(|| Oracle::new(self.quota));
            if recorded.allowed {
                over += u64::from(oracle.admit(recorded.at, 1));
                worst = worst.max(oracle.units().saturating_sub(self.quota.units()));
            } else {
                under += u64::from(oracle.has_room(recorded.at, 1));
            }
        }
        let of_source = |source: Source| {
            let count = |allowed| self.decisions.iter().filter(|n| n.source == source && n.allowed == allowed).count();
            let latency = self.latency_us.get(&source);
            let quantile = |q| latency.map_or(0, |latency| latency.value_at_quantile(q));
            SourceSummary {
                source,
                allowed: count(true),
                denied: count(false),
                p50_us: quantile(0.5),
                p99_us: quantile(0.99),
            }
        };
        Summary {
            quota: self.quota,
            by_source: Source::ALL.map(of_source).into(),
            over_admitted: over,
            worst_excess: worst,
            under_admitted: under,
            signals: self.lag_ms.len(),
            lag_p50_ms: self.lag_ms.value_at_quantile(0.5),
            lag_p99_ms: self.lag_ms.value_at_quantile(0.99),
        }
    }
}
