//! The incidents that have struck, and their repairs.

use std::collections::BTreeMap;

use fastrand::Rng;
use tollgate::RuleSet;
use tollgate_core::clock::Timestamp;
use tollgate_core::rules::Generation;
use tollgate_sim::{Cut, Simulation, StoreLoss, StoreState};

use super::incident::{Incident, What};
use super::rules;

/// The incidents that have struck, and what follows from them.
pub(crate) struct Incidents {
    due: Vec<(Timestamp, Act)>,
    /// The newest generation of rules.
    published: Generation,
    /// Rules of a world of regions, by generation, in place of the usual ones. Agents that start read those in force.
    of_regions: Option<BTreeMap<Generation, RuleSet>>,
    clocks: StartClocks,
}

/// The clocks of agents that start again.
#[derive(Clone, Copy)]
struct StartClocks {
    seed: u64,
    /// Maximum difference from true time, in ms.
    offset_ms_max: i64,
}

/// Rules of an agent that starts.
struct RulesAtStart {
    first: RuleSet,
    newer: Option<RuleSet>,
}

/// A thing that is done at an instant: the repair of an incident, or the next part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    MendStore,
    /// The end of a failover.
    ReplicaTakesOver,
    /// The end of a glitch of the store's clock.
    StepStoreClock(i64),
    MendBus,
    StartAgent(usize),
    CrashAgent(usize),
    MendCut(usize),
    StartAggregator(usize),
    MendPresence(usize),
}

impl Incidents {
    pub(crate) fn new(seed: u64, clock_offset_ms_max: i64) -> Self {
        let clocks = StartClocks { seed, offset_ms_max: clock_offset_ms_max };
        Self { due: Vec::new(), published: rules::FIRST, of_regions: None, clocks }
    }

    /// Returns the incidents of a region whose agents follow these rules.
    pub(crate) fn of_region(seed: u64, clock_offset_ms_max: i64, rules: Vec<RuleSet>) -> Self {
        let rules = rules.into_iter().map(|rules| (rules.generation, rules)).collect();
        Self { of_regions: Some(rules), ..Self::new(seed, clock_offset_ms_max) }
    }

    /// Hands the rules of a generation to all agents of a region. Agents that start later read them, too.
    pub(crate) fn publish(&mut self, sim: &mut Simulation<'static>, generation: Generation) {
        self.published = self.published.max(generation);
        for agent in 0..sim.agents().len() {
            let _ = sim.set_rules(agent, self.rules(self.published));
        }
    }

    fn rules(&self, generation: Generation) -> RuleSet {
        let of_region = self.of_regions.as_ref().and_then(|rules| rules.get(&generation));
        of_region.map_or_else(|| rules::generation(generation), Clone::clone)
    }

    /// Returns the rules that an agent reads when it starts. Newer ones reach it later, in a world of regions at once.
    fn rules_at_start(&self) -> RulesAtStart {
        let newer = self.of_regions.is_some().then(|| self.rules(self.published));
        RulesAtStart { first: self.rules(rules::FIRST), newer }
    }

    /// Returns the instant of the next repair.
    pub(crate) fn next_at(&self) -> Option<Timestamp> {
        self.due.iter().map(|(at, _)| *at).min()
    }

    /// Does what is due.
    pub(crate) fn repair(&mut self, sim: &mut Simulation<'static>) {
        let now = sim.now();
        self.due.sort_by_key(|(at, _)| *at);
        let rules = self.rules_at_start();
        for (_, act) in self.due.extract_if(.., |(at, _)| *at <= now) {
            act.apply(sim, self.clocks, &rules);
        }
    }

