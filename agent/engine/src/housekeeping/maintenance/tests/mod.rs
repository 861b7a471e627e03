//! The maintenance against a store that answers, is silent or refuses as the tests say.

mod probes;

use std::sync::Arc;

use tollgate_core::call::Call;
use tollgate_core::counter::{Charge, PrimaryIndex, StoreError, StoredCounter};
use tollgate_core::messages::presence::{AnnouncedRules, INTERVAL_MS, PresenceSet};
use tollgate_core::rules::{Numbering, OnFailure, Rule, RuleSet};

use super::*;
use crate::engine::Engine;
use crate::engine_settings::EngineSettings;
use crate::housekeeping::receive::{Incoming, Receipt};
use crate::report::Notice;
use crate::request::{Operation, Progress, StepAnswers, StoreRequest, UNATTENDED_DEADLINE};
use crate::tests::{WakeUps, heartbeat};

const START: Timestamp = Timestamp::from_ms(1_000_000);
/// Duties of an agent on Redis with a bus; the witness has tests of its own.
const ON_REDIS: MaintenanceSettings = MaintenanceSettings { announces: true, witnesses: false, follows_rules: true };
/// Duties of an agent with neither.
const ALONE: MaintenanceSettings = MaintenanceSettings { announces: false, witnesses: false, follows_rules: false };

/// A maintenance and the effects that wait for their answers.
struct Fixture {
    engine: Arc<Engine>,
    maintenance: Maintenance,
    requests: Vec<MaintenanceRequest>,
    notices: Vec<Notice>,
    saved: Vec<usize>,
}

impl Fixture {
    fn new(settings: MaintenanceSettings) -> Self {
        Self::of(EngineSettings::new("a", START), settings)
    }

    fn of(of_engine: EngineSettings, settings: MaintenanceSettings) -> Self {
        let rule = Rule::per("per-key", &["api_key"], "100/min".parse().expect("a quota"));
        let rule = rule.with(|policy| policy.on_failure = OnFailure::Open);
        let engine = Arc::new(Engine::new(of_engine, RuleSet::new(1, [rule])));
        let maintenance = Maintenance::new(engine.clone(), settings);
        Self { engine, maintenance, requests: Vec::new(), notices: Vec::new(), saved: Vec::new() }
    }

    /// A maintenance whose store has answered everything at the start.
    fn reached(settings: MaintenanceSettings) -> Self {
        let mut fixture = Self::new(settings);
        fixture.tick(0);
        fixture.answer_all(0);
        fixture
    }

    fn poll(&mut self, ms: u64, input: MaintenanceInput) {
        let mut effects = Vec::new();
        self.maintenance.poll(START.plus_ms(ms), input, &mut effects);
        for effect in effects {
            match effect {
                MaintenanceEffect::Send(request) => self.requests.push(request),
                MaintenanceEffect::Notify(notice) => self.notices.push(notice),
                MaintenanceEffect::SaveEmergency(_) => {}
                MaintenanceEffect::SaveAgents(agents) => self.saved.push(agents.len()),
            }
        }
    }

    fn tick(&mut self, ms: u64) {
        self.poll(ms, MaintenanceInput::Tick);
    }

    /// Answers all requests, and those that follow from the answers.
    fn answer_all(&mut self, ms: u64) {
        while let Some(request) = self.requests.pop() {
            let answer = match request {
                MaintenanceRequest::Ping { primary, .. } => {
                    MaintenanceInput::Pinged { primary, answer: Ok(START.plus_ms(ms)), is_late: false }
                }
                MaintenanceRequest::Backfill(request) => {
                    let confirmed = confirmed(&request, ms);
                    MaintenanceInput::Backfilled(request, confirmed)
                }
                MaintenanceRequest::Witness(..) | MaintenanceRequest::Reopen(_) => unreachable!("nothing is lost"),
                MaintenanceRequest::Announce(_) => MaintenanceInput::Announced(Ok(set_of_three(ms))),
                MaintenanceRequest::ReadRules => MaintenanceInput::RulesRead(true),
            };
            self.poll(ms, answer);
        }
    }

