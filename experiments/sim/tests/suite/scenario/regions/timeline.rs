//! Things that are planned for a run of regions, in the order of their instants.

use tollgate_core::rules::Generation;

use super::plan::{CALM_MS, RUN_MS, RegionsPlan};

/// Interval at which promises are checked, in ms.
const WATCHED_EVERY_MS: usize = 50;

/// A thing that is planned for an instant.
#[derive(Clone, Copy, Debug)]
pub(super) enum Planned {
    Propose(Generation),
    /// The agents of a region get the rules of a generation.
    Publish(usize, Generation),
    Cut(usize, bool),
    Incident(usize, usize),
    Request(usize, usize),
    /// Faults end.
    Calm,
    Watch,
}

/// Returns all that is planned, in the order of the instants.
pub(super) fn timeline(plan: &RegionsPlan) -> Vec<(u64, Planned)> {
    let mut timeline = vec![(CALM_MS, Planned::Calm)];
    timeline.extend((0..RUN_MS).step_by(WATCHED_EVERY_MS).map(|at_ms| (at_ms, Planned::Watch)));
    for (at_ms, generation) in &plan.changes {
        timeline.push((*at_ms, Planned::Propose(*generation)));
        for (index, region) in plan.regions.iter().enumerate() {
            timeline.push((at_ms + region.rules_lag_ms, Planned::Publish(index, *generation)));
        }
    }
    for (index, region) in plan.regions.iter().enumerate() {
        for (from_ms, until_ms) in &region.cuts {
            timeline.extend([(*from_ms, Planned::Cut(index, true)), (*until_ms, Planned::Cut(index, false))]);
        }
        let incidents = region.incidents.iter().enumerate();
        timeline.extend(incidents.map(|(place, incident)| (incident.at_ms, Planned::Incident(index, place))));
        let requests = region.requests.iter().enumerate();
        timeline.extend(requests.map(|(place, request)| (request.at_ms, Planned::Request(index, place))));
    }
    timeline.sort_by_key(|(at_ms, _)| *at_ms);
    timeline
}
