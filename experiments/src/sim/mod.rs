//! The simulation: agents, a store, a bus and aggregators in virtual time, driven by one queue of events.
//!
//! The state machines are those of production, and nothing of their behaviour is written again here: `agent` and
//! `aggregator` are shells that execute effects, `environment` is everything around them, and every record is encoded and
//! decoded. Simulated are time, delays and faults. One seed decides everything, so a run can be repeated. A test lets calls
//! [arrive](Simulation::check), moves time [forward](Simulation::step_until), and reads [observations](Simulation::observations).

mod observation;
mod event;
mod scheduler;
mod faults;
mod settings;
mod network;
mod bus;
mod store;
mod planted_bugs;
mod environment;
mod agent;
mod aggregator;
mod workload;

use tollgate::{Call, RuleSet};
use tollgate_bus::Topic;
use tollgate_core::clock::Timestamp;
use tollgate_core::rules::Generation;

pub use agent::{Correction, SimAgent};
pub use aggregator::SimAggregator;
pub use bus::{LogRecord, SimBus};
pub use faults::{Faults, StoreState};
pub use observation::{AnsweredCall, CorrectedCall, Observation, SimNode, Ticket};
pub use planted_bugs::PlantedBug;
pub use settings::{SimAgentSettings, SimSettings};
pub use store::SimStore;
pub use workload::Workload;

use environment::Environment;
use event::SimEvent;
use network::Network;
use scheduler::Scheduler;

/// Agents, a store, a bus and aggregators in virtual time.
pub struct Simulation<'c> {
    settings: SimSettings,
    env: Environment<'c>,
    agents: Vec<SimAgent<'c>>,
    aggregators: Vec<SimAggregator>,
}

