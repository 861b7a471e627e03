//! Rules under `consistency: eventual`: no store decides or counts, only signals and the agent's own admissions.
//!
//! A plan enters an admission in the view at once, so that concurrent calls cannot use the same unit. If another rule
//! of the call asks the store, the admission waits there for the decision, and is given back if it does not stand.
//! Nothing is unsynced, and nothing is backfilled. The verdict itself is in `enforce`, and
//! corrections are in [`settle_release`](crate::call::settle_release). In an agent that keeps its own table, such a rule is
//! counted there like any other.
//!
//! The counts go by the store's time where there is a store, so that all rules of a call have one instant. Elsewhere
//! they go by the time of the bus. Signals contain no request ids, because they would be as large as the calls, so a
//! retry counts again.

use std::sync::Arc;

use tollgate_core::clock::Timestamp;
use tollgate_core::rules::{Consistency, Generation, LimitPolicy, Rule, RuleSet};

use crate::call::planned_call::PlannedCall;
use crate::counters::ViewEvent;
use crate::engine::Engine;
use crate::engine_settings::EngineSettings;
use crate::rules::MatchedRule;

impl EngineSettings {
    /// Returns the name of the first of these rules that needs a store, if there is none.
    #[must_use]
    pub fn unenforceable<'r>(&self, rules: &'r RuleSet) -> Option<&'r Arc<str>> {
        let needs_store =
            |rule: &&Arc<Rule>| rule.all_policies().any(|policy| policy.consistency != Consistency::Eventual);
        rules.rules.iter().filter(|_| self.lacks_store).find(needs_store).map(|rule| &rule.name)
    }
}

impl Engine {
    /// Returns true if no store decides or counts under this policy. With counts in the own table, this holds for every
    /// policy. Where there is no store at all, rules that need one are refused before.
    pub(crate) fn is_eventual(&self, policy: &LimitPolicy) -> bool {
        !self.settings.owns_table && (self.settings.lacks_store || policy.consistency == Consistency::Eventual)
    }

    /// Gives back the units with which a plan has entered an admission that does not count, or counts at another instant.
    pub(crate) fn give_back_planned(&self, generation: Generation, matched: &MatchedRule<'_>, at: Timestamp) {
        let event = ViewEvent::Refunded { at, units: matched.cost, slots_of: None, by_store: false };
        self.store.update_counter(matched, generation, event);
    }

