//! One run of the random world: a fleet, its traffic, its faults and its incidents, all drawn from one seed.

mod rules;
mod clients;
mod access_log;
mod traffic;
mod incident;
mod incidents;
mod plan;
mod rest;
mod shrink;
pub(crate) mod regions;

use std::hash::{DefaultHasher, Hash, Hasher};

use tollgate::Call;
use tollgate_bus::Topic;
use tollgate_core::clock::Timestamp;
use tollgate_sim::{Faults, PlantedBug, Simulation, StoreState};

use crate::invariants::{Invariants, START, Totals};
use clients::Clients;
use incidents::Incidents;
pub(crate) use plan::Plan;
pub(crate) use rest::Rest;
pub(crate) use shrink::shrink;

/// Quiet time at the end, after which everything must be settled, in ms. A store that relapsed is probed twice a second.
const QUIET_MS: u64 = 6_000;

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) totals: Totals,
    pub(crate) calls: usize,
    pub(crate) retried: usize,
    /// Virtual time of the run, in ms. Of several regions, the first one has it.
    pub(crate) simulated_ms: u64,
    /// Digest of all answers and all logs.
    pub(crate) trace: u64,
}

/// A run that goes on.
struct World {
    sim: Simulation<'static>,
    checks: Invariants,
    clients: Clients,
    incidents: Incidents,
    trace: DefaultHasher,
    calls: usize,
}

pub(crate) fn run(plan: &Plan, bug: Option<PlantedBug>) -> Result<Run, String> {
    let mut world = World {
        sim: Simulation::new(plan.settings.clone(), &rules::generation(rules::FIRST)),
        checks: Invariants::new(rules::all(), rules::FIRST, plan.settings.counters_max),
        clients: Clients::new(plan.seed, plan.retrying),
        incidents: Incidents::new(plan.seed, plan.clock_offset_ms_max),
        trace: DefaultHasher::new(),
        calls: 0,
    };
    if let Some(bug) = bug {
        world.sim.plant(bug);
    }
    let mut incidents = plan.incidents.iter().peekable();
    for request in &plan.requests {
        while let Some(incident) = incidents.next_if(|incident| incident.at_ms <= request.at_ms) {
            world.go_on(START.plus_ms(incident.at_ms))?;
            world.incidents.strike(&mut world.sim, incident);
        }
        world.go_on(START.plus_ms(request.at_ms))?;
        world.request(request.agent, request.calls.clone())?;
    }
    for incident in incidents {
        world.go_on(START.plus_ms(incident.at_ms))?;
        world.incidents.strike(&mut world.sim, incident);
    }
    world.go_on(START.plus_ms(plan.run_ms))?;
    world.end()
}

impl World {
    /// Moves time to an instant. Incidents are repaired and calls are tried again when they are due.
    fn go_on(&mut self, until: Timestamp) -> Result<(), String> {
        while let Some(at) = self.incidents.next_at().into_iter().chain(self.clients.next_at()).min()
            && at <= until
        {
            self.step(at)?;
            self.incidents.repair(&mut self.sim);
            while let Some((agent, call)) = self.clients.next_due(self.sim.now()) {
                self.request(agent, vec![call])?;
            }
        }
        self.step(until)
    }

    /// Does everything that happens until an instant, and checks after each step.
    fn step(&mut self, until: Timestamp) -> Result<(), String> {
        self.check()?;
        while self.sim.step_until(until) {
            self.check()?;
        }
        Ok(())
    }

    /// Lets the calls of a request arrive at an agent, unless it is down.
    fn request(&mut self, agent: usize, calls: Vec<Call<'static>>) -> Result<(), String> {
        if !self.sim.agents()[agent].is_scheduled(self.sim.now()) {
            return Ok(());
        }
        self.calls += calls.len();
        self.checks.arrive(agent, calls.len());
        self.sim.check(agent, calls);
        self.check()
    }

    /// Checks everything, and tells the clients their answers.
    fn check(&mut self) -> Result<(), String> {
        for call in self.checks.check(&mut self.sim)? {
            (call.answered, call.decision.allowed, call.decision.source, call.decision.at).hash(&mut self.trace);
            self.clients.answered(&mut self.sim, call);
        }
        Ok(())
    }

    /// Repairs everything, and checks what must hold after a quiet time.
    fn end(mut self) -> Result<Run, String> {
        self.incidents.end(&mut self.sim);
        self.sim.set_store(StoreState::Up);
        self.sim.set_faults(Faults { store_ms_max: 1, bus_ms_max: 5, ..Faults::default() });
        self.step(self.sim.now().plus_ms(QUIET_MS))?;
        let totals = self.checks.finish(&self.sim)?;
        self.digest();
        let (retried, simulated_ms) = (self.clients.retried, self.sim.now().ms_since(START));
        Ok(Run { totals, calls: self.calls, retried, simulated_ms, trace: self.trace.finish() })
    }

    fn digest(&mut self) {
        for topic in [Topic::Calls, Topic::Signals, Topic::Presence] {
            for partition in 0..self.sim.bus().partitions {
                for record in self.sim.bus().records(topic, partition) {
                    (record.appended, &record.payload).hash(&mut self.trace);
                }
            }
        }
    }
}
