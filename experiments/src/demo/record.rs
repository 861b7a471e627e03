//! The demo's record: every decision, and the lag of every signal that a call has caused.
//!
//! A falling threshold causes signals, too: before an aggregator announces it, it signals every counter that it had
//! left out. The age of their calls is no lag, because nothing was due before.

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

pub(super) struct Recorder {
    quota: Quota,
    /// Decisions, each with its caller and the duration of its check.
    pub(super) decisions: Vec<(u32, Decision, Duration)>,
    reported: usize,
    lag_ms: Histogram<u64>,
    /// Number of signals that a falling threshold caused.
    caught_up: u64,
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
        Self { quota, decisions: Vec::new(), reported: 0, lag_ms: histogram(), caught_up: 0, signalled: HashMap::new() }
    }

    /// Records the age of the newest charge in each signal.
    pub(super) fn received(&mut self, batch: &SignalBatch, now: Timestamp) {
        for signal in &batch.signals {
            // A repeated signal has no lag.
            if self.signalled.insert(signal.counter, signal.newest_at) == Some(signal.newest_at) {
                continue;
            }
            if batch.is_of_change(signal, now) {
                self.lag_ms.saturating_record(now.ms_since(signal.newest_at));
            } else {
                self.caught_up += 1;
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
            caught_up: self.caught_up,
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

#[cfg(test)]
mod tests {
    use tollgate_core::messages::signals::Signal;
    use tollgate_core::window::{Ring, Window};

    use super::*;

    const CALLED: Timestamp = Timestamp::from_ms(1_000_000);

    /// Signal of so many of 100 units, of which the last was charged at an instant, while this threshold is in force.
    fn signal(units: u64, newest_at: Timestamp, threshold_permille: u32) -> SignalBatch {
        let window = Window::new(2_000, 10).expect("a window");
        let mut admitted = Ring::new(window);
        admitted.add(window.sub_window(CALLED), units);
        let signal = Signal {
            counter: CounterId::from_u128(1),
            rule: "per-key".into(),
            label: "caller".into(),
            generation: 1,
            quota: 100,
            admitted,
            by_agent: Vec::new(),
            by_others: units,
            denied: 0,
            rate_milli: 0,
            budget: None,
            newest_at,
            charged_at: newest_at,
        };
        SignalBatch {
            aggregator: "aggregator".into(),
            partition: 0,
            log: 1,
            as_of: 0,
            as_of_appended: newest_at,
            threshold_permille,
            agents: Vec::new(),
            signals: vec![signal],
        }
    }

    /// Before a lower threshold is announced, the counters above it are signalled under the old one. Their calls are old.
    #[test]
    fn the_lag_is_that_of_signals_which_their_own_call_caused() {
        // Units, threshold in force, ms from the call to the signal; recorded lags and signals of older calls.
        let cases = [(4, 500, 225, 0, 1), (50, 500, 3, 1, 0), (4, 0, 3, 1, 0), (4, 40, 3, 1, 0)];
        for (units, threshold_permille, lag_ms, recorded, caught_up) in cases {
            let mut recorder = Recorder::new(super::super::quota());
            let batch = signal(units, CALLED, threshold_permille);
            for later_ms in [0, 100] {
                recorder.received(&batch, CALLED.plus_ms(lag_ms + later_ms));
            }
            let summary = recorder.summary();
            let case = format!("{units} units, threshold {threshold_permille}");
            assert_eq!((summary.lag_ms.len(), summary.caught_up), (recorded, caught_up), "{case}, and a repetition");
            assert_eq!(summary.lag_ms.max(), if recorded > 0 { lag_ms } else { 0 }, "{case}");
        }
    }
}
