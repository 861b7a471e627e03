//! The parts of the quotas that agents take while the store does not decide: together they are never more than one, through
//! joins, crashes, cuts, and outages of store and bus one after the other.
//!
//! Excused, as the documents state: agents that go by the expected number; agents that are cut off from store or bus alone,
//! or were a short time ago; agents that have heard nobody in their life; for a short time, agents that start during an
//! outage; and agents that reach neither store nor bus, while another one that started since then has never heard them.

use std::collections::BTreeMap;

use fastrand::Rng;
use tollgate::Call;
use tollgate_core::clock::Timestamp;
use tollgate_engine::FleetPart;
use tollgate_servers::scaled;
use tollgate_sim::{Cut, Faults, Observation, SimNode, SimSettings, Simulation, StoreState};

const START: Timestamp = Timestamp::from_ms(1_763_700_000_000);
const RULES: &str = "rules: [{ name: key, per: [api_key], quota: 100/min, consistency: strict }]";
/// Virtual time of a random run, in ms, and the number of runs of the full test.
const RUN_MS: u64 = 180_000;
const RUNS: u64 = 400;
/// Time after the end of a cut within which an agent is excused, in ms: it may have been removed, and joins again.
const CUT_MS: u64 = 18_000;
/// Time for which an agent that starts during an outage is excused, and in which agents find the store again, in ms.
const START_MS: u64 = 8_000;

fn simulation(seed: u64, agents: usize) -> Simulation<'static> {
    let rules = tollgate_rules::from_yaml("rules.yaml", RULES, 1).expect("valid rules");
    let settings = SimSettings {
        seed,
        aggregators: 0,
        faults: Faults { store_ms_max: 2, bus_ms_max: 50, ..Faults::default() },
        ..SimSettings::fleet(START, agents)
    };
    Simulation::new(settings, &rules)
}

fn run_ms(sim: &mut Simulation<'_>, ms: u64) {
    sim.run_until(sim.now().plus_ms(ms));
    sim.observations();
}

fn parts(sim: &Simulation<'_>) -> Vec<Option<FleetPart>> {
    sim.agents().iter().map(|agent| agent.engine().map(tollgate_engine::Engine::fleet_part)).collect()
}

/// Denominators of the parts of all agents; 0 is no part.
fn shares(sim: &Simulation<'_>) -> Vec<u32> {
    let denominator = |part: FleetPart| part.agents().map_or(0, std::num::NonZeroU32::get);
    parts(sim).into_iter().map(|part| part.map_or(0, denominator)).collect()
}

/// Lets a call on one key arrive at each agent in turn. Returns the number of those that were admitted in the last minute.
fn admitted_in_a_minute(sim: &mut Simulation<'static>, calls: usize, gap_ms: u64) -> usize {
    let (mut admitted, mut most) = (Vec::<u64>::new(), 0);
    for call in 0..calls {
        sim.check(call % sim.agents().len(), vec![Call::new().with("api_key", "k")]);
        sim.run_until(sim.now().plus_ms(gap_ms));
        for observation in sim.observations() {
            if let Observation::Answered(answered) = observation
                && answered.decision.allowed
            {
                let at = answered.answered.as_ms();
                admitted.push(at);
                most = most.max(admitted.iter().filter(|before| **before + 60_000 > at).count());
            }
        }
    }
    most
}

/// I10: the store fails and the bus fails 8 s later: three agents remain three, and admit the quota together.
#[test]
fn agents_that_lose_the_store_and_then_the_bus_remain_as_many_as_they_were() {
    let mut sim = simulation(1, 3);
    run_ms(&mut sim, 20_000);
    sim.set_store(StoreState::Unreachable);
    run_ms(&mut sim, 8_000);
    sim.set_bus_up(false);
    let most = admitted_in_a_minute(&mut sim, 3_000, 100);
    assert!((90..=105).contains(&most), "{most} of 100");
    assert_eq!(shares(&sim), [3, 3, 3]);
    assert!(sim.agents().iter().all(|agent| agent.engine().is_some_and(tollgate_engine::Engine::is_fleet_frozen)));
}

