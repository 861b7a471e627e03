//! One world: agents, a store, a bus and aggregators in virtual time, driven by one queue of events.
//!
//! A test lets calls [arrive](Simulation::check), moves time [forward](Simulation::step_until), and reads
//! [observations](Simulation::observations).

use tollgate::{Call, RuleSet};
use tollgate_core::clock::Timestamp;
use tollgate_core::counter::{CounterId, PrimaryIndex};
use tollgate_core::rules::Generation;

use crate::agent::{Correction, SimAgent};
use crate::aggregator::SimAggregator;
use crate::bus::SimBus;
use crate::environment::Environment;
use crate::event::SimEvent;
use crate::faults::{Cut, Faults, MemberFaults};
use crate::observation::Observation;
use crate::planted_bugs::PlantedBug;
use crate::primaries::SimPrimaries;
use crate::scheduler::Scheduler;
use crate::settings::SimSettings;
use crate::store::SimStore;

/// Agents, a store, a bus and aggregators in virtual time.
pub struct Simulation<'c> {
    settings: SimSettings,
    pub(super) env: Environment<'c>,
    agents: Vec<SimAgent<'c>>,
    aggregators: Vec<SimAggregator>,
}

impl<'c> Simulation<'c> {
    /// Returns a simulation in which all nodes have started, but for the agents that are down, and the agents enforce these rules.
    #[must_use]
    pub fn new(settings: SimSettings, rules: &RuleSet) -> Self {
        let scheduler = Scheduler::new(settings.start);
        Self::with_scheduler(settings, rules, scheduler)
    }

    /// Returns a region of a world, whose events are in the queue of the world.
    pub(super) fn with_scheduler(settings: SimSettings, rules: &RuleSet, scheduler: Scheduler) -> Self {
        let mut simulation = Self {
            env: Environment::new(&settings, scheduler),
            agents: (settings.agents.iter().enumerate())
                .map(|(index, agent)| SimAgent::new(index, *agent, settings.start))
                .collect(),
            aggregators: (0..settings.aggregators).map(SimAggregator::new).collect(),
            settings,
        };
        let running = simulation.agents.len().saturating_sub(simulation.settings.agents_down);
        (0..running).for_each(|agent| simulation.start_agent(agent, rules));
        (0..simulation.aggregators.len()).for_each(|aggregator| simulation.start_aggregator(aggregator));
        simulation
    }

