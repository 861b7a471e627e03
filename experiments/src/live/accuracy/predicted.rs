//! The simulation's prediction: the planned calls at simulated agents, once for each seed of the delays.

use std::num::NonZeroU32;

use indicatif::ProgressBar;
use tollgate_core::clock::Timestamp;
use tollgate_sim::{Observation, Simulation};

use super::plan::CONSISTENCIES;
use super::planned_arrivals::{PlannedArrivals, call_of, rules};
use super::tally::{AccuracyTally, AnsweredArrival, judged};
use crate::live::simulated::{self, SEEDS};

/// Time in which every call is answered, in ms.
const ANSWERED_MS: u64 = 100;
/// Beginning of the calls, in simulated time: a whole window.
const BEGIN: Timestamp = Timestamp::from_ms(1_700_000_040_000);

/// Returns the numbers of each consistency, by seed.
pub(super) fn tallies(
    calls: &PlannedArrivals,
    agents: NonZeroU32,
    progress: &ProgressBar,
) -> Vec<[AccuracyTally; CONSISTENCIES.len()]> {
    (0..SEEDS).map(|seed| judged(calls, answers(calls, agents, seed, progress))).collect()
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small times after the beginning")]
fn answers(calls: &PlannedArrivals, agents: NonZeroU32, seed: u64, progress: &ProgressBar) -> Vec<AnsweredArrival> {
    let settings = simulated::fleet(BEGIN, agents.get() as usize, seed);
    let mut sim = Simulation::new(settings, &rules(calls.has_tenant));
    sim.run_until(BEGIN);
    let mut answers = Vec::new();
    let take = |sim: &mut Simulation<'_>, answers: &mut Vec<AnsweredArrival>| {
        for observation in sim.observations() {
            if let Observation::Answered(answered) = observation {
                let name = CONSISTENCIES.iter().find_map(|consistency| answered.call.get(consistency));
                let caller = name.and_then(|name| name.strip_prefix("caller-")?.parse().ok());
                answers.push(AnsweredArrival {
                    answered_ms: answered.answered.ms_since(BEGIN),
                    caller: caller.expect("planned callers have numbers"),
                    is_admitted: answered.is_admitted,
                });
            }
        }
    };
    for call in &calls.all {
        sim.run_until(BEGIN.plus_ms(call.at_ms as u64).max(sim.now()));
        sim.check(call.agent, vec![call_of(call.caller, calls.has_tenant)]);
        take(&mut sim, &mut answers);
        progress.inc(1);
    }
    sim.run_until(sim.now().plus_ms(ANSWERED_MS));
    take(&mut sim, &mut answers);
    answers
}

#[cfg(test)]
mod tests {
    use super::super::plan::AccuracyPlan;
    use super::*;

    /// N5: while Redis answers, no window of a strict caller holds more than its quota, and none of a bounded one more than 5%.
    #[test]
    fn the_prediction_keeps_the_bounds() {
        let plan = AccuracyPlan { agents: NonZeroU32::new(3).unwrap(), seconds: 5, has_tenant: false };
        let calls = PlannedArrivals::new(plan);
        for [strict, bounded, eventual] in tallies(&calls, plan.agents, &ProgressBar::hidden()) {
            let all = [strict, bounded, eventual];
            assert!(all.iter().all(|tally| tally.calls > 0 && tally.admitted > 0), "{all:?}");
            // An answer reaches its caller up to a ms after its charge.
            assert!(strict.worst_window <= 101 && bounded.worst_window <= 106, "{all:?}");
        }
    }
}
