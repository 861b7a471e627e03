//! A store of several primaries, each with a clock of its own: calls over several of them, slots that move, a primary that is lost, and
//! one that fails over.

use std::collections::BTreeMap;

use fastrand::Rng;
use tollgate::{Call, DecidedCall, Source};
use tollgate_core::clock::Timestamp;
use tollgate_core::counter::{CounterId, DigestKey, HashSlotId, PrimaryIndex};
use tollgate_core::decision::Decision;
use tollgate_servers::scaled;
use tollgate_sim::{Correction, Faults, Observation, SimSettings, Simulation, StoreState};

const START: Timestamp = Timestamp::from_ms(1_763_700_000_000);
/// Differences of the clocks of the primaries from true time, in ms.
const OFFSETS_MS: [i64; 3] = [0, 300, -30_000];
const WINDOW_MS: u64 = 10_000;
/// Number of seeds of the full test.
const SEEDS: u64 = 300;
/// Two rules that limit, one in shadow; the counters of a call lie on different primaries.
const RULES: &str = "
version: 1
defaults: { consistency: strict, estimate: conservative }
rules:
  - { name: user, per: [user], quota: 40/10s }
  - { name: route, per: [route], quota: 100/10s }
  - { name: watched, per: [user, route], quota: 5/10s, shadow: true }
";

/// Instants of the admissions of each counter, in the time of its primary, with their units.
#[derive(Default)]
struct Admissions(BTreeMap<CounterId, Vec<u64>>);

struct Fleet {
    sim: Simulation<'static>,
    rng: Rng,
    admitted: Admissions,
    answers: Vec<(Call<'static>, Decision)>,
    notices: usize,
    /// Instants of the last two announcements of each agent.
    announced: BTreeMap<usize, [Timestamp; 2]>,
}

impl Admissions {
    /// Returns the largest number of admissions of a counter in any window.
    fn worst(&self, counter: CounterId) -> usize {
        let mut instants = self.0.get(&counter).cloned().unwrap_or_default();
        instants.sort_unstable();
        let in_window = |(first, at): (usize, &u64)| instants[first..].partition_point(|other| *other < at + WINDOW_MS);
        instants.iter().enumerate().map(in_window).max().unwrap_or_default()
    }
}

impl Fleet {
    fn new(seed: u64, agents: usize, rules: &str) -> Self {
        let rules = tollgate_rules::from_yaml("rules.yaml", rules, 1).expect("valid rules");
        let further_primaries = OFFSETS_MS[1..].to_vec();
        let faults = Faults { store_ms_max: 2, bus_ms_max: 5, ..Faults::default() };
        let settings = SimSettings { seed, further_primaries, faults, ..SimSettings::fleet(START, agents) };
        let sim = Simulation::new(settings, &rules);
        let rng = Rng::with_seed(seed);
        let (admitted, announced) = (Admissions::default(), BTreeMap::new());
        let mut fleet = Self { sim, rng, admitted, answers: Vec::new(), notices: 0, announced };
        fleet.pass(3_000);
        fleet.answers.clear();
        fleet
    }

    fn pass(&mut self, ms: u64) {
        self.sim.run_until(self.sim.now().plus_ms(ms));
        let mut announcing = Vec::new();
        for observation in self.sim.observations() {
            match observation {
                Observation::Answered(answered) => {
                    let (call, decision) = (answered.call, answered.decision);
                    if decision.allowed {
                        let decided = DecidedCall::new(&DigestKey::default(), &call, &decision).expect("an admission");
                        for (position, counter) in counters(&call).into_iter().enumerate() {
                            let at = decided.counted_at(position).as_ms();
                            self.admitted.0.entry(counter).or_default().push(at);
                        }
                    }
                    self.answers.push((call, decision));
                }
                Observation::Notified(..) => self.notices += 1,
                Observation::Announces(agent, at) => announcing.push((agent, at)),
                _ => {}
            }
        }
        for (agent, at) in announcing {
            self.announces(agent, at);
        }
    }

    /// Checks that an agent announces itself at most twice in a second, also while the primary that takes it is lost: announcements
    /// that fail at once would otherwise take the whole processor.
    fn announces(&mut self, agent: usize, now: Timestamp) {
        let [before, last] = self.announced.get(&agent).copied().unwrap_or([Timestamp::from_ms(0); 2]);
        assert!(now.ms_since(before) >= 900, "agent {agent} announces itself at {before:?}, {last:?} and {now:?}");
        self.announced.insert(agent, [last, now]);
    }

