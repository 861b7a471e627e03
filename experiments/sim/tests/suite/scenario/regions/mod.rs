//! One run of several regions: each is a fleet with its traffic, faults and incidents, and they share a rule with a global scope.

mod callers;
mod kinds;
mod plan;
mod promises;
mod timeline;

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};

use fastrand::Rng;
use tollgate::{Call, RuleSet};
use tollgate_bus::Topic;
use tollgate_core::clock::Timestamp;
use tollgate_core::messages::ledger::LedgerEntry;
use tollgate_sim::{
    Faults, MemberFaults, MirrorFaults, Observation, PlantedBug, RegionMistake, SimRegions, StoreState, random_stream,
};

use super::clients::{Clients, Retrying};
use super::incident::{Incident, What};
use super::incidents::Incidents;
use super::{QUIET_MS, Run, rules};
use crate::invariants::{GrantsWithinQuota, Invariants, START};
use plan::{CLOCK_OFFSET_MS_MAX, NAMES, RUN_MS, RegionPlan};
use timeline::{Planned, timeline};

pub(crate) use plan::RegionsPlan;
pub(crate) use promises::Promise;

/// Number of calls in the home region after a link was mended, the time before them and between two of them, in ms.
const CROWD_LEN: u64 = 20;
const CROWD_AFTER_MS: u64 = 900;
const CROWD_GAP_MS: u64 = 50;

/// A run that goes on.
struct RegionsWorldRun {
    world: SimRegions<'static>,
    shared: GrantsWithinQuota,
    regions: Vec<RegionRun>,
    mends_before_expiries: bool,
    /// Instants at which a caller of the home region calls, beside those that are planned.
    crowd: VecDeque<Timestamp>,
}

/// The checks and clients of one region.
struct RegionRun {
    checks: Invariants,
    clients: Clients,
    incidents: Incidents,
    trace: DefaultHasher,
    calls: usize,
    /// Source of the times for which aggregators are down that crash while they give back, if they do.
    crashes: Option<Rng>,
}

