//! Emergency: one small limit per caller in place of all rules that count, by this agent alone and without any server.
//!
//! The switch is for the case that the limits themselves do harm: wrong rules, or a store that must be spared. Deny
//! lists and rules that deny still do. The newest change of the switch is part of the agent's heartbeats and of its
//! saved state; it ends with the next change only: an agent that restarts and hears nobody goes by the change that it
//! knew last. The limit beside the rules was rejected, because it would still ask the store and deny by wrong rules. So
//! was a record of the topic `rules`, which only agents that follow published rules read.

use tollgate_core::call::Call;
use tollgate_core::counter::{CounterId, DigestKey};
use tollgate_core::decision::{Decision, EMERGENCY, Source};
use tollgate_core::messages::calls::{DenialCause, Outcome};
use tollgate_core::messages::emergency::EMERGENCY_PER;
use tollgate_core::rules::{MatchScope, ResolvedCall};

use crate::call::check::Decisions;
use crate::call::planned_call::{PlannedCall, Verdicts};
use crate::call::record::{CallHome, CallRow, signed};
use crate::engine::{Context, Engine};
use crate::rules::EmergencyLimit;

impl Engine {
    pub(crate) fn decide_in_emergency(
        &self,
        context: &Context<'_>,
        limit: &EmergencyLimit,
        calls: &[Call<'_>],
        scope: MatchScope<'_>,
    ) -> Decisions {
        let decide = |call| {
            let mut planned = PlannedCall::new(self.ids.next(), context.bounds);
            let PlannedCall { matched, shadowed, .. } = &mut planned;
            planned.rejection = self.match_call(context, call, scope, false, matched, shadowed).err();
            planned.matched.clear();
            if planned.rejection.is_some() {
                planned.set_verdicts(context.bounds, Verdicts::new());
                return self.answer(context, call, &planned, false);
            }
            planned.count_shadowed(context);
            let resolved = context.active.set.resolved_within(call, scope);
            let verdict = limit.charge(caller(&self.settings.digest_key, &resolved, call), context.now, call.cost());
            let allowed = verdict.admitted;
            limit.counts().decided(Source::Fallback, allowed);
            let denied = (!allowed).then_some(DenialCause::Emergency);
            let outcome = denied.map_or(Outcome::Admitted, Outcome::Denied);
            let row =
                CallRow::new(planned.number, context.bounds.latest, signed(call.cost()), outcome, Source::Fallback);
            let (decider, remaining) = (Some(&**limit.name()), Some(verdict.remaining));
            let home = CallHome { decider, shadow_denied: !planned.shadowed.is_empty(), denied, remaining };
            self.publish(context, call, None, row, Some(home));
            let id = self.ids.decision(planned.number, None);
            let mut decision = Decision::new(allowed, Source::Fallback, context.bounds.latest, id);
            let mut status = limit.status(verdict, context.now, call.cost());
            status.own_answer.clone_from(&context.active.set.own_answer);
            decision.status = Some(status);
            (decision.is_uncounted, decision.is_shadow_denied) = (true, !planned.shadowed.is_empty());
            decision
        };
        calls.iter().map(decide).collect()
    }
}

fn caller(key: &DigestKey, resolved: &ResolvedCall<'_>, call: &Call<'_>) -> CounterId {
    match resolved.get(EMERGENCY_PER) {
        Some(value) => key.counter(EMERGENCY, std::iter::once(value)),
        None => key.call(call.descriptors()),
    }
}

#[cfg(test)]
mod tests {
    use tollgate_core::clock::Timestamp;
    use tollgate_core::decided_call::DecidedCall;
    use tollgate_core::rules::{Rule, RuleSet};

    use super::*;
    use crate::engine_settings::EngineSettings;
    use crate::request::{Operation, Output, Progress};

    const START: Timestamp = Timestamp::from_ms(1_000_000);

    /// A call that was admitted in emergency charged no counter, so its settlement gives back no units of other calls.
    #[test]
    fn a_settlement_refunds_nothing_of_a_call_that_charged_nothing() {
        let rule = Rule::per("key", &["api_key"], "100/min".parse().expect("a quota"));
        let settings = EngineSettings { owns_table: true, ..EngineSettings::new("a", START) };
        let engine = Engine::new(settings, RuleSet::new(1, [rule]));
        let call = Call::new().with("api_key", "k").costing(10);
        let check = || {
            let Progress::Done(output) = engine.begin(START, Operation::check(&call)) else { panic!("no store") };
            output.into_decisions().pop().expect("a decision")
        };
        let remaining = || check().status.expect("a rule").remaining;
        assert_eq!(remaining(), 90);
        engine.switch_emergency(START, Some("1000/min".parse().expect("a quota")));
        let in_emergency = check();
        engine.switch_emergency(START, None);
        let key = &engine.settings().digest_key;
        let decided = DecidedCall::new(key, &call, &in_emergency).expect("it is admitted");
        let decided = DecidedCall::read(&decided.text(key, &call), key, &call).expect("its own id");
        let settled = engine.begin(START, Operation::Settle { call: &call, units: -10, decided: Some(&decided) });
        assert!(matches!(settled, Progress::Done(Output::Adjusted(Ok(None)))), "{settled:?}");
        assert_eq!(remaining(), 80, "those of the first call count");
    }
}
