//! Figures of a way: its answers judged by an exact list of each caller's admissions, and its traffic per call.

use tollgate_core::clock::Timestamp;
use tollgate_core::rules::Quota;
use tollgate_sim::figures::ratio;
use tollgate_sim::oracle::Oracle;

use super::network::{CounterBytes, Trial, TrialResult};
use super::workload::WayCaller;
use crate::scenario::arrivals::BEGIN;

/// Figures of a way in a fleet of one size.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Measures {
    /// Admissions past the quota, in percent of the admissions.
    pub(super) over: f64,
    /// Denials of callers within their quota although the last minute had room, in percent of their calls.
    pub(super) under: f64,
    /// Units of the fullest minute of a caller, in percent of the quota: of the one that always wants too much from all nodes, of the
    /// one that comes in bursts, and of those that stay at one node.
    pub(super) spread: f64,
    pub(super) burst: f64,
    pub(super) one_node: f64,
    /// Mean time between a call and its answer, in ms.
    pub(super) wait_ms: f64,
    /// Longest time in which a node admits a caller whose quota is used up at another node, in ms; infinite if this does not end, and
    /// none if no caller has used up its quota.
    pub(super) lag_ms: Option<f64>,
    pub(super) messages: f64,
    pub(super) bytes: f64,
    pub(super) store_requests: f64,
    pub(super) counter: CounterBytes,
}

/// Sums over the calls of some callers.
#[derive(Clone, Copy, Default)]
struct WayTally {
    calls: u64,
    admitted: u64,
    over: u64,
    under: u64,
    waited_ms: u64,
    worst: u64,
}

impl Measures {
    /// Returns the units of the fullest minute of any caller, in percent of the quota.
    pub(super) fn worst(&self) -> f64 {
        self.spread.max(self.burst).max(self.one_node)
    }

    /// Judges the answers from an instant on. The traffic is that from this instant on, too.
    pub(super) fn of(outcome: &TrialResult, trial: &Trial, since: Timestamp, calls_per_node_s: u64) -> Self {
        let (quota, nodes) = (trial.quota, trial.nodes);
        // Two answers may be nearer to each other than their decisions, by the delay of an answer.
        let decided = Quota::new(quota.units(), quota.width_ms() - trial.delays.store).expect("a quota in range");
        let mut decided = WayCaller::ALL.map(|_| Oracle::new(decided));
        let mut tallies = [WayTally::default(); WayCaller::ALL.len()];
        let mut oracles = WayCaller::ALL.map(|_| Oracle::new(quota));
        let mut end = BEGIN;
        for answer in &outcome.answers {
            let (oracle, tally) = (&mut oracles[answer.call.caller], &mut tallies[answer.call.caller]);
            end = end.max(answer.call.at);
            let is_wrong = if answer.is_admitted {
                oracle.admit(answer.at, 1);
                decided[answer.call.caller].admit(answer.at, 1)
            } else {
                oracle.has_room(answer.at, 1)
            };
            if answer.at < since {
                continue;
            }
            tally.calls += 1;
            tally.waited_ms += answer.at.ms_since(answer.call.at);
            if answer.is_admitted {
                tally.admitted += 1;
                tally.over += u64::from(is_wrong);
                tally.worst = tally.worst.max(oracle.units());
            } else {
                tally.under += u64::from(is_wrong);
            }
        }
        let sum = |is_in: fn(WayCaller) -> bool, value: fn(&WayTally) -> u64| -> u64 {
            WayCaller::ALL
                .iter()
                .zip(&tallies)
                .filter(|(caller, _)| is_in(**caller))
                .map(|(_, tally)| value(tally))
                .sum()
        };
        let worst = |is_in: fn(WayCaller) -> bool| {
            let of_callers = WayCaller::ALL.iter().zip(&tallies).filter(|(caller, _)| is_in(**caller));
            100.0 * ratio(of_callers.map(|(_, tally)| tally.worst).max().unwrap_or_default(), quota.units())
        };
        let (calls, traffic) = (sum(|_| true, |tally| tally.calls), outcome.traffic);
        // One message of a timer serves all calls of its node.
        let served = nodes as u64 * calls_per_node_s * end.ms_since(since) / 1_000;
        let per_call = |of_calls, of_timers| ratio(of_calls, calls) + ratio(of_timers, served);
        Self {
            over: 100.0 * ratio(sum(|_| true, |tally| tally.over), sum(|_| true, |tally| tally.admitted)),
            under: 100.0
                * ratio(sum(WayCaller::is_fair, |tally| tally.under), sum(WayCaller::is_fair, |tally| tally.calls)),
            spread: worst(|caller| caller == WayCaller::Spread),
            burst: worst(|caller| caller == WayCaller::Burst),
            one_node: worst(|caller| !caller.is_spread()),
            wait_ms: ratio(sum(|_| true, |tally| tally.waited_ms), sum(|_| true, |tally| tally.calls)),
            lag_ms: None,
            messages: per_call(traffic.call_messages, traffic.timer_messages),
            bytes: per_call(traffic.call_bytes, traffic.timer_bytes),
            store_requests: per_call(traffic.store_requests, traffic.timer_requests),
            counter: outcome.bytes,
        }
    }
}