/// I10: a store that is empty for 0.35 s and then gone: the last known number stands, at one agent that alone saw it too.
#[test]
fn a_store_that_comes_back_empty_makes_no_fleet_of_one() {
    for seen_by in [3, 1] {
        let mut sim = simulation(2, 3);
        sim.set_bus_up(false);
        run_ms(&mut sim, 20_000);
        assert_eq!(shares(&sim), [3, 3, 3], "known from the store alone");
        sim.set_store(StoreState::Unreachable);
        run_ms(&mut sim, 500);
        sim.empty_presence_set();
        (seen_by..3).for_each(|agent| sim.set_cut(agent, Cut { store: true, ..Cut::default() }));
        sim.set_store(StoreState::Up);
        run_ms(&mut sim, 350);
        sim.set_store(StoreState::Unreachable);
        let most = admitted_in_a_minute(&mut sim, 1_500, 100);
        assert!((90..=105).contains(&most), "{most} of 100, seen by {seen_by}");
        assert_eq!(shares(&sim), [3, 3, 3]);
    }
}

/// I10: a presence set that is emptied every 200 ms, for longer than the removal time, makes no fleet smaller: the next
/// outage admits the quota once.
#[test]
fn a_set_that_is_emptied_again_and_again_makes_no_fleet_smaller() {
    let mut sim = simulation(5, 3);
    sim.set_bus_up(false);
    run_ms(&mut sim, 20_000);
    assert_eq!(shares(&sim), [3, 3, 3], "known from the store alone");
    for _ in 0..150 {
        sim.empty_presence_set();
        run_ms(&mut sim, 200);
        assert_eq!(shares(&sim), [3, 3, 3]);
    }
    sim.set_store(StoreState::Unreachable);
    let most = admitted_in_a_minute(&mut sim, 1_500, 100);
    assert!((90..=105).contains(&most), "{most} of 100");
}

/// I10: a step of the store's clock forward by about the removal time, by more, or back: an agent that is replaced
/// meanwhile does not take the others for gone, although they have not announced themselves since the step.
#[test]
fn an_agent_that_starts_after_a_step_of_the_stores_clock_does_not_believe_that_it_is_alone() {
    for by_ms in [12_600, 14_000, 3_600_000, -30_000] {
        let mut sim = simulation(4, 3);
        sim.set_bus_up(false);
        run_ms(&mut sim, 20_600);
        assert_eq!(shares(&sim), [3, 3, 3], "known from the store alone");
        // The second agent has no state directory. That it leaves keeps the set alive.
        sim.leave_agent(1);
        sim.step_store_clock(by_ms);
        let rules = tollgate_rules::from_yaml("rules.yaml", RULES, 1).expect("valid rules");
        sim.start_agent(1, &rules);
        for _ in 0..60 {
            run_ms(&mut sim, 50);
            let shares = shares(&sim);
            assert_eq!((shares[0], shares[2]), (3, 3), "{shares:?} after {by_ms} ms");
            assert!(shares[1] != 1 && shares[1] != 2, "{shares:?} after {by_ms} ms");
        }
    }
}

/// I10: an agent whose heartbeats reach nobody gives its part up before the others divide it.
#[test]
fn an_agent_that_is_cut_from_the_bus_in_one_direction_has_no_part_before_the_others_take_it() {
    let mut sim = simulation(3, 3);
    run_ms(&mut sim, 20_000);
    sim.set_store(StoreState::Unreachable);
    run_ms(&mut sim, 1_000);
    sim.set_cut(0, Cut { bus_writes: true, ..Cut::default() });
    let mut seen = Vec::new();
    for _ in 0..200 {
        run_ms(&mut sim, 100);
        if seen.last() != Some(&shares(&sim)) {
            seen.push(shares(&sim));
        }
    }
    assert_eq!((&seen[0], &seen[1], seen.last()), (&vec![3, 3, 3], &vec![0, 3, 3], Some(&vec![0, 2, 2])), "{seen:?}");
    sim.set_cut(0, Cut::default());
    run_ms(&mut sim, 4_000);
    assert_eq!(shares(&sim), [3, 3, 3]);
}

/// Bookkeeping of the property.
#[derive(Default)]
struct Book {
    /// Instant until which an agent is excused because it was cut off alone.
    cut_until: BTreeMap<usize, u64>,
    started: BTreeMap<usize, u64>,
    /// Last instant at which others could hear an agent.
    audible: BTreeMap<usize, u64>,
    /// Agents that have followed the fleet in their life.
    has_met: BTreeMap<usize, bool>,
    last_outage: u64,
    last_start: u64,
}