    /// Admits a call that the store never saw.
    fn admit_without_store(&self, ms: u64, key: &str) {
        let call = Call::new().with("api_key", key);
        let output = match self.engine.begin(START.plus_ms(ms), Operation::check(&call)) {
            Progress::Done(decision) | Progress::Deferred(decision, _) => decision,
            Progress::NeedsStore(mut request) => {
                self.engine.finish(START.plus_ms(ms), &mut request, Err(StoreError::Expired(START)))
            }
        };
        assert!(output.into_decisions().pop().is_some_and(|decision| decision.allowed));
    }

    /// Receives two heartbeats of an agent.
    fn hear(&self, ms: u64, id: &str) {
        let presence = heartbeat(id, START);
        for appended in [START.plus_ms(ms), START.plus_ms(ms + INTERVAL_MS)] {
            let incoming = Incoming::Presence { appended, presence: &presence };
            assert_eq!(self.engine.receive(START.plus_ms(ms), incoming, &mut Vec::new()), Receipt::Applied);
        }
    }

    fn waiting(&self) -> Vec<&'static str> {
        let name = |request: &MaintenanceRequest| match request {
            MaintenanceRequest::Ping { .. } => "ping",
            MaintenanceRequest::Backfill(_) => "backfill",
            MaintenanceRequest::Witness(..) => "witness",
            MaintenanceRequest::Reopen(_) => "reopen",
            MaintenanceRequest::Announce(_) => "announce",
            MaintenanceRequest::ReadRules => "rules",
        };
        self.requests.iter().map(name).collect()
    }

    fn wake_ms(&self, ms: u64) -> u64 {
        self.maintenance.wake_at(START.plus_ms(ms)).ms_since(START)
    }
}

/// The answers of a store that charges everything.
fn confirmed(request: &StoreRequest, ms: u64) -> StepAnswers {
    let now = START.plus_ms(ms);
    let charge = |charge: &Charge| StoredCounter::new(charge).evaluate(charge, now);
    request.steps().iter().map(|step| Some(Ok(step.charges.iter().map(charge).collect()))).collect()
}

/// The answer in time to a ping.
const fn pinged(answer: Result<Timestamp, StoreError>) -> MaintenanceInput {
    MaintenanceInput::Pinged { primary: PrimaryIndex::ONLY, answer, is_late: false }
}

/// The presence set with three agents that are alive at this time.
fn set_of_three(ms: u64) -> PresenceSet {
    let agents = ["a", "b", "c"].map(|id| (id.into(), START.plus_ms(ms)));
    PresenceSet { age_ms: 60_000, agents: agents.into(), ..PresenceSet::default() }
}

#[test]
fn a_new_agent_reaches_for_its_store_and_then_announces_itself_and_reads_the_rules() {
    let mut fixture = Fixture::new(ON_REDIS);
    fixture.tick(0);
    fixture.tick(5);
    assert_eq!(fixture.waiting(), ["ping"], "one at a time, and nothing else before it is answered");
    assert!(!fixture.engine.has_reached_store());
    fixture.requests.clear();
    fixture.poll(20, pinged(Ok(START.plus_ms(10))));
    assert!(fixture.engine.has_reached_store());
    assert_eq!(fixture.waiting(), ["announce", "rules"]);
    fixture.answer_all(21);
    assert_eq!(*fixture.engine.fleet.ids(), ["a".into()], "the answer is applied at the next housekeeping");
    assert_eq!(fixture.engine.store_time(START.plus_ms(20)).earliest, START.plus_ms(10), "sent at 0, received at 20");
    fixture.tick(1_020);
    assert_eq!(fixture.waiting(), ["announce"]);
    assert_eq!(fixture.engine.fleet.ids().len(), 3);
    fixture.tick(3_000);
    assert_eq!(fixture.waiting(), ["announce"], "one at a time");
}

