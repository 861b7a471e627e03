//! Planted bugs of late calls: an agent that forgets what it has admitted itself, and one that sends units again too early.
//!
//! A late call is admitted by the agent's part of the quota less its own admissions in the last window. A bug forgets some of these
//! admissions, so the shell admits a late call that the engine has denied. It does so for calls under one rule only. Calls with a
//! request id are left out, because their charges may be older than their decisions.

use tollgate::{Call, Decision, LocalAnswer, RuleSet};
use tollgate_core::clock::Timestamp;
use tollgate_core::counter::{Charge, ChargeMode, CounterId, DigestKey};
use tollgate_core::rules::{Consistency, LimitPolicy, OnFailure};
use tollgate_engine::DecidedRule;

use super::planted_bugs::PlantedBug;

/// Admissions of one life of an agent, while a bug of late calls is planted.
#[derive(Default)]
pub(super) struct OwnAdmissions {
    admissions: Vec<OwnAdmission>,
}

/// Units that an agent has admitted.
struct OwnAdmission {
    counter: CounterId,
    at: Timestamp,
    units: u64,
    is_by_part: bool,
}

/// The only rule of a call.
struct LateCallRule {
    counter: CounterId,
    policy: LimitPolicy,
    cost: u64,
}

impl OwnAdmissions {
    /// Turns the denial of a late call into an admission where an agent with the bug would admit it, and notes the admission.
    pub(super) fn decided(
        &mut self,
        bug: PlantedBug,
        rules: &RuleSet,
        agents: u64,
        call: &Call<'_>,
        decision: &mut Decision,
        decided: &mut [DecidedRule],
    ) {
        let is_of_late_calls = matches!(bug, PlantedBug::PartCountedTwice | PlantedBug::PartAfterDroppedView);
        let Some(rule) = sole_rule(rules, call).filter(|_| is_of_late_calls && call.id().is_none()) else { return };
        if let ([decided], false, Some(LocalAnswer::Late)) = (&mut *decided, decision.allowed, decision.by) {
            let (forgotten, known) = self.units(bug, &rule, decision.at);
            let part = rule.policy.most_in_window() / agents.max(1);
            if forgotten > 0 && known.saturating_add(rule.cost) <= part {
                (decision.allowed, decision.by, decided.by) = (true, Some(LocalAnswer::Part), Some(LocalAnswer::Part));
            }
        }
        if decision.allowed {
            let is_by_part = decision.by == Some(LocalAnswer::Part);
            let LateCallRule { counter, cost: units, .. } = rule;
            self.admissions.push(OwnAdmission { counter, at: decision.at, units, is_by_part });
        }
    }

    /// Returns the units of a counter in the last window that an agent with the bug has forgotten, and those that it knows.
    fn units(&mut self, bug: PlantedBug, rule: &LateCallRule, now: Timestamp) -> (u64, u64) {
        let width_ms = rule.policy.window.width_ms();
        self.admissions.retain(|own| own.counter != rule.counter || own.at.plus_ms(width_ms) > now);
        // A view that is dropped after each call knows nothing.
        let is_forgotten = |own: &OwnAdmission| own.is_by_part || bug == PlantedBug::PartAfterDroppedView;
        let of_counter = self.admissions.iter().filter(|own| own.counter == rule.counter);
        of_counter.fold((0, 0), |(forgotten, known), own| {
            if is_forgotten(own) { (forgotten + own.units, known) } else { (forgotten, known + own.units) }
        })
    }
}

/// Returns the charges by which an agent sends the units of a late call again: of the rules that have admitted it by a part.
pub(super) fn sent_again(charges: &[Charge], decided: &[DecidedRule], decision: &Decision) -> Vec<Charge> {
    let by_part = |charge: &&Charge| {
        decided.iter().any(|rule| rule.counter == charge.counter && rule.by == Some(LocalAnswer::Part))
    };
    let again = |charge: &Charge| {
        let id = DigestKey::default().request(&format!("again {:?}", decision.id), charge.cost, []);
        Charge { mode: ChargeMode::Backfill { at: decision.at }, request: Some(id), ..charge.clone() }
    };
    charges.iter().filter(by_part).map(again).collect()
}

/// Returns the only rule of a call, if agents have parts under it while the store is late.
fn sole_rule(rules: &RuleSet, call: &Call<'_>) -> Option<LateCallRule> {
    let resolved = rules.resolved(call);
    let [applicable] = &rules.applicable(&resolved)[..] else { return None };
    let policy = *applicable.policy.as_deref()?;
    let has_part = policy.consistency == Consistency::Bounded && policy.on_failure == OnFailure::Share;
    let counter = DigestKey::default().counter(&applicable.rule.name, applicable.rule.values(&resolved));
    has_part.then(|| LateCallRule { counter, policy, cost: applicable.rule.cost_of(&resolved, call.cost()) })
}