    /// Lets calls of a few users on a few routes come for a while, with this mean distance, some of them with an id.
    fn load(&mut self, ms: u64, distance_ms: u64, mut between: impl FnMut(&mut Self)) {
        let until = self.sim.now().plus_ms(ms);
        let mut number = self.sim.now().as_ms();
        while self.sim.now() < until {
            number += 1;
            let (user, route) = (self.rng.u8(0..4), self.rng.u8(0..3));
            let call = call(&format!("u{user}"), &format!("r{route}"));
            let call = if self.rng.u8(0..4) == 0 { call.identified(format!("id-{number}")) } else { call };
            let agent = self.rng.usize(0..self.sim.agents().len());
            self.sim.check(agent, vec![call]);
            let pause_ms = self.rng.u64(0..=2 * distance_ms);
            self.pass(pause_ms);
            between(self);
        }
        self.pass(100);
    }

    fn has_unsynced(&self) -> bool {
        self.sim.agents().iter().filter_map(|agent| agent.engine()).any(tollgate_engine::Engine::needs_store)
    }

    /// Returns the units of a counter in its store that are in the window now.
    fn stored(&self, counter: CounterId) -> usize {
        let store = self.sim.store_of(counter);
        let now = store.time(self.sim.now());
        let state = store.peek(counter).map(|mut state| {
            let limit = store.limit(counter).expect("its limit");
            state.step(&limit, now, 0).remaining
        });
        let quota = store.limit(counter).map_or(0, |limit| limit.units);
        usize::try_from(state.map_or(0, |remaining| quota - remaining)).expect("small")
    }

    /// Returns the admissions of a counter that are in the window now, as far as its quota can show them.
    fn live(&self, counter: CounterId) -> usize {
        let quota = self.sim.store_of(counter).limit(counter).map_or(0, |limit| limit.units);
        let now = self.sim.store_of(counter).time(self.sim.now()).as_ms();
        let instants = self.admitted.0.get(&counter).into_iter().flatten();
        let live = instants.filter(|at| **at + WINDOW_MS > now).count();
        live.min(usize::try_from(quota).expect("small"))
    }

    fn worst(&self, per: &str, quota: usize) -> usize {
        let of_rule = |user: String, route: String| counters(&call(&user, &route))[usize::from(per == "route")];
        let names: Vec<CounterId> = match per {
            "user" => (0..4).map(|user| of_rule(format!("u{user}"), String::new())).collect(),
            _ => (0..3).map(|route| of_rule(String::new(), format!("r{route}"))).collect(),
        };
        let worst = names.iter().map(|counter| self.admitted.worst(*counter)).max().unwrap_or_default();
        println!("{per}: {worst} of {quota}");
        worst
    }
}

fn call(user: &str, route: &str) -> Call<'static> {
    Call::new().with("user", user.to_owned()).with("route", route.to_owned())
}

/// Returns the counters of a call, in the order of the rules.
fn counters(call: &Call<'_>) -> [CounterId; 3] {
    let key = DigestKey::default();
    let value = |name: &str| call.descriptors().find(|(known, _)| *known == name).map_or("", |(_, value)| value);
    let (user, route) = (value("user"), value("route"));
    [key.counter("user", [user]), key.counter("route", [route]), key.counter("watched", [user, route])]
}

fn slot_of(counter: CounterId) -> u16 {
    HashSlotId::of(counter).cluster_slot()
}

fn primary(index: usize) -> PrimaryIndex {
    PrimaryIndex::new(index).expect("a primary")
}

/// never-over, no-waste: each rule is exact by the clock of its primary, whatever the other primaries show.
#[test]
fn calls_over_several_primaries_are_limited_exactly() {
    let mut fleet = Fleet::new(1, 3, RULES);
    fleet.load(40_000, 10, |_| {});
    let (user, route) = (fleet.worst("user", 40), fleet.worst("route", 100));
    assert!(user <= 40 && route <= 100 && user >= 39, "user {user}, route {route}");
    let is_own = |decision: &Decision| matches!(decision.source, Source::Store | Source::Local);
    assert!(fleet.answers.iter().all(|(_, decision)| is_own(decision)), "no call is degraded");
    let leased =
        fleet.answers.iter().filter(|(_, decision)| decision.allowed && decision.source == Source::Local).count();
    println!("{leased} of {} by leases; {} notices", fleet.answers.len(), fleet.notices);
    assert_eq!(fleet.notices, 0, "no clock stepped, and nothing was lost");
}

