//! Figures of the demo: what its callers got, and the lag of every signal that a call has caused.
//!
//! A falling threshold causes signals, too: before an aggregator announces it, it signals every counter that it had
//! left out. The age of their calls is no lag, because nothing was due before.

use std::cmp::Reverse;
use std::collections::HashMap;

use hdrhistogram::Histogram;
use tollgate::{Quota, Source};
use tollgate_core::clock::Timestamp;
use tollgate_core::counter::CounterId;
use tollgate_core::messages::signals::SignalBatch;
use tollgate_sim::figures::{as_us, histogram};

use super::load::ABUSER;
use super::summary::{SourceSummary, Summary};
use crate::demo::record::{DemoCall, DemoRecord};

/// Number of callers in the live display.
const TOP_LEN: usize = 5;

/// Lags of the signals of one run.
pub(super) struct SignalLags {
    pub(super) lag_ms: Histogram<u64>,
    /// Number of signals that a falling threshold caused.
    pub(super) caught_up: u64,
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
}

impl SignalLags {
    pub(super) fn new() -> Self {
        Self { lag_ms: histogram(), caught_up: 0, signalled: HashMap::new() }
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
}

/// Returns the figures since the last time.
pub(super) fn figures(record: &mut DemoRecord) -> Figures {
    let mut figures = Figures::default();
    for call in record.take_new() {
        *(if call.decision.allowed { &mut figures.allowed } else { &mut figures.denied }) += 1;
        figures.by_source[call.decision.source as usize] += 1;
    }
    let mut callers: HashMap<u32, (u64, u64)> = HashMap::new();
    for call in &record.calls {
        let (calls, denied) = callers.entry(call.origin).or_default();
        *calls += 1;
        *denied += u64::from(!call.decision.allowed);
    }
    figures.top = callers.into_iter().collect();
    figures.top.sort_unstable_by_key(|(caller, (calls, _))| (Reverse(*calls), *caller));
    figures.top.truncate(TOP_LEN);
    figures
}

/// Evaluates the whole run against an exact count, in store time.
pub(super) fn summary(record: &DemoRecord, lags: &SignalLags, (quota, sub_window_ms): (Quota, u64)) -> Summary {
    let mut by_source = Source::ALL.map(|_| SourceSummary { allowed: 0, denied: 0, latency_us: histogram() });
    for call in &record.calls {
        let of_source = &mut by_source[call.decision.source as usize];
        of_source.latency_us.saturating_record(as_us(call.took));
        *(if call.decision.allowed { &mut of_source.allowed } else { &mut of_source.denied }) += 1;
    }
    let judgement = record.judge(quota, |call| call.decision.at, |call| call.origin);
    let denied = |call: &&DemoCall| call.origin != ABUSER && !call.decision.allowed;
    let honest_denied = record.calls.iter().filter(denied).count() as u64;
    let admitted = |call: &&DemoCall| call.origin == ABUSER && call.decision.allowed;
    let abuser_admitted = record.calls.iter().filter(admitted).count() as u64;
    let (lag_ms, caught_up) = (lags.lag_ms.clone(), lags.caught_up);
    Summary { quota, sub_window_ms, by_source, judgement, honest_denied, abuser_admitted, lag_ms, caught_up }
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
            let mut lags = SignalLags::new();
            let batch = signal(units, CALLED, threshold_permille);
            for later_ms in [0, 100] {
                lags.received(&batch, CALLED.plus_ms(lag_ms + later_ms));
            }
            let case = format!("{units} units, threshold {threshold_permille}");
            assert_eq!((lags.lag_ms.len(), lags.caught_up), (recorded, caught_up), "{case}, and a repetition");
            assert_eq!(lags.lag_ms.max(), if recorded > 0 { lag_ms } else { 0 }, "{case}");
        }
    }
}