/// Check of a promise, at intervals.
pub(crate) type Watch<'w> = &'w mut dyn FnMut(&SimRegions<'static>) -> Result<(), String>;

/// Runs a plan, and returns the run of each region.
pub(crate) fn run(
    plan: &RegionsPlan,
    bug: Option<PlantedBug>,
    mistake: Option<RegionMistake>,
) -> Result<Vec<Run>, String> {
    run_watched(plan, bug, mistake, &mut |_| Ok(()))
}

/// Runs a plan, and checks a promise at intervals.
pub(crate) fn run_watched(
    plan: &RegionsPlan,
    bug: Option<PlantedBug>,
    mistake: Option<RegionMistake>,
    watch: Watch<'_>,
) -> Result<Vec<Run>, String> {
    let names = plan.names();
    let of_all = |generation| rules::of_regions(&NAMES, generation, plan.global);
    let generations: Vec<_> = (rules::FIRST..=rules::NEWEST).map(of_all).collect();
    let proposed: Vec<_> = generations.iter().map(rules::terms_of).collect();
    let fleets = plan.regions.iter().map(|region| (region.settings.clone(), region.mirror)).collect();
    let mut world = SimRegions::new(plan.seed, fleets, &generations[0]);
    let region = |(index, region): (usize, &RegionPlan)| {
        let own = |rules: &RuleSet| rules.clone().in_region(names[index]);
        RegionRun {
            checks: Invariants::new(generations.iter().map(own).collect(), rules::FIRST, region.settings.counters_max),
            clients: Clients::new(region.settings.seed, Retrying::Never),
            incidents: Incidents::of_region(region.settings.seed, CLOCK_OFFSET_MS_MAX, generations.clone()),
            trace: DefaultHasher::new(),
            calls: 0,
            crashes: region.crashes_givers.then(|| random_stream(plan.seed, "crashes", index)),
        }
    };
    let regions: Vec<_> = plan.regions.iter().enumerate().map(region).collect();
    for (index, region) in plan.regions.iter().enumerate() {
        world.region_mut(index).set_member_faults(region.members);
        if let Some(bug) = bug {
            world.region_mut(index).plant(bug);
        }
    }
    if let Some(mistake) = mistake {
        world.plant_mistake(mistake);
    }
    let shared = GrantsWithinQuota::new(generations, rules::GLOBAL, proposed, &names);
    let mut run = RegionsWorldRun {
        world,
        shared,
        regions,
        mends_before_expiries: plan.mends_before_expiries,
        crowd: VecDeque::new(),
    };
    for (at_ms, planned) in timeline(plan) {
        run.go_on(START.plus_ms(at_ms))?;
        match planned {
            Planned::Watch => watch(&run.world)?,
            planned => run.follow(plan, planned)?,
        }
    }
    run.go_on(START.plus_ms(RUN_MS))?;
    run.end()
}

impl RegionsWorldRun {
    fn follow(&mut self, plan: &RegionsPlan, planned: Planned) -> Result<(), String> {
        match planned {
            Planned::Propose(generation) => {
                let rules = rules::of_regions(&NAMES, generation, plan.global);
                self.world.propose(&[rules::terms_of(&rules)]);
                Ok(())
            }
            Planned::Publish(index, generation) => {
                self.regions[index].incidents.publish(self.world.region_mut(index), generation);
                self.check(index)
            }
            Planned::Cut(index, is_cut) => {
                self.world.set_link_cut(index, is_cut);
                Ok(())
            }
            Planned::Incident(index, place) => {
                let incident = &plan.regions[index].incidents[place];
                self.regions[index].incidents.strike(self.world.region_mut(index), incident);
                self.check(index)
            }
            Planned::Request(index, place) => {
                let request = &plan.regions[index].requests[place];
                self.request(index, request.agent, request.calls.clone())
            }
            Planned::Watch => Ok(()),
            Planned::Calm => {
                for (index, region) in plan.regions.iter().enumerate() {
                    self.world
                        .set_link(index, MirrorFaults { delay_ms: region.mirror.delay_ms, ..MirrorFaults::default() });
                    self.world.region_mut(index).set_member_faults(MemberFaults::default());
                }
                Ok(())
            }
        }
    }

    /// Moves time to an instant. Incidents are repaired and calls are tried again when they are due.
    fn go_on(&mut self, until: Timestamp) -> Result<(), String> {
        while let Some(at) = self.next_at().filter(|at| *at <= until) {
            self.step(at)?;
            for index in 0..self.regions.len() {
                self.regions[index].incidents.repair(self.world.region_mut(index));
                while let Some((agent, call)) = self.regions[index].clients.next_due(self.world.now()) {
                    self.request(index, agent, vec![call])?;
                }
                self.check(index)?;
            }
            while self.crowd.front().is_some_and(|at| *at <= self.world.now()) {
                self.crowd.pop_front();
                self.request(0, 0, vec![callers::call(0)])?;
            }
        }
        self.step(until)
    }

    fn next_at(&self) -> Option<Timestamp> {
        let of_region =
            |region: &RegionRun| region.incidents.next_at().into_iter().chain(region.clients.next_at()).min();
        self.regions.iter().filter_map(of_region).chain(self.crowd.front().copied()).min()
    }

    /// Does everything that happens until an instant, and checks after each step.
    fn step(&mut self, until: Timestamp) -> Result<(), String> {
        while let Some(index) = self.world.step_until(until) {
            self.check(index)?;
        }
        Ok(())
    }

    fn request(&mut self, index: usize, agent: usize, calls: Vec<Call<'static>>) -> Result<(), String> {
        if !self.world.regions()[index].agents()[agent].is_scheduled(self.world.now()) {
            return Ok(());
        }
        let region = &mut self.regions[index];
        region.calls += calls.len();
        region.checks.arrive(agent, calls.len());
        self.world.region_mut(index).check(agent, calls);
        self.check(index)
    }

    /// Checks everything after something happened in a region, and tells its clients their answers.
    fn check(&mut self, index: usize) -> Result<(), String> {
        self.shared.read(&self.world)?;
        self.shared.observe(&self.world, index)?;
        self.follow_delays(index);
        let RegionRun { checks, clients, trace, .. } = &mut self.regions[index];
        let sim = self.world.region_mut(index);
        for call in checks.check(sim)? {
            (call.answered, call.decision.allowed, call.decision.source, call.decision.at).hash(trace);
            clients.answered(sim, call);
        }
        Ok(())
    }

    /// Lets a giver crash that is suspended before its give-back, and mends links when a coordinator is before an expiry.
    fn follow_delays(&mut self, index: usize) {
        let sim = self.world.region_mut(index);
        let delayed = sim.new_observations().iter().find_map(|observation| match observation {
            Observation::EntryDelayed(aggregator, entry) => {
                let is_followed = matches!(entry, LedgerEntry::GiveBack { .. } | LedgerEntry::Expiry { .. });
                is_followed.then(|| (*aggregator, entry.clone()))
            }
            _ => None,
        });
        let RegionRun { incidents, crashes, .. } = &mut self.regions[index];
        match (delayed, crashes) {
            (Some((aggregator, LedgerEntry::GiveBack { .. })), Some(rng)) => {
                let lasts_ms = if rng.bool() { rng.u64(20..200) } else { rng.u64(1_500..3_000) };
                let what = What::AggregatorEnds { aggregator, crashes: true };
                incidents.strike(sim, &Incident { at_ms: 0, lasts_ms, what });
            }
            (Some((_, LedgerEntry::Expiry { .. })), _) if self.mends_before_expiries => {
                let now = self.world.now();
                self.crowd.extend((0..CROWD_LEN).map(|number| now.plus_ms(CROWD_AFTER_MS + number * CROWD_GAP_MS)));
                (0..self.regions.len()).for_each(|index| self.world.set_link_cut(index, false));
            }
            _ => {}
        }
    }

    /// Repairs everything, and checks what must hold after a quiet time.
    fn end(mut self) -> Result<Vec<Run>, String> {
        for (index, region) in self.regions.iter_mut().enumerate() {
            let sim = self.world.region_mut(index);
            region.incidents.end(sim);
            sim.set_store(StoreState::Up);
            sim.set_faults(Faults { store_ms_max: 1, bus_ms_max: 5, ..Faults::default() });
        }
        (0..self.regions.len()).for_each(|index| self.world.set_link_cut(index, false));
        for index in 0..self.regions.len() {
            self.check(index)?;
        }
        self.step(self.world.now().plus_ms(QUIET_MS))?;
        let mut runs = Vec::new();
        for (region, sim) in self.regions.iter_mut().zip(self.world.regions()) {
            let mut totals = region.checks.finish(sim)?;
            for topic in [Topic::Calls, Topic::Signals, Topic::Presence] {
                for partition in 0..sim.bus().partitions {
                    for record in sim.bus().records(topic, partition) {
                        (record.appended, &record.payload).hash(&mut region.trace);
                    }
                }
            }
            let mut simulated_ms = 0;
            if runs.is_empty() {
                simulated_ms = self.world.now().ms_since(START);
                totals.granted = self.shared.compared;
                totals.entries = self.world.ledger().records().len();
            }
            runs.push(Run {
                totals,
                calls: region.calls,
                retried: region.clients.retried,
                simulated_ms,
                trace: region.trace.finish(),
            });
        }
        Ok(runs)
    }
}
