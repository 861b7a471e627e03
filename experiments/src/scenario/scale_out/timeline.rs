//! The course of the experiment: the number of agents over time, and the calls.

use fastrand::Rng;
use tollgate_core::clock::Timestamp;
use tollgate_core::messages::signals::FRESH_MS;
use tollgate_core::rules::Quota;
use tollgate_sim::oracle::Oracle;

use super::settings::ScaleOutSettings;
use crate::scenario::arrivals::{BEGIN, MINUTE_MS, gap_ms};

#[derive(Clone, Copy, Debug)]
pub(super) struct ScaleOutCall {
    pub(super) at: Timestamp,
    pub(super) caller: u64,
    /// Place of its agent among those that run, from 0 to 1.
    place: f64,
}

impl ScaleOutSettings {
    /// Returns the length of the experiment.
    pub(super) fn seconds(&self) -> u64 {
        self.before_s + self.up_s + self.peak_s + self.down_s + self.after_s
    }

    /// Returns the end of the time with the most agents.
    pub(super) fn peak_end_s(&self) -> u64 {
        self.before_s + self.up_s + self.peak_s
    }

    /// Returns the number of agents that run so many seconds after the beginning.
    #[expect(clippy::cast_possible_truncation, reason = "a fleet")]
    pub(super) fn agents_at(&self, second: u64) -> usize {
        let [least, most] = self.agents;
        let part = |of: u64, whole: u64| ((most - least) as u64 * of.min(whole) / whole) as usize;
        let up = part(second.saturating_sub(self.before_s), self.up_s);
        let down = part(second.saturating_sub(self.peak_end_s()), self.down_s);
        least + up - down
    }

    /// Returns true if the store is lost in this second of the runs that lose it.
    pub(super) fn is_store_lost_at(&self, second: u64) -> bool {
        self.lost_s.iter().any(|[begin, end]| (*begin..*end).contains(&second))
    }

    /// Returns the calls of all callers, in order of time. The calls of each are a Poisson process. The callers begin one after
    /// another within a minute, so that quotas are free at any time.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        clippy::cast_sign_loss,
        reason = "times after the beginning"
    )]
    pub(super) fn calls(&self, seed: u64) -> Vec<ScaleOutCall> {
        let (mut seeds, mut calls) = (Rng::with_seed(seed), Vec::new());
        let end_ms = self.seconds() as f64 * 1_000.0;
        for caller in 0..self.callers {
            let (mut rng, mut at_ms) = (seeds.fork(), (caller * MINUTE_MS / self.callers) as f64);
            loop {
                at_ms += gap_ms(&mut rng, self.demand * self.quota as f64);
                if at_ms >= end_ms {
                    break;
                }
                calls.push(ScaleOutCall { at: BEGIN.plus_ms(at_ms as u64), caller, place: rng.f64() });
            }
        }
        calls.sort_by_key(|call| call.at);
        calls
    }
}

impl ScaleOutCall {
    /// Returns the agent of the call among those that run.
    #[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a fleet")]
    pub(super) fn agent(&self, running: usize) -> usize {
        (self.place * running as f64) as usize
    }
}

/// Returns the most calls of one caller within the time by which the signals of two agents can differ.
pub(super) fn calls_while_signals_differ(calls: &[ScaleOutCall], callers: u64) -> u64 {
    let fresh = Quota::new(1, FRESH_MS).expect("a quota");
    let most = |caller| {
        let mut oracle = Oracle::new(fresh);
        let counted = calls.iter().filter(|call| call.caller == caller).map(|call| {
            oracle.admit(call.at, 1);
            oracle.units()
        });
        counted.max().unwrap_or_default()
    };
    (0..callers).map(most).max().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::super::tests::small;
    use super::*;

    #[test]
    fn the_fleet_grows_and_shrinks_in_time() {
        let settings = small();
        let agents: Vec<usize> = (0..settings.seconds()).map(|second| settings.agents_at(second)).collect();
        assert_eq!(agents, [2, 2, 2, 2, 3, 4, 5, 6, 6, 6, 4, 2]);
    }

    #[test]
    fn calls_of_three_seconds_are_counted_by_caller() {
        let call = |at_ms, caller| ScaleOutCall { at: BEGIN.plus_ms(at_ms), caller, place: 0.0 };
        let calls = [call(0, 0), call(1_000, 0), call(2_999, 0), call(3_000, 0), call(3_000, 1)];
        assert_eq!(calls_while_signals_differ(&calls, 2), 3);
    }
}
