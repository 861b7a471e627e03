//! The callers of the experiment and their calls, which are the same in each of its fleets.

use fastrand::Rng;
use tollgate_core::clock::Timestamp;

use super::settings::LagSettings;
use crate::scenario::arrivals::{BEGIN, MINUTE_MS, gap_ms};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LagDemand {
    /// Below the quota, all the time.
    Honest,
    /// Several quotas, all the time.
    Steady,
    /// Several quotas at once, by a caller that has not called before.
    Burst,
}

#[derive(Clone, Debug)]
pub(super) struct LagCall {
    pub(super) at: Timestamp,
    pub(super) caller: String,
    /// Place of its agent in the fleet, from 0 to 1.
    place: f64,
}

impl LagDemand {
    pub(super) const ALL: [Self; 3] = [Self::Honest, Self::Steady, Self::Burst];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Honest => "honest",
            Self::Steady => "steady",
            Self::Burst => "burst",
        }
    }

    pub(super) fn is_of(self, caller: &str) -> bool {
        caller.starts_with(self.name())
    }

    /// Returns the begin and the end of a caller's calls after the beginning, in ms, and their rate per minute.
    #[expect(clippy::cast_precision_loss, reason = "minutes")]
    fn drawn(self, settings: &LagSettings, rng: &mut Rng) -> [f64; 3] {
        let (quota, end_ms) = (settings.quota as f64, settings.seconds as f64 * 1_000.0);
        match self {
            Self::Honest => [0.0, end_ms, settings.honest * quota],
            Self::Steady => [0.0, end_ms, settings.steady * quota],
            Self::Burst => {
                let (lost_ms, burst_ms) = (settings.lost_after_s as f64 * 1_000.0, settings.burst_s as f64 * 1_000.0);
                let begin_ms = lost_ms + rng.f64() * (end_ms - burst_ms - lost_ms);
                [begin_ms, begin_ms + burst_ms, settings.burst * quota * MINUTE_MS as f64 / burst_ms]
            }
        }
    }
}

impl LagCall {
    #[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a fleet")]
    pub(super) fn agent(&self, agents: usize) -> usize {
        (self.place * agents as f64) as usize
    }
}

/// Returns the calls of all callers, in order of time. The calls of each are a Poisson process; each call comes to any agent.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "times after the beginning")]
pub(super) fn calls(settings: &LagSettings, seed: u64) -> Vec<LagCall> {
    let (mut seeds, mut calls) = (Rng::with_seed(seed), Vec::new());
    for demand in LagDemand::ALL {
        for number in 0..settings.callers {
            let mut rng = seeds.fork();
            let [mut at_ms, end_ms, per_minute] = demand.drawn(settings, &mut rng);
            loop {
                at_ms += gap_ms(&mut rng, per_minute);
                if at_ms >= end_ms {
                    break;
                }
                let caller = format!("{}-{number}", demand.name());
                calls.push(LagCall { at: BEGIN.plus_ms(at_ms as u64), caller, place: rng.f64() });
            }
        }
    }
    calls.sort_by_key(|call| call.at);
    calls
}

#[cfg(test)]
mod tests {
    use super::super::tests::small;
    use super::*;

    #[test]
    fn callers_have_their_demand_at_all_agents() {
        let settings = LagSettings { seconds: 600, callers: 2, ..small() };
        let calls = calls(&settings, 1);
        assert!(calls.is_sorted_by_key(|call| call.at));
        let of = |demand: LagDemand| calls.iter().filter(move |call| demand.is_of(&call.caller));
        // Ten minutes of two callers, and their bursts; a quota has 20 calls.
        for (demand, quotas) in
            [(LagDemand::Honest, 0.5 * 20.0), (LagDemand::Steady, 2.0 * 20.0), (LagDemand::Burst, 3.0 * 2.0)]
        {
            let mean = f64::from(u32::try_from(of(demand).count()).unwrap()) / 20.0;
            assert!((0.7..1.3).contains(&(mean / quotas)), "{demand:?}: {mean} quotas");
        }
        assert!(of(LagDemand::Burst).all(|call| call.at.ms_since(BEGIN) >= 5_000), "after the loss of the store");
        assert!((0..3).all(|agent| calls.iter().any(|call| call.agent(3) == agent)));
    }
}