/// F8: after three failures in a row, within 30 s, an operator is told that published rules cannot be followed.
#[test]
fn rules_that_can_be_read_from_nowhere_raise_an_alarm_until_they_can_be_read() {
    let mut fixture = Fixture::reached(ON_REDIS);
    fixture.answer_all(0);
    let mut alarmed_ms = None;
    for ms in (100..=30_000).step_by(100) {
        fixture.tick(ms);
        for request in std::mem::take(&mut fixture.requests) {
            let away = StoreError::TimedOut;
            let answer = match request {
                MaintenanceRequest::ReadRules => MaintenanceInput::RulesRead(false),
                MaintenanceRequest::Announce(_) => MaintenanceInput::Announced(Err(away)),
                _ => pinged(Err(away)),
            };
            fixture.poll(ms, answer);
        }
        if fixture.notices.contains(&Notice::RulesUnreachable) {
            alarmed_ms.get_or_insert(ms);
        }
    }
    assert!(alarmed_ms.is_some_and(|ms| (15_000..=30_000).contains(&ms)), "{alarmed_ms:?}");
    assert!(fixture.engine.is_cut_off_from_rules());
    fixture.engine.set_bus_error(None);
    fixture.tick(40_000);
    assert!(!fixture.engine.is_cut_off_from_rules(), "the bus carries the rules, too");
    assert_eq!(fixture.notices.iter().filter(|notice| **notice == Notice::RulesUnreachable).count(), 1);
}

#[test]
fn an_idle_agent_wakes_for_its_duties_only() {
    for settings in [ON_REDIS, ALONE] {
        let mut fixture = Fixture::reached(settings);
        let (mut ms, mut ticks) = (0, 0);
        while ms < 10_000 {
            ms = fixture.wake_ms(ms);
            fixture.tick(ms);
            fixture.answer_all(ms);
            ticks += 1;
        }
        assert!(ticks <= 101, "{settings:?}: {ticks} in ten seconds");
    }
}

#[test]
fn a_shell_that_sleeps_is_woken_when_a_call_makes_work() {
    let mut fixture = Fixture::reached(ON_REDIS);
    let woken = Arc::new(WakeUps::default());
    fixture.maintenance.set_waker(woken.clone().into());
    let count = || woken.count();
    assert_eq!(fixture.wake_ms(1), 100);
    fixture.admit_without_store(2, "k");
    assert_eq!((count(), fixture.wake_ms(2)), (1, 3), "a probe is due at once");
    fixture.tick(3);
    fixture.answer_all(3);
    assert_eq!(fixture.wake_ms(20), 100);
    fixture.engine.lose_store();
    assert_eq!((count(), fixture.wake_ms(20)), (2, 21));
}

#[test]
fn the_known_agents_are_saved_when_they_change() {
    let mut fixture = Fixture::new(ALONE);
    fixture.tick(0);
    assert!(fixture.saved.is_empty(), "an expected number is not known");
    for ms in (0..40_000).step_by(1_000) {
        fixture.hear(ms, "a");
        if ms >= 20_000 {
            fixture.hear(ms, "b");
        }
        fixture.tick(ms);
    }
    assert_eq!(fixture.saved, [1, 2]);
}

/// F4, F9, I8: rules that change are announced at once, newly published ones are read at once, and other digest keys are told.
#[test]
fn an_announcement_follows_the_rules_and_its_answer_is_followed() {
    let mut fixture = Fixture::reached(ON_REDIS);
    let announced =
        |generation| Some(AnnouncedRules { numbering: Numbering::Version, generation, order: generation, rank: 0 });
    fixture.engine.set_rules(START.plus_ms(10), RuleSet::new(2, [])).expect("newer rules");
    fixture.tick(10);
    assert!(matches!(fixture.requests[..], [MaintenanceRequest::Announce(rules)] if rules == announced(2)));
    fixture.requests.clear();
    let set = PresenceSet { published: Some(3), other_digest_keys: 1, ..set_of_three(20) };
    fixture.poll(20, MaintenanceInput::Announced(Ok(set.clone())));
    assert_eq!((fixture.waiting(), &fixture.notices[..]), (vec!["rules"], &[Notice::DigestKeysDiffer][..]));
    fixture.answer_all(21);
    fixture.tick(1_010);
    assert_eq!(fixture.waiting(), ["announce"]);
    fixture.requests.clear();
    let agreed = PresenceSet { other_digest_keys: 0, ..set };
    fixture.poll(1_020, MaintenanceInput::Announced(Ok(agreed)));
    assert_eq!(fixture.waiting(), Vec::<&str>::new(), "they were read");
    assert_eq!(fixture.notices.last(), Some(&Notice::DigestKeysAgree));
}
