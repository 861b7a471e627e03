//! This agent's part of the units of a counter, while several agents divide them without the store.

use tollgate_core::rules::{Consistency, LimitPolicy};

use super::Facts;

/// Returns this agent's equal part of some units of a counter.
///
/// If the quota has fewer units than there are agents, an equal part is less than one unit. Under `strict` the units are
/// then placed on as many agents, so that the parts together stay within the units. Under other rules each agent has one,
/// unless it has no part at all.
pub(crate) fn equal(policy: &LimitPolicy, facts: &Facts, units: u64) -> u64 {
    let Some(agents) = facts.part.agents().map(|agents| u64::from(agents.get())) else { return 0 };
    if policy.quota.units() >= agents {
        return units / agents;
    }
    match policy.consistency {
        Consistency::Strict => u64::from(facts.place.is_some_and(|place| u64::from(place) < units)),
        Consistency::Bounded => units.min(1),
    }
}
