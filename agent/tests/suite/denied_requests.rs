//! Requests that are denied before the store is asked: their other calls are evaluated and nothing is charged.

use tollgate::{Call, RuleSet, Source};
use tollgate_core::clock::Timestamp;
use tollgate_core::counter::ChargeMode;
use tollgate_core::rules::MatchScope;
use tollgate_engine::{Engine, EngineSettings, Operation, Output, Progress};

const RULES: &str = "
version: 5
defaults: { consistency: strict }
rules:
  - { name: key, per: [api_key], quota: 20/2s }
  - { name: closed, match: { endpoint: /closed }, deny: true }
";
const START: Timestamp = Timestamp::from_ms(1_000_000_000_003);

fn engine(owns_table: bool) -> Engine {
    let mut settings = EngineSettings::new("agent", START);
    settings.owns_table = owns_table;
    let rules: RuleSet = tollgate_rules::from_yaml("rules.yaml", RULES, 1).expect("valid rules");
    Engine::new(settings, rules)
}

#[test]
fn the_store_only_evaluates_the_calls_of_a_request_that_is_denied_already() {
    let engine = engine(false);
    engine.note_store_time(START, START, START);
    let calls = [Call::new().with("api_key", "k"), Call::new().with("endpoint", "/closed")];
    let operation = Operation::Check { calls: &calls, scope: MatchScope::default() };
    let Progress::NeedsStore(request) = engine.begin(START, operation) else { panic!("the store is asked") };
    let modes: Vec<_> = request.charges().iter().map(|charge| charge.mode).collect();
    assert!(matches!(modes[..], [ChargeMode::Evaluate { .. }]), "{modes:?}");
}

#[test]
fn the_greatest_cost_of_a_call_is_a_cost_as_any_other() {
    let engine = engine(true);
    let call = Call::new().with("api_key", "k").costing(u64::MAX);
    let sources = [0, 1].map(|_| match engine.begin(START, Operation::check(&call)) {
        Progress::Done(Output::Decisions(decisions)) => (decisions[0].allowed, decisions[0].source),
        other => panic!("it is decided at once: {other:?}"),
    });
    assert_eq!(sources, [(false, Source::Store), (false, Source::Local)], "the second denial is the cached one");
}
