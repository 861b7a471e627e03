//! The incidents of a run: each strikes at random, and most of them are repaired after a random time.

use fastrand::Rng;
use tollgate_core::clock::{CLOCK_ERROR_MAX_MS, Timestamp};
use tollgate_core::rules::Generation;
use tollgate_experiments::sim::{Simulation, StoreState};

use super::rules;
use crate::invariants::START;

/// One of so many calls is followed by an incident.
const CALLS_PER_INCIDENT: u8 = 40;
/// Maximum step of the store's clock, in ms: longer than any count is kept.
const STEP_MS_MAX: i64 = 120_000;
/// Begin of the last part of a run, in which no topic is recreated, in ms.
const LAST_PART_MS: u64 = 5_000;

/// The kinds of incidents of a run, and the repairs that are due.
pub(crate) struct Incidents {
    kinds: Vec<Kind>,
    repairs: Vec<(Timestamp, Repair)>,
    /// The newest generation of rules.
    published: Generation,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    StoreFails,
    StorePauses,
    StoreClockSteps,
    BusFails,
    AgentEnds,
    AgentPauses,
    AggregatorEnds,
    AggregatorPauses,
    RulesChange,
    TopicRecreated,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Repair {
    Store,
    /// The end of a glitch of the store's clock.
    StoreClock(i64),
    Bus,
    Agent(usize),
    Aggregator(usize),
}

impl Incidents {
    /// Draws the kinds of a run. The second aggregator of a third of the runs starts late.
    pub(crate) fn new(rng: &mut Rng, sim: &mut Simulation<'static>) -> Self {
        let all = [
            Kind::StoreFails,
            Kind::StoreClockSteps,
            Kind::BusFails,
            Kind::AgentEnds,
            Kind::AggregatorEnds,
            Kind::AggregatorPauses,
            Kind::RulesChange,
            Kind::TopicRecreated,
            Kind::StorePauses,
            Kind::AgentPauses,
        ];
        let is_rare = |kind: Kind| matches!(kind, Kind::TopicRecreated | Kind::StoreClockSteps);
        let kinds = all.into_iter().filter(|kind| rng.u8(0..8) < if is_rare(*kind) { 2 } else { 4 }).collect();
        let mut repairs = Vec::new();
        if rng.u8(0..3) == 0 {
            sim.crash_aggregator(1);
            repairs.push((START.plus_ms(rng.u64(1_500..4_000)), Repair::Aggregator(1)));
        }
        Self { kinds, repairs, published: rules::FIRST }
    }

    /// Repairs what is due, and lets an incident strike now and then.
    pub(crate) fn strike(&mut self, rng: &mut Rng, sim: &mut Simulation<'static>) {
        let now = sim.now();
        let due: Vec<Repair> = self.repairs.iter().filter(|(at, _)| *at <= now).map(|(_, repair)| *repair).collect();
        self.repairs.retain(|(at, _)| *at > now);
        for repair in due {
            repair.apply(sim);
        }
        if self.kinds.is_empty() || rng.u8(0..CALLS_PER_INCIDENT) > 0 {
            return;
        }
        let (kind, agent) = (self.kinds[rng.usize(0..self.kinds.len())], rng.usize(0..sim.agents().len()));
        let aggregator = rng.usize(0..sim.aggregators().len());
        match kind {
            Kind::StoreFails => {
                let states = [
                    StoreState::Slow(rng.u64(1..30)),
                    StoreState::Silent,
                    StoreState::Refusing,
                    StoreState::Unreachable,
                ];
                sim.set_store(states[rng.usize(0..states.len())]);
                self.later(rng, now, 1_500, Repair::Store);
            }
            // Shorter and longer than a deadline: answers come late, or requests have expired.
            Kind::StorePauses => {
                sim.set_store(StoreState::Silent);
                self.repairs.retain(|(_, other)| *other != Repair::Store);
                self.repairs.push((now.plus_ms(rng.u64(2..100)), Repair::Store));
            }
            Kind::AgentPauses => sim.pause_agent(agent, now.plus_ms(rng.u64(2..100))),
            Kind::StoreClockSteps => {
                let by_ms = step_ms(rng, sim.store().time(now).as_ms().cast_signed());
                sim.step_store_clock(by_ms);
                if rng.bool() {
                    self.repairs.push((now.plus_ms(rng.u64(20..1_500)), Repair::StoreClock(-by_ms)));
                }
            }
            Kind::BusFails => {
                sim.set_bus_up(false);
                self.later(rng, now, 1_500, Repair::Bus);
            }
            Kind::AgentEnds => {
                if rng.bool() {
                    sim.crash_agent(agent);
                } else {
                    sim.leave_agent(agent);
                }
                self.later(rng, now, 2_000, Repair::Agent(agent));
            }
            Kind::AggregatorEnds => {
                if rng.bool() {
                    sim.crash_aggregator(aggregator);
                } else {
                    sim.leave_aggregator(aggregator);
                }
                self.later(rng, now, 4_000, Repair::Aggregator(aggregator));
            }
            Kind::AggregatorPauses => sim.pause_aggregator(aggregator, now.plus_ms(rng.u64(50..3_000))),
            Kind::RulesChange => self.change_rules(rng, sim, agent),
            Kind::TopicRecreated => {
                if now.ms_since(START) < LAST_PART_MS {
                    sim.recreate_calls();
                }
            }
        }
    }