    /// Gives back what plans have entered, if the caller of a request has left before the decision.
    pub(crate) fn give_back_left(&self, generation: Generation, planned: &[PlannedCall<'_>]) {
        for matched in planned.iter().flat_map(|planned| &planned.matched) {
            if let Some(eventual) = matched.eventual.as_deref().filter(|eventual| eventual.rule.verdict.admitted) {
                self.give_back_planned(generation, matched, eventual.at);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tollgate_core::call::Call;
    use tollgate_core::counter::{CLUSTER_SLOTS, PrimaryIndex, StoreError};
    use tollgate_core::decision::Source;
    use tollgate_core::rules::Rule;

    use super::*;
    use crate::engine_settings::StoreShape;
    use crate::request::{Operation, Progress};

    const START: Timestamp = Timestamp::from_ms(1_000_000);

    /// An agent with a rule that asks the store and one that does not, and with no signals: it has all of both quotas.
    fn engine(lacks_store: bool) -> Engine {
        let quota = |text: &str| text.parse().expect("a quota");
        let stored = Rule::per("stored", &["ip"], quota("100/min")).strict();
        let eventual = Rule::per("eventual", &["api_key"], quota("10/min")).eventual();
        let settings = EngineSettings {
            lacks_store,
            agents_expected: Some(1.try_into().unwrap()),
            ..EngineSettings::new("a", START)
        };
        let rules = if lacks_store { vec![eventual] } else { vec![stored, eventual] };
        let engine = Engine::new(settings, RuleSet::new(1, rules));
        engine.note_store_time(START, START, START);
        engine
    }

    fn begin(engine: &Engine, cost: u64) -> Progress {
        engine.begin(START, Operation::check(&Call::new().with("api_key", "k").with("ip", "i").costing(cost)))
    }

    /// Returns the units that the eventual rule has left for a call that asks no store.
    fn left(engine: &Engine) -> u64 {
        let of = |cost| match engine.begin(START, Operation::check(&Call::new().with("api_key", "k").costing(cost))) {
            Progress::Done(output) | Progress::Deferred(output, _) => {
                output.into_decisions().pop().expect("a decision")
            }
            Progress::NeedsStore(request) => panic!("{request:?}"),
        };
        let denied = of(11);
        assert_eq!((denied.allowed, denied.source, denied.is_degraded()), (false, Source::Fallback, true));
        denied.status.expect("a rule").remaining
    }

    /// An admission is entered while the store is asked about another rule. It ends with a denial, and with a caller
    /// who leaves.
    #[test]
    fn an_admission_that_does_not_stand_is_given_back() {
        let engine = engine(false);
        let Progress::NeedsStore(mut denied) = begin(&engine, 4) else { panic!("one rule asks the store") };
        assert_eq!((denied.charges().len(), left(&engine)), (1, 6));
        let Progress::NeedsStore(mut left_alone) = begin(&engine, 5) else { panic!("one rule asks the store") };
        assert_eq!(left(&engine), 1);
        let Progress::Done(output) = begin(&engine, 2) else { panic!("a denial asks no store") };
        assert_eq!(&*output.into_decisions()[0].status.as_ref().unwrap().rule, "eventual");
        let late = engine.finish(START, &mut denied, Err(StoreError::TimedOut)).into_decisions();
        assert_eq!((late[0].allowed, left(&engine)), (false, 5), "a strict rule denies what the store is late for");
        engine.late_answer(START, denied, Err(StoreError::AnswerLost));
        assert_eq!(left(&engine), 5, "it is given back once");
        left_alone.leave();
        engine.late_answer(START, left_alone, Err(StoreError::AnswerLost));
        assert_eq!((left(&engine), engine.held().unsynced_counters), (10, 0));
    }

    /// The shell drops the request of a call that is decided at once or not at all.
    #[test]
    fn a_call_that_would_wait_for_the_store_enters_nothing() {
        let engine = engine(false);
        assert!(engine.try_begin(START, &Call::new().with("api_key", "k").with("ip", "i"), None, false).is_none());
        assert_eq!(left(&engine), 10);
    }

    /// A rule whose primary does not answer has admitted a part of the call by then, which is given back.
    #[test]
    fn a_call_that_would_wait_for_another_primary_enters_nothing() {
        let rule = |name: &str, per: &str| Rule::per(name, &[per], "10/min".parse().expect("a quota"));
        let settings = EngineSettings {
            store: StoreShape::Primaries,
            agents_expected: Some(1.try_into().unwrap()),
            ..EngineSettings::new("a", START)
        };
        let engine = Engine::new(settings, RuleSet::new(1, [rule("stored", "ip").strict(), rule("closed", "api_key")]));
        let Progress::NeedsStore(request) = begin(&engine, 1) else { panic!("both rules ask the store") };
        let (stored, closed) = (PrimaryIndex::ONLY, PrimaryIndex::new(1).expect("an index"));
        let mut owners = vec![Some(stored); CLUSTER_SLOTS.into()];
        owners[usize::from(request.charges()[1].slot.cluster_slot())] = Some(closed);
        engine.store.follow_owners(&owners);
        for primary in [stored, closed] {
            engine.note_primary_time(primary, START, START, START);
        }
        let deadline = Duration::from_millis(15);
        engine.store.unanswered(closed, START, deadline, START, StoreError::Unreachable);
        assert_eq!(left(&engine), 10);
        assert!(engine.try_begin(START, &Call::new().with("api_key", "k").with("ip", "i"), None, false).is_none());
        assert_eq!(left(&engine), 10);
        let Progress::NeedsStore(request) = begin(&engine, 4) else { panic!("one rule asks the store") };
        assert_eq!((request.charges().len(), left(&engine)), (1, 6), "a call that waits has entered its units");
    }

    #[test]
    fn without_a_store_other_rules_are_unenforceable() {
        let (engine, others) = (engine(true), RuleSet::new(2, [Rule::per("r", &["ip"], "1/s".parse().unwrap())]));
        assert_eq!(engine.settings().unenforceable(&others).map(|name| &**name), Some("r"));
        assert!(engine.with_rules(|rules| engine.settings().unenforceable(rules).is_none()));
        assert!(!engine.is_degraded() && matches!(begin(&engine, 1), Progress::Done(_)));
    }
}
