//! stand-alone, the bound of an outage: a call that an agent admits by `on_failure` leaves the agent's own admissions
//! in the window within the limit that `on_failure` states: the most that a window may hold for `share`, the stated quota for
//! `limit`, nothing for `closed`.
//!
//! Only the rule that the answer shows is known to have been decided by `on_failure`. Excused: runs in which the
//! store's clock stepped back, because local usage is kept in store time; calls with a request id; callers on a list;
//! and callers that the sketch counts.

use std::collections::HashMap;

use tollgate::Source;
use tollgate_core::algorithm::Algorithm;
use tollgate_core::counter::CounterId;
use tollgate_core::rules::{LimitPolicy, ListMatch, OnFailure};
use tollgate_sim::{AnsweredCall, Observation, SimNode};

use super::facts::Facts;

/// Admissions by agent and counter, as instants and units; refunds are negative.
#[derive(Default)]
pub(crate) struct Degraded {
    admitted: HashMap<(usize, CounterId), Vec<(u64, i64)>>,
    has_stepped_back: bool,
    pub(crate) bounded: usize,
}

impl Degraded {
    pub(crate) fn observe(&mut self, facts: &Facts, observation: &Observation<'_>) -> Result<(), String> {
        match observation {
            Observation::Ended(SimNode::Agent(agent)) => self.admitted.retain(|(of, _), _| of != agent),
            Observation::StoreClockStepped { by_ms: ..0, .. } => self.has_stepped_back = true,
            Observation::Corrected(corrected) => {
                let Some(decided) = corrected.decided else { return Ok(()) };
                for (applied, units) in facts.corrected(corrected).into_iter().filter(|(_, units)| *units < 0) {
                    self.admitted.entry((corrected.agent, applied.counter)).or_default().push((decided.as_ms(), units));
                }
            }
            Observation::Answered(answered) if answered.is_admitted && answered.call.id().is_none() => {
                return self.answered(facts, answered);
            }
            _ => {}
        }
        Ok(())
    }

    fn answered(&mut self, facts: &Facts, answered: &AnsweredCall<'_>) -> Result<(), String> {
        let (agent, at) = (answered.agent, answered.decision.at.as_ms());
        let is_listed = facts.list_match(answered.generation, &answered.call) != ListMatch::Unlisted;
        let is_checked =
            answered.decision.source == Source::Fallback && !(is_listed || facts.overflows() || self.has_stepped_back);
        let shown = answered.decision.status.as_ref().filter(|_| is_checked).map(|status| &*status.rule);
        for applied in facts.applied(answered.generation, &answered.call) {
            let admitted = self.admitted.entry((agent, applied.counter)).or_default();
            let begin = (at + 1).saturating_sub(applied.policy.quota.width_ms());
            admitted.retain(|(at, _)| *at >= begin);
            admitted.push((at, i64::try_from(applied.cost).unwrap_or(i64::MAX)));
            if shown != Some(&*applied.rule.name) {
                continue;
            }
            let most = match applied.policy.on_failure {
                OnFailure::Open => continue,
                OnFailure::Closed => 0,
                OnFailure::Share => most_in_window(&applied.policy),
                OnFailure::Limit(quota) => quota.units(),
            };
            self.bounded += 1;
            let held: i64 = admitted.iter().filter(|(other, _)| *other <= at).map(|(_, units)| units).sum();
            if held > 0 && held.unsigned_abs() > most {
                return Err(format!("degraded: agent {agent} admits {held} of {most} under {}", applied.rule.name));
            }
        }
        Ok(())
    }
}

/// Returns the most units that a window may hold: the quota or the burst, or both of a bucket.
fn most_in_window(policy: &LimitPolicy) -> u64 {
    let (quota, burst) = (policy.quota.units(), policy.burst);
    match policy.algorithm {
        Algorithm::TokenBucket | Algorithm::LeakyBucket => quota + burst,
        _ => quota.max(burst),
    }
}