/// A primary that cannot be reached takes the store only from the counters that it holds.
#[test]
fn a_lost_primary_degrades_only_its_counters() {
    let mut fleet = Fleet::new(2, 3, RULES);
    fleet.load(3_000, 20, |_| {});
    let holds = |lost: usize, call: &Call<'_>, fleet: &Fleet| {
        counters(call).iter().any(|counter| fleet.sim.primaries().owner(*counter) == primary(lost))
    };
    let calls: Vec<_> = (0..12).map(|number| call(&format!("u{}", number / 3), &format!("r{}", number % 3))).collect();
    let lost = (0..3).find(|lost| calls.iter().any(|call| !holds(*lost, call, &fleet))).expect("a primary");
    fleet.sim.set_primary(primary(lost), StoreState::Unreachable);
    // The agents notice it.
    fleet.load(200, 20, |_| {});
    fleet.answers.clear();
    fleet.load(5_000, 20, |_| {});
    let (mut others, mut degraded) = (0, 0);
    for (call, decision) in &fleet.answers {
        if holds(lost, call, &fleet) {
            degraded += usize::from(decision.source.is_degraded());
        } else {
            others += 1;
            assert!(matches!(decision.source, Source::Store | Source::Local), "{call:?} {decision:?}");
        }
    }
    assert!(others > 0 && degraded > 0, "{others} {degraded}");
    fleet.sim.set_primary(primary(lost), StoreState::Up);
    fleet.load(3_000, 20, |_| {});
    assert!(!fleet.has_unsynced(), "the primary has what passed without it");
    for counter in fleet.admitted.0.keys().copied().collect::<Vec<_>>() {
        assert!(fleet.stored(counter) >= fleet.live(counter), "{} {}", fleet.stored(counter), fleet.live(counter));
    }
}

/// Slots move under load between primaries whose clocks are half a minute apart: no call is degraded, and no window is exceeded by
/// the time of the primaries.
#[test]
fn slots_move_under_load() {
    let mut fleet = Fleet::new(3, 3, RULES);
    fleet.load(20_000, 10, |fleet| {
        if fleet.rng.u8(0..20) == 0 {
            let known: Vec<CounterId> = fleet.admitted.0.keys().copied().collect();
            let (counter, to) = (known[fleet.rng.usize(0..known.len())], fleet.rng.usize(0..3));
            fleet.sim.move_slot(slot_of(counter), primary(to));
        }
    });
    let is_own = |decision: &Decision| matches!(decision.source, Source::Store | Source::Local);
    let degraded = fleet.answers.iter().filter(|(_, decision)| !is_own(decision)).count();
    assert_eq!((degraded, fleet.notices), (0, 0), "of {}", fleet.answers.len());
}

/// A primary that gives all its slots away leaves the cluster: nobody asks it any more, and nothing is lost by it.
#[test]
fn a_primary_without_slots_is_left() {
    let mut fleet = Fleet::new(6, 3, RULES);
    fleet.load(1_000, 20, |_| {});
    fleet.sim.set_primary(primary(2), StoreState::Unreachable);
    // Units wait for it.
    fleet.load(500, 20, |_| {});
    assert!(fleet.has_unsynced());
    let owned: Vec<u16> = {
        let owners = (0..).zip(fleet.sim.primaries().owners());
        owners.filter(|(_, owner)| **owner == Some(primary(2))).map(|(slot, _)| slot).collect()
    };
    for slot in owned {
        fleet.sim.move_slot(slot, primary(usize::from(slot % 2)));
    }
    fleet.sim.tell_slots();
    fleet.load(1_500, 20, |_| {});
    fleet.answers.clear();
    fleet.load(3_000, 20, |_| {});
    let is_own = |decision: &Decision| matches!(decision.source, Source::Store | Source::Local);
    assert!(fleet.answers.iter().all(|(_, decision)| is_own(decision)));
    assert!(!fleet.has_unsynced(), "the new owners have what passed without it");
}

/// I12: the units that a fail-over loses are entered again from the signals, and no other primary is concerned.
#[test]
fn the_tail_that_a_fail_over_loses_is_entered_again() {
    let mut fleet = Fleet::new(4, 3, RULES);
    fleet.load(2_000, 20, |_| {});
    fleet.sim.replicate();
    fleet.load(500, 10, |_| {});
    fleet.sim.fail_over(primary(0));
    fleet.load(3_000, 20, |_| {});
    fleet.pass(3_000);
    let mut held = 0;
    for counter in fleet.admitted.0.keys().copied().collect::<Vec<_>>() {
        let (stored, live) = (fleet.stored(counter), fleet.live(counter));
        assert!(stored >= live, "{stored} units are stored and {live} were admitted");
        held += live;
    }
    assert!(held > 0);
}