    /// Repairs everything.
    pub(crate) fn end(&mut self, sim: &mut Simulation<'static>) {
        for (_, repair) in self.repairs.drain(..) {
            repair.apply(sim);
        }
    }

    fn later(&mut self, rng: &mut Rng, now: Timestamp, ms_max: u64, repair: Repair) {
        self.repairs.retain(|(_, other)| *other != repair);
        self.repairs.push((now.plus_ms(rng.u64(20..ms_max)), repair));
    }

    /// Hands newer rules to one agent; older and broken ones are refused.
    fn change_rules(&mut self, rng: &mut Rng, sim: &mut Simulation<'static>, agent: usize) {
        let Some(in_force) = sim.agents()[agent].engine().map(|engine| engine.with_rules(|rules| rules.generation))
        else {
            return;
        };
        assert!(tollgate_rules::from_yaml("rules.yaml", &rules::broken(), 9).is_err());
        assert_eq!(sim.set_rules(agent, rules::older()), Err(in_force));
        self.published = rules::NEWEST.min(self.published + u64::from(rng.bool()));
        let answer = sim.set_rules(agent, rules::generation(self.published));
        assert_eq!(answer, if self.published < in_force { Err(in_force) } else { Ok(()) });
    }
}

/// Draws a step of a clock that shows `now`: below the clock error, around it, or past every window; half of the steps
/// end at the edge of a sub-window, since a second is a multiple of all but one of them. Larger steps are also in
/// `clock_steps.rs`.
fn step_ms(rng: &mut Rng, now_ms: i64) -> i64 {
    let small = i64::try_from(CLOCK_ERROR_MAX_MS).unwrap_or_default();
    let size_ms = match rng.u8(0..3) {
        0 => rng.i64(1..small),
        1 => rng.i64(small - 5..small + 5),
        _ => rng.i64(small..STEP_MS_MAX),
    };
    let by_ms = if rng.bool() { size_ms } else { -size_ms };
    if rng.bool() { (now_ms + by_ms) / 1_000 * 1_000 + rng.i64(-1..=1) - now_ms } else { by_ms }
}

impl Repair {
    fn apply(self, sim: &mut Simulation<'static>) {
        match self {
            Self::Store => sim.set_store(StoreState::Up),
            Self::StoreClock(by_ms) => sim.step_store_clock(by_ms),
            Self::Bus => sim.set_bus_up(true),
            // An agent that starts reads the first rules; newer ones reach it later.
            Self::Agent(agent) => sim.start_agent(agent, &rules::generation(rules::FIRST)),
            Self::Aggregator(aggregator) => sim.start_aggregator(aggregator),
        }
    }
}
