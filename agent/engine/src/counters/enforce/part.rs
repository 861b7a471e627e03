//! This agent's part of the units of a counter, while several agents divide them without the store.

use tollgate_core::rules::{Consistency, LimitPolicy};

use super::facts::Facts;
use crate::counters::view::CounterView;

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
        Consistency::Strict => u64::from(facts.rank.is_some_and(|rank| u64::from(rank) < units)),
        Consistency::Bounded | Consistency::Eventual => units.min(1),
    }
}

/// Returns this agent's part of the units that a fresh signal leaves free: half by the admissions of the agents in the
/// signal, half equally. If nobody has admitted any, all is divided equally.
///
/// Where the agents have one unit each, an agent has it only until it has admitted one in the window.
pub(crate) fn by_flow(policy: &LimitPolicy, facts: &Facts, view: &CounterView, free: u64) -> u64 {
    let Some(agents) = facts.part.agents() else { return 0 };
    let part = view.remote.as_deref().and_then(|remote| remote.flow.part_of(free, agents));
    if policy.consistency == Consistency::Bounded && policy.quota.units() < u64::from(agents.get()) {
        let is_unused = view.admitted(policy).is_none_or(|ring| ring.is_empty_at(facts.now.earliest));
        return part.unwrap_or(0).max(u64::from(is_unused && free > 0));
    }
    part.unwrap_or_else(|| equal(policy, facts, free))
}