impl Book {
    fn check(&mut self, sim: &mut Simulation<'static>, cuts: &[Cut], store: bool, bus: bool) -> Result<(), String> {
        let now = sim.now().as_ms();
        for observation in sim.observations() {
            if let Observation::Started(SimNode::Agent(agent)) = observation {
                self.started.insert(agent, now);
                self.has_met.insert(agent, false);
                self.last_start = now;
            }
        }
        if !(store && bus) {
            self.last_outage = now;
        }
        for (agent, cut) in cuts.iter().enumerate().filter(|(_, cut)| cut.store || cut.bus_reads) {
            debug_assert!(*cut != Cut::default());
            self.cut_until.insert(agent, now + CUT_MS);
        }
        if !store && !bus {
            // Nobody tells an agent that was cut off that it was removed.
            self.cut_until.values_mut().filter(|until| now < **until).for_each(|until| *until = now + CUT_MS);
        }
        for (agent, cut) in cuts.iter().enumerate() {
            if bus && !cut.bus_writes || store && !cut.store {
                self.audible.insert(agent, now);
            }
        }
        if now < self.last_start + START_MS && now < self.last_outage + START_MS {
            return Ok(());
        }
        let mut sum = 0.0;
        for (agent, part) in parts(sim).into_iter().enumerate() {
            let is_frozen = sim.agents()[agent].engine().is_some_and(tollgate_engine::Engine::is_fleet_frozen);
            let has_met = self.has_met.entry(agent).or_default();
            *has_met |= !is_frozen && now > self.started.get(&agent).copied().unwrap_or(0) + 4_000;
            let is_new = now <= self.started.get(&agent).copied().unwrap_or(0) + 4_000;
            let audible = self.audible.get(&agent).copied().unwrap_or(0);
            let is_unheard = audible < now && self.started.iter().any(|(other, at)| *other != agent && *at > audible);
            let was_cut = self.cut_until.get(&agent).is_some_and(|until| now < *until);
            let is_excused = was_cut || is_unheard && cuts[agent].bus_writes || !(*has_met || is_new);
            if let Some(FleetPart::OneOf(agents)) = part
                && !is_excused
            {
                sum += 1.0 / f64::from(agents.get());
            }
        }
        if sum > 1.000_001 { Err(format!("parts: {sum} in all: {:?}", parts(sim))) } else { Ok(()) }
    }
}

fn random_run(seed: u64) -> Result<u32, String> {
    let mut rng = Rng::with_seed(seed);
    let agents = rng.usize(2..6);
    let rules = tollgate_rules::from_yaml("rules.yaml", RULES, 1).expect("valid rules");
    let (mut sim, mut book, mut cuts) = (simulation(seed, agents), Book::default(), vec![Cut::default(); agents]);
    let (mut is_store_up, mut is_bus_up, mut degraded) = (true, true, 0);
    while sim.now().ms_since(START) < RUN_MS {
        let until = sim.now().plus_ms(rng.u64(1..12_000));
        while sim.now() < until {
            sim.run_until(sim.now().plus_ms(50).min(until));
            book.check(&mut sim, &cuts, is_store_up, is_bus_up).map_err(|broken| format!("seed {seed}: {broken}"))?;
            degraded += u32::from(!is_store_up && !is_bus_up);
        }
        let agent = rng.usize(0..agents);
        match rng.u8(0..8) {
            0 | 1 => {
                is_store_up = !is_store_up;
                let down = [StoreState::Silent, StoreState::Refusing, StoreState::Unreachable];
                sim.set_store(if is_store_up { StoreState::Up } else { down[rng.usize(0..3)] });
            }
            2 | 3 => {
                is_bus_up = !is_bus_up;
                sim.set_bus_up(is_bus_up);
            }
            4 => sim.empty_presence_set(),
            5 => {
                let cut = Cut { store: rng.bool(), bus_writes: rng.bool(), bus_reads: rng.bool(), store_late_ms: 0 };
                cuts[agent] = if cuts[agent] == Cut::default() { cut } else { Cut::default() };
                sim.set_cut(agent, cuts[agent]);
            }
            6 if sim.agents()[agent].engine().is_some() && rng.bool() => sim.leave_agent(agent),
            6 => sim.crash_agent(agent),
            _ => (0..agents).for_each(|agent| sim.start_agent(agent, &rules)),
        }
    }
    Ok(degraded)
}

/// I10: the parts of the agents never sum above one, in random fleets.
#[test]
fn the_parts_of_all_agents_never_sum_above_one() {
    let runs: Result<u32, String> = (0..scaled(RUNS)).map(random_run).sum();
    assert!(runs.unwrap_or_else(|broken| panic!("{broken}")) > 1_000, "outages of both");
}