/// A slot and the entry of a log are found by their instants, which differ between primaries.
#[test]
fn a_release_and_a_settlement_find_their_units_at_every_primary() {
    let rules = "
version: 1
defaults: { consistency: strict }
rules:
  - { name: user, per: [user], quota: 4/10s, algorithm: concurrency }
  - { name: route, per: [route], quota: 4/10s, algorithm: concurrency }
  - { name: watched, per: [user, route], quota: 20/10s, algorithm: sliding_log }
";
    let key = DigestKey::default();
    let mut fleet = Fleet::new(5, 1, rules);
    for number in 0..40 {
        let call = call(&format!("u{}", number % 4), &format!("r{}", number % 3));
        fleet.sim.check(0, vec![call.clone()]);
        fleet.pass(20);
        let (_, decision) = fleet.answers.pop().expect("an answer");
        let decided = DecidedCall::new(&key, &call, &decision).unwrap_or_else(|| panic!("call {number}: {decision:?}"));
        // The text of the id is all that a gateway keeps.
        let decided = DecidedCall::read(&decided.text(&key, &call), &key, &call).expect("its own id");
        fleet.sim.correct(0, call.clone(), Correction::Settle(-1, Some(decided.clone())));
        fleet.sim.correct(0, call.clone(), Correction::Release(decided));
        fleet.pass(20);
        for counter in counters(&call) {
            assert_eq!(fleet.stored(counter), 0, "call {number}");
        }
    }
}

/// never-over, stand-alone: delays, late and lost answers, lost primaries and moving slots, in many worlds. No call stays unanswered, and
/// what was admitted is in the store in the end.
#[test]
fn many_worlds_of_primaries_end_with_every_admission_in_the_store() {
    for seed in 0..scaled(SEEDS) {
        let agents = 1 + usize::try_from(seed % 3).expect("small");
        let mut fleet = Fleet::new(seed, agents, RULES);
        let faults = Faults {
            store_ms_max: if seed % 2 == 0 { 2 } else { 12 },
            store_late_percent: [0, 1, 20][usize::try_from(seed % 3).expect("small")],
            store_answer_lost_percent: u8::from(seed % 5 == 0) * 3,
            bus_ms_max: 20,
            ..Faults::default()
        };
        fleet.sim.set_faults(faults);
        let (has_outages, has_moves) = (seed % 4 == 0, seed % 3 == 0);
        let mut down: Option<(PrimaryIndex, Timestamp)> = None;
        fleet.load(8_000, 15, |fleet| {
            let now = fleet.sim.now();
            if let Some((lost, until)) = down
                && now >= until
            {
                fleet.sim.set_primary(lost, StoreState::Up);
                down = None;
            }
            if has_outages && down.is_none() && fleet.rng.u8(0..60) == 0 {
                let lost = primary(fleet.rng.usize(0..3));
                let state = [StoreState::Silent, StoreState::Unreachable, StoreState::Refusing][fleet.rng.usize(0..3)];
                fleet.sim.set_primary(lost, state);
                down = Some((lost, now.plus_ms(fleet.rng.u64(20..1_500))));
            }
            if has_moves && fleet.rng.u8(0..30) == 0 && !fleet.admitted.0.is_empty() {
                let known: Vec<CounterId> = fleet.admitted.0.keys().copied().collect();
                let counter = known[fleet.rng.usize(0..known.len())];
                let to = primary(fleet.rng.usize(0..3));
                fleet.sim.move_slot(slot_of(counter), to);
            }
        });
        fleet.sim.set_store(StoreState::Up);
        fleet.sim.set_faults(Faults { store_ms_max: 1, bus_ms_max: 5, ..Faults::default() });
        fleet.pass(3_000);
        assert!(!fleet.has_unsynced(), "seed {seed}");
        let is_pending = |agent: &tollgate_sim::SimAgent<'_>| agent.pending() > 0;
        assert!(!fleet.sim.agents().iter().any(is_pending), "seed {seed}: a request is open");
        if !has_moves {
            for counter in fleet.admitted.0.keys().copied().collect::<Vec<_>>() {
                let (stored, live) = (fleet.stored(counter), fleet.live(counter));
                assert!(stored >= live, "seed {seed}: {stored} units are stored and {live} were admitted");
            }
            if !has_outages && faults.store_answer_lost_percent == 0 {
                let (user, route) = (fleet.worst("user", 40), fleet.worst("route", 100));
                assert!(user <= 40 && route <= 100, "seed {seed}: user {user}, route {route}");
            }
        }
    }
}
