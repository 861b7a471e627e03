//! A fleet that is larger than a quota, through an outage of the store and the bus that lasts an hour.

use std::num::NonZeroU32;
use std::sync::Arc;

use tollgate::{Call, Rule, RuleSet};
use tollgate_core::clock::Timestamp;
use tollgate_core::messages::presence::{Presence, Role};
use tollgate_core::rules::{Consistency, OutageBound};
use tollgate_engine::{
    Engine, EngineSettings, Incoming, Maintenance, MaintenanceInput, MaintenanceSettings, Operation, Progress,
    StoreError,
};

const START: Timestamp = Timestamp::from_ms(1_700_000_000_000);
const AGENTS: u32 = 200;
const MINUTES: u64 = 60;

fn heartbeat(agent: u32, now: Timestamp) -> Presence {
    Presence {
        id: format!("gw-{agent}").into(),
        epoch: START.as_ms(),
        region: "default".into(),
        role: Role::Agent,
        generation: 1,
        clock: now,
        open_breakers: Vec::new(),
        coordinates: false,
        emergency: None,
        resets: Vec::new(),
        rules_refusal: "".into(),
        rules_published: false,
        dropped_rows: 0,
        leaving: false,
        http: "".into(),
        partitions: Vec::new(),
    }
}

/// Starts agents that have heard each other.
fn fleet(rule: &Rule) -> (Vec<Arc<Engine>>, Vec<Maintenance>) {
    let settings = |agent| EngineSettings {
        publishes: false,
        agents_expected: NonZeroU32::new(AGENTS),
        ..EngineSettings::new(&format!("gw-{agent}"), START)
    };
    let engine = |agent| Arc::new(Engine::new(settings(agent), RuleSet::new(1, [rule.clone()])));
    let engines: Vec<_> = (0..AGENTS).map(engine).collect();
    let duties = || MaintenanceSettings { announces: false, follows_rules: false, witnesses: false };
    let mut maintenance: Vec<_> = engines.iter().map(|engine| Maintenance::new(engine.clone(), duties())).collect();
    for second in 0..8 {
        for agent in 0..AGENTS {
            let now = START.plus_ms(1_000 * second + 4 * u64::from(agent));
            let presence = heartbeat(agent, now);
            for engine in &engines {
                let incoming = Incoming::Presence { appended: now, presence: &presence };
                let _ = engine.receive(now, incoming, &mut Vec::new());
            }
        }
        let now = START.plus_ms(1_000 * second + 900);
        for one in &mut maintenance {
            one.poll(now, MaintenanceInput::Tick, &mut Vec::new());
        }
    }
    assert!(engines.iter().all(|engine| engine.fleet_size().get() == AGENTS));
    (engines, maintenance)
}

/// Asks an agent whose store refuses.
fn is_admitted(engine: &Engine, now: Timestamp, key: &str) -> bool {
    let call = Call::new().with("api_key", key);
    let output = match engine.begin(now, Operation::check(&call)) {
        Progress::Done(output) | Progress::Deferred(output, _) => output,
        Progress::NeedsStore(mut request) => engine.finish(now, &mut request, Err(StoreError::Refused)),
    };
    output.into_decisions()[0].allowed
}

/// R8: 200 agents, 100/min, Redis and Kafka gone for an hour: the first call of each caller passes at each agent, or at
/// 100 of them under `strict`, and no more than the printed bound in a window.
#[test]
fn first_calls_pass_for_as_long_as_an_outage_lasts() {
    for (consistency, most) in [(Consistency::Bounded, 200), (Consistency::Strict, 100)] {
        let mut rule = Rule::per("key", &["api_key"], "100/min".parse().unwrap());
        rule.policy.as_mut().unwrap().set_consistency(consistency);
        let bound = OutageBound::of(rule.policy.as_ref().unwrap(), NonZeroU32::new(AGENTS).unwrap());
        let (engines, mut maintenance) = fleet(&rule);
        for minute in 0..MINUTES {
            let now = START.plus_ms(10_000 + 60_000 * minute);
            for one in &mut maintenance {
                one.poll(now, MaintenanceInput::Tick, &mut Vec::new());
            }
            for key in [format!("new-{minute}"), "known".to_owned()] {
                let first = engines.iter().filter(|engine| is_admitted(engine, now, &key)).count();
                let second = engines.iter().filter(|engine| is_admitted(engine, now, &key)).count();
                assert_eq!(second, 0, "{key}");
                assert!(
                    first as u64 <= bound.alone.unwrap() && first <= most,
                    "{first} of {most} for {key}, {bound:?}"
                );
                assert!(key == "known" || first == most, "{first} of {most} for {key}");
            }
        }
        assert!(engines.iter().all(|engine| engine.is_degraded()));
    }
}
