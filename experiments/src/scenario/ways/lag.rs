//! Lag of a way: the time from the instant at which a caller has used up its quota at one node until all other nodes deny it.
//!
//! It is measured by callers that each use up their quota at one node in a burst, and then ask other nodes, once each at a random
//! time. The lag is the longest time after which such a call was still admitted. Calls that are admitted before the quota is used
//! up do not count: a node may admit only its part of it. A lag does not end if calls are admitted at the end of the measurement.

use fastrand::Rng;
use tollgate_core::rules::Quota;

use super::network::{Delays, Trial, TrialResult};
use super::workload::ArrivedCall;
use crate::scenario::arrivals::BEGIN;

/// Calls of a probe at other nodes: too few to use up what a node admits on its own.
const ASKS: u64 = 18;
/// Distance of the bursts of two probes.
const DISTANCE_MS: u64 = 137;
/// Longest time between a burst and a call at another node.
const ASKED_MS_MAX: f64 = 5_000.0;
/// Time from which on an admission means that the limit is never enforced at that node.
const NEVER_MS: u64 = 4_000;

/// Time in which every call is answered, in ms.
const ANSWERED_MS: u64 = 100;

/// Returns the calls of the probes. Buckets need a long window, so that they do not refill meanwhile.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "short times")]
pub(super) fn probes(nodes: usize, probes: usize, quota: Quota, seed: u64, delays: Delays) -> Trial {
    let mut rng = Rng::with_seed(seed);
    let mut calls = Vec::new();
    for caller in 0..probes {
        let at = BEGIN.plus_ms(DISTANCE_MS * (1 + caller as u64));
        let node = rng.usize(0..nodes);
        calls.extend((0..=quota.units()).map(|_| ArrivedCall { at, node, caller }));
        for _ in 0..ASKS {
            let other = (node + 1 + rng.usize(0..nodes - 1)) % nodes;
            let asked = at.plus_ms(ASKED_MS_MAX.powf(rng.f64()) as u64);
            calls.push(ArrivedCall { at: asked, node: other, caller });
        }
    }
    calls.sort_by_key(|call| call.at);
    let end = calls.last().map_or(BEGIN, |last| last.at).plus_ms(ANSWERED_MS);
    Trial { nodes, quota, callers: probes, calls, end, incident: end, seed, delays }
}

/// Returns the lag in ms, which is infinite if it does not end; none if no caller has used up its quota.
#[expect(clippy::cast_precision_loss, reason = "short times")]
pub(super) fn lag_ms(trial: &Trial, outcome: &TrialResult) -> Option<f64> {
    let mut homes = vec![None; trial.callers];
    for call in &trial.calls {
        homes[call.caller].get_or_insert(call.node);
    }
    let mut admitted: Vec<_> = outcome.answers.iter().filter(|answer| answer.is_admitted).collect();
    admitted.sort_by_key(|answer| answer.at);
    let (mut units, mut used_up, mut lag_ms) = (vec![0; trial.callers], vec![None; trial.callers], None);
    for answer in admitted {
        let caller = answer.call.caller;
        if let Some(at) = used_up[caller].filter(|_| homes[caller] != Some(answer.call.node)) {
            lag_ms = lag_ms.max(Some(answer.at.ms_since(at)));
        }
        units[caller] += 1;
        if units[caller] == trial.quota.units() {
            used_up[caller] = Some(answer.at);
            lag_ms = lag_ms.max(Some(0));
        }
    }
    lag_ms.map(|ms| if ms < NEVER_MS { ms as f64 } else { f64::INFINITY })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::arrivals::MINUTE_MS;
    use crate::scenario::ways::network::{CounterBytes, Traffic, WayAnswer};

    #[test]
    fn the_lag_ends_with_the_last_admission_at_another_node() {
        let delays = Delays { peer: 1, store: 1, bus: 1 };
        let trial = probes(4, 10, Quota::new(100, MINUTE_MS).unwrap(), 1, delays);
        let lag_of = |enforced_after_ms: u64| {
            // The last probe's calls arrive at its home before they arrive elsewhere.
            let admits = |call: &ArrivedCall| {
                let burst = BEGIN.plus_ms(DISTANCE_MS * (1 + call.caller as u64));
                call.at.ms_since(burst) < enforced_after_ms
            };
            let answer = |call: &ArrivedCall| WayAnswer { call: *call, at: call.at, is_admitted: admits(call) };
            let answers = trial.calls.iter().map(answer).collect();
            let (traffic, bytes) = (Traffic::default(), CounterBytes::default());
            lag_ms(&trial, &TrialResult { answers, traffic, bytes })
        };
        assert!(lag_of(300).is_some_and(|lag| lag > 150.0 && lag < 300.0), "{:?}", lag_of(300));
        assert_eq!((lag_of(0), lag_of(1), lag_of(10_000)), (None, Some(0.0), Some(f64::INFINITY)));
    }
}