impl<'c> Simulation<'c> {
    /// Returns a simulation in which all nodes have started and the agents enforce these rules.
    #[must_use]
    pub fn new(settings: SimSettings, rules: &RuleSet) -> Self {
        let scheduler = Scheduler::new(settings.start);
        let network = Network::new(settings.seed, settings.faults);
        let bus = SimBus::new(settings.partitions);
        let env = Environment::new(scheduler, network, bus, SimStore::new(settings.counters_max));
        let mut simulation = Self {
            env,
            agents: (0..settings.agents.len()).map(SimAgent::new).collect(),
            aggregators: (0..settings.aggregators).map(SimAggregator::new).collect(),
            settings,
        };
        (0..simulation.agents.len()).for_each(|agent| simulation.start_agent(agent, rules));
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

    /// Returns the store that the agents share.
    #[must_use]
    pub fn store(&self) -> &SimStore {
        &self.env.store
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

    /// A call arrives at an agent.
    pub fn check(&mut self, agent: usize, call: Call<'c>) {
        self.agents[agent].check(&mut self.env, vec![call]);
    }

    /// Several calls arrive at an agent in one request, all or none of which are to be charged.
    pub fn check_all(&mut self, agent: usize, calls: Vec<Call<'c>>) {
        self.agents[agent].check(&mut self.env, calls);
    }

    /// A call is settled or released at an agent.
    pub fn correct(&mut self, agent: usize, call: Call<'c>, correction: Correction) {
        self.agents[agent].correct(&mut self.env, call, correction);
    }

    /// Does everything that happens until an instant.
    pub fn run_until(&mut self, until: Timestamp) {
        while self.step_until(until) {}
    }

    /// Does the next thing that happens until an instant; false if nothing is left to do, and it is `until`.
    pub fn step_until(&mut self, until: Timestamp) -> bool {
        let Some(event) = self.env.scheduler.next_until(until) else { return false };
        self.apply(event);
        true
    }

    /// Moves the store to another state.
    pub fn set_store(&mut self, state: StoreState) {
        self.env.set_store(state);
    }

    /// Lets the store's clock step.
    pub fn step_store_clock(&mut self, by_ms: i64) {
        self.env.store.step_clock(by_ms);
        self.env.observe(Observation::StoreClockStepped(by_ms));
    }

    /// Makes the bus available or unavailable.
    pub fn set_bus_up(&mut self, is_up: bool) {
        self.env.network.bus_is_up = is_up;
    }

    /// Changes delays and rates of faults.
    pub fn set_faults(&mut self, faults: Faults) {
        self.env.network.faults = faults;
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
        let generation = rules.generation;
        self.agents[agent].set_rules(rules)?;
        self.env.observe(Observation::RulesAccepted { agent, generation });
        Ok(())
    }

    /// Starts an agent that is down.
    pub fn start_agent(&mut self, agent: usize, rules: &RuleSet) {
        self.agents[agent].start(&self.settings, &mut self.env, rules.clone());
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

    /// Suspends an aggregator until an instant.
    pub fn pause_aggregator(&mut self, aggregator: usize, until: Timestamp) {
        self.aggregators[aggregator].pause(until);
    }

    /// Plants a bug.
    pub fn plant(&mut self, bug: PlantedBug) {
        self.env.bug = Some(bug);
    }

    fn apply(&mut self, event: SimEvent) {
        let env = &mut self.env;
        match event {
            SimEvent::StoreReads(message) => env.store_reads(message),
            SimEvent::Append(record) => env.append(record),
            SimEvent::AgentReads { agent, life } => {
                if let Some(agent) = living(&mut self.agents, agent, |agent| agent.life == life) {
                    agent.read(env);
                }
            }
            SimEvent::AgentWakes { agent, life, shell } => {
                if let Some(agent) = living(&mut self.agents, agent, |agent| agent.life == life) {
                    agent.wake(env, shell);
                }
            }
            SimEvent::StoreReplies { agent, life, ticket, answer } => {
                if let Some(agent) = living(&mut self.agents, agent, |agent| agent.life == life) {
                    agent.store_replies(env, ticket, answer);
                }
            }
            SimEvent::Deadline { agent, life, ticket } => {
                if let Some(agent) = living(&mut self.agents, agent, |agent| agent.life == life) {
                    agent.deadline(env, ticket);
                }
            }
            SimEvent::AggregatorRound { aggregator, life } => {
                if let Some(aggregator) = living(&mut self.aggregators, aggregator, |one| one.life == life) {
                    aggregator.round(env);
                }
            }
            SimEvent::LogEnd { aggregator, life, partition } => {
                if let Some(aggregator) = living(&mut self.aggregators, aggregator, |one| one.life == life) {
                    aggregator.log_end(env, partition);
                }
            }
            SimEvent::Acknowledge { writer, topic, partition, tag, offset } => {
                self.acknowledge(writer, topic, partition, tag, offset);
            }
        }
    }

    fn acknowledge(&mut self, writer: event::Writer, topic: Topic, partition: u32, tag: u64, offset: Option<u64>) {
        let env = &mut self.env;
        match writer.node {
            SimNode::Agent(agent) => {
                let Some(agent) = living(&mut self.agents, agent, |agent| agent.life == writer.life) else { return };
                env.dequeue(writer.node);
                if topic == Topic::Calls {
                    env.observe(Observation::Acknowledged { node: writer.node, topic, partition, tag, offset });
                    agent.acknowledged(env, partition, tag, offset);
                }
            }
            SimNode::Aggregator(aggregator) => {
                let aggregator = living(&mut self.aggregators, aggregator, |one| one.life == writer.life);
                let Some(aggregator) = aggregator else { return };
                env.dequeue(writer.node);
                if topic == Topic::Signals {
                    env.observe(Observation::Acknowledged { node: writer.node, topic, partition, tag, offset });
                    aggregator.reported(env, tag, offset.is_none());
                }
            }
        }
    }
}

/// Returns the node of an index if it still lives the life that an event was meant for.
fn living<T>(nodes: &mut [T], index: usize, lives: impl FnOnce(&T) -> bool) -> Option<&mut T> {
    nodes.get_mut(index).filter(|node| lives(node))
}
