//! One fleet of the experiment: agents join and leave under load, while the store answers or is lost for a while.

use tollgate::RuleSet;
use tollgate_engine::Engine;
use tollgate_sim::{Faults, SimSettings, StoreState};

use super::course::{Course, ScaleOutRun};
use super::settings::ScaleOutSettings;
use super::timeline::ScaleOutCall;
use crate::scenario::arrivals::BEGIN;
use crate::scenario::fleet::Fleet;

pub(super) fn fleet_course(settings: &ScaleOutSettings, run: ScaleOutRun, seed: u64, calls: &[ScaleOutCall]) -> Course {
    let [least, most] = settings.agents;
    let faults = Faults { store_ms_max: 1, bus_ms_max: 5, ack_ms_max: 5, ..Faults::default() };
    let sim_settings = SimSettings { seed, agents_down: most - least, faults, ..SimSettings::fleet(BEGIN, most) };
    let rules = RuleSet::new(1, [run.rule(settings)]);
    let mut fleet = Fleet::new(sim_settings, &rules, settings.per_minute());
    let (mut course, mut running, mut calls) = (Course::default(), least, calls.iter().peekable());
    for second in 0..settings.seconds() {
        let wanted = settings.agents_at(second);
        (running..wanted).for_each(|agent| fleet.sim.start_agent(agent, &rules));
        (wanted..running).for_each(|agent| fleet.sim.leave_agent(agent));
        running = wanted;
        if run.loses_store {
            let is_lost = settings.is_store_lost_at(second);
            fleet.sim.set_store(if is_lost { StoreState::Unreachable } else { StoreState::Up });
        }
        let end = BEGIN.plus_ms((second + 1) * 1_000);
        while let Some(call) = calls.next_if(|call| call.at < end) {
            fleet.call(call.at, call.agent(running), &format!("caller-{}", call.caller));
        }
        fleet.run_until(end);
        course.fullest.push(fleet.fullest());
        if second + 1 == settings.peak_end_s() {
            course.known_at_peak = known(&fleet).min().unwrap_or_default();
            course.joining = fleet.take();
        }
    }
    course.known_at_end = known(&fleet).max().unwrap_or_default();
    course.leaving = fleet.take();
    course
}

/// Returns the size of the fleet, as each of its agents knows it.
fn known(fleet: &Fleet) -> impl Iterator<Item = u32> {
    let engines = fleet.sim.agents().iter().filter_map(|agent| agent.engine());
    engines.map(Engine::fleet_size).map(std::num::NonZeroU32::get)
}