    pub(crate) fn strike(&mut self, sim: &mut Simulation<'static>, incident: &Incident) {
        let now = sim.now();
        let until = now.plus_ms(incident.lasts_ms);
        match &incident.what {
            What::StoreIs(state) => {
                sim.set_store(*state);
                self.later(until, Act::MendStore);
            }
            What::StoreFlushed { restarts } => {
                sim.lose(StoreLoss::All);
                if *restarts {
                    sim.set_store(StoreState::Unreachable);
                    self.later(until, Act::MendStore);
                }
            }
            What::StoreFailsOver => {
                sim.replicate();
                self.later(until, Act::ReplicaTakesOver);
            }
            What::StoreClockSteps { by_ms, from_second_ms, is_glitch } => {
                let shown = sim.store().time(now).as_ms().cast_signed();
                let by_ms = from_second_ms.map_or(*by_ms, |from| (shown + by_ms) / 1_000 * 1_000 + from - shown);
                sim.step_store_clock(by_ms);
                if *is_glitch {
                    self.due.push((until, Act::StepStoreClock(-by_ms)));
                }
            }
            What::BusFails => {
                sim.set_bus_up(false);
                self.later(until, Act::MendBus);
            }
            What::Blackout => {
                sim.set_store(StoreState::Unreachable);
                sim.set_bus_up(false);
                self.later(until, Act::MendStore);
                self.later(until, Act::MendBus);
            }
            What::AgentEnds { agent, crashes } => {
                if *crashes {
                    sim.crash_agent(*agent);
                } else {
                    sim.leave_agent(*agent);
                }
                self.later(until, Act::StartAgent(*agent));
            }
            What::AgentCrashLoops { agent, times } => {
                let life_ms = incident.lasts_ms / times;
                for crash in 0..*times {
                    let at = now.plus_ms(crash * life_ms);
                    self.due.push((at, Act::CrashAgent(*agent)));
                    self.due.push((at.plus_ms(life_ms / 4 + 1), Act::StartAgent(*agent)));
                }
            }
            What::AgentPauses(agent) => sim.pause_agent(*agent, until),
            What::AgentsCut(agents, cut) => {
                for agent in agents {
                    sim.set_cut(*agent, *cut);
                    self.later(until, Act::MendCut(*agent));
                }
            }
            What::AggregatorEnds { aggregator, crashes } => {
                if *crashes {
                    sim.crash_aggregator(*aggregator);
                } else {
                    sim.leave_aggregator(*aggregator);
                }
                self.later(until, Act::StartAggregator(*aggregator));
            }
            What::AggregatorPauses(aggregator) => sim.pause_aggregator(*aggregator, until),
            What::AggregatorDoubled(aggregator) => {
                sim.set_unheard(*aggregator, true);
                self.later(until, Act::MendPresence(*aggregator));
            }
            What::RulesChange { agent, are_newer } => self.change_rules(sim, *agent, *are_newer),
            What::TopicRecreated => sim.recreate_calls(),
        }
    }

    /// Repairs everything.
    pub(crate) fn end(&mut self, sim: &mut Simulation<'static>) {
        let is_repair = |act: &Act| !matches!(act, Act::CrashAgent(_) | Act::ReplicaTakesOver);
        let rules = self.rules_at_start();
        for (_, act) in self.due.drain(..).filter(|(_, act)| is_repair(act)) {
            act.apply(sim, self.clocks, &rules);
        }
    }

    fn later(&mut self, at: Timestamp, act: Act) {
        self.due.retain(|(_, other)| *other != act);
        self.due.push((at, act));
    }

    /// Hands newer rules to one agent; older and broken ones are refused.
    fn change_rules(&mut self, sim: &mut Simulation<'static>, agent: usize, are_newer: bool) {
        let Some(in_force) = sim.agents()[agent].engine().map(|engine| engine.with_rules(|rules| rules.generation))
        else {
            return;
        };
        assert!(tollgate_rules::from_yaml("rules.yaml", &rules::broken(), 9).is_err());
        assert_eq!(sim.set_rules(agent, rules::older()), Err(in_force));
        self.published = rules::NEWEST.min(self.published + u64::from(are_newer));
        let answer = sim.set_rules(agent, rules::generation(self.published));
        assert_eq!(answer, if self.published < in_force { Err(in_force) } else { Ok(()) });
    }
}

impl StartClocks {
    /// Returns the offset of an agent that starts at an instant. It follows from both, so a part of a plan has the same ones.
    fn offset_ms(self, agent: usize, now: Timestamp) -> i64 {
        let mut rng = Rng::with_seed(self.seed ^ now.as_ms().rotate_left(20) ^ agent as u64);
        rng.i64(-self.offset_ms_max..=self.offset_ms_max)
    }
}

impl Act {
    fn apply(self, sim: &mut Simulation<'static>, clocks: StartClocks, rules: &RulesAtStart) {
        match self {
            Self::MendStore => sim.set_store(StoreState::Up),
            Self::ReplicaTakesOver => sim.lose(StoreLoss::SinceReplicated),
            Self::StepStoreClock(by_ms) => sim.step_store_clock(by_ms),
            Self::MendBus => sim.set_bus_up(true),
            Self::StartAgent(agent) => {
                let offset_ms = clocks.offset_ms(agent, sim.now());
                sim.start_agent_with_clock(agent, &rules.first, offset_ms);
                if let Some(newer) = &rules.newer {
                    let _ = sim.set_rules(agent, newer.clone());
                }
            }
            Self::CrashAgent(agent) => sim.crash_agent(agent),
            Self::MendCut(agent) => sim.set_cut(agent, Cut::default()),
            Self::MendPresence(aggregator) => sim.set_unheard(aggregator, false),
            Self::StartAggregator(aggregator) => sim.start_aggregator(aggregator),
        }
    }
}