    /// Returns true time.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.env.now()
    }

    /// Returns the agents.
    #[must_use]
    pub fn agents(&self) -> &[SimAgent<'c>] {
        &self.agents
    }

    /// Returns the aggregators.
    #[must_use]
    pub fn aggregators(&self) -> &[SimAggregator] {
        &self.aggregators
    }

    /// Returns the store that the agents share; of several primaries, the first.
    #[must_use]
    pub fn store(&self) -> &SimStore {
        self.env.primaries.store(PrimaryIndex::ONLY)
    }

    /// Returns the primary that holds a counter.
    #[must_use]
    pub fn store_of(&self, counter: CounterId) -> &SimStore {
        self.env.primaries.store(self.env.primaries.owner(counter))
    }

    /// Returns the primaries of the store.
    #[must_use]
    pub fn primaries(&self) -> &SimPrimaries {
        &self.env.primaries
    }

    /// Returns the bus.
    #[must_use]
    pub fn bus(&self) -> &SimBus {
        &self.env.bus
    }

    /// Takes the observations since the last call, in their order.
    pub fn observations(&mut self) -> std::vec::Drain<'_, Observation<'c>> {
        self.env.observations.drain(..)
    }

    /// Calls arrive at an agent in one request; all or none of them are to be charged.
    pub fn check(&mut self, agent: usize, calls: Vec<Call<'c>>) {
        if let Some(agent) = &mut self.agents[agent].running {
            agent.check(&mut self.env, calls);
        }
    }

    /// A call is settled or released at an agent.
    #[expect(clippy::needless_pass_by_value, reason = "a correction is made once by each caller")]
    pub fn correct(&mut self, agent: usize, call: Call<'c>, correction: Correction) {
        if let Some(agent) = &mut self.agents[agent].running {
            agent.correct(&mut self.env, call, &correction);
        }
    }

    /// Does everything that happens until an instant.
    pub fn run_until(&mut self, until: Timestamp) {
        while self.step_until(until) {}
    }

    /// Does the next thing that happens until an instant; false if nothing is left to do, and it is `until`.
    pub fn step_until(&mut self, until: Timestamp) -> bool {
        let Some((_, event)) = self.env.scheduler.next_until(until) else { return false };
        self.apply(event);
        true
    }

    /// Makes the bus available or unavailable.
    pub fn set_bus_up(&mut self, is_up: bool) {
        self.env.bus_is_up = is_up;
    }

    /// Cuts ways between an agent and the servers, or mends them.
    pub fn set_cut(&mut self, agent: usize, cut: Cut) {
        self.env.cuts.insert(agent, cut);
        self.env.observe(Observation::AgentCut(agent, cut));
    }

    /// Empties the store's set of live agents, as a restart without data does.
    pub fn empty_presence_set(&mut self) {
        self.env.store().empty_presence_set();
    }

    /// Changes delays and rates of faults.
    pub fn set_faults(&mut self, faults: Faults) {
        self.env.faults = faults;
    }

    /// Deletes the topic `calls` and creates it anew.
    pub fn recreate_calls(&mut self) {
        self.env.bus.recreate_calls();
        self.env.observe(Observation::CallsRecreated);
    }

    /// Hands rules to an agent.
    ///
    /// # Errors
    /// If the agent refuses them; returns the generation in force.
    pub fn set_rules(&mut self, agent: usize, rules: RuleSet) -> Result<(), Generation> {
        let (now, generation) = (self.now(), rules.generation);
        self.agents[agent].engine().map_or(Ok(()), |engine| engine.set_rules(now, rules))?;
        self.env.observe(Observation::RulesAccepted(agent, generation));
        Ok(())
    }

    /// Starts an agent that is down.
    pub fn start_agent(&mut self, agent: usize, rules: &RuleSet) {
        self.agents[agent].start(&self.settings, &mut self.env, rules.clone());
    }

    /// Starts an agent that is down, with another offset of its clock: a process reads wall time once, when it starts.
    pub fn start_agent_with_clock(&mut self, agent: usize, rules: &RuleSet, offset_ms: i64) {
        self.agents[agent].set_clock_offset(offset_ms);
        self.start_agent(agent, rules);
    }

    /// Ends an agent at once. Calls that it has not answered are lost with it.
    pub fn crash_agent(&mut self, agent: usize) {
        self.agents[agent].crash(&mut self.env);
    }

    /// Lets an agent publish what is left, leave, and end.
    pub fn leave_agent(&mut self, agent: usize) {
        self.agents[agent].leave(&mut self.env);
    }

    /// Starts an aggregator that is down.
    pub fn start_aggregator(&mut self, aggregator: usize) {
        self.aggregators[aggregator].start(&self.settings, &mut self.env);
    }

    /// Ends an aggregator at once; its counts are lost.
    pub fn crash_aggregator(&mut self, aggregator: usize) {
        self.aggregators[aggregator].crash(&mut self.env);
    }

    /// Lets an aggregator publish what is due, leave, and end.
    pub fn leave_aggregator(&mut self, aggregator: usize) {
        self.aggregators[aggregator].leave(&mut self.env);
    }

    /// Keeps an agent from running until an instant. Its timers fire then, before it has read the answers that arrived.
    pub fn pause_agent(&mut self, agent: usize, until: Timestamp) {
        if let Some(running) = &mut self.agents[agent].running {
            running.pause(&mut self.env, until);
        }
    }

    /// Suspends an aggregator until an instant.
    pub fn pause_aggregator(&mut self, aggregator: usize, until: Timestamp) {
        self.aggregators[aggregator].pause(&self.env, until);
    }

    /// Cuts an aggregator from `presence`, or mends the cut: another one counts its partitions beside it.
    pub fn set_unheard(&mut self, aggregator: usize, is_unheard: bool) {
        if is_unheard {
            self.env.unheard.insert(aggregator);
        } else {
            self.env.unheard.remove(&aggregator);
        }
    }

    /// Plants a bug.
    pub fn plant(&mut self, bug: PlantedBug) {
        self.env.bug = Some(bug);
    }

    /// Changes the faults of its aggregators as members of the ledger.
    pub fn set_member_faults(&mut self, faults: MemberFaults) {
        self.env.member_faults = faults;
    }

    /// Drops the contents of records of the bus that are older than so many ms, in a long run whose readers have read them.
    pub fn forget_records(&mut self, older_than_ms: u64) {
        let now = self.now();
        self.env.bus.forget_before(now.minus_ms(older_than_ms));
    }

    /// Returns the observations that were not taken yet.
    #[must_use]
    pub fn new_observations(&self) -> &[Observation<'c>] {
        &self.env.observations
    }

    /// Returns the number of records of the mirror that an aggregator has read.
    pub(super) fn mirror_read(&self) -> usize {
        self.aggregators.iter().map(SimAggregator::mirror_read).max().unwrap_or(0)
    }

    /// Lets the running aggregators read the mirror of the ledger.
    pub(super) fn read_mirror(&mut self) {
        let env = &mut self.env;
        self.aggregators.iter().for_each(|aggregator| aggregator.read_mirror(env));
    }

    /// Does what an event of this region means. Entries on their way to the ledger are left in the environment.
    pub(super) fn apply(&mut self, event: SimEvent) {
        let env = &mut self.env;
        match event {
            SimEvent::StoreReads(message) => env.store_reads(message),
            SimEvent::Append(record) => env.append(record),
            SimEvent::AppendCopy(name, payload) => env.append_copy(name, &payload),
            SimEvent::Agent(agent, life, event) => self.agents[agent].apply(env, life, event),
            SimEvent::Aggregator(aggregator, life, event) => self.aggregators[aggregator].apply(env, life, event),
            SimEvent::StoreReadsLimit(message) => env.store_reads_limit(message),
            // The world moves the records of its ledger.
            SimEvent::LedgerAppend(_) | SimEvent::LedgerMirrored(_) => {}
        }
    }
}
