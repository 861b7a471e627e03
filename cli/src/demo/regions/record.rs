//! Figures of the demo: what each region admitted, and what an exact limiter makes of the calls.

use tollgate_core::clock::Timestamp;
use tollgate_sim::oracle::Oracle;

use super::story::{REGIONS, quota};
use crate::demo::record::{DemoCall, DemoRecord};

/// Figures of one region since the last display.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RegionFigures {
    /// Limit in force at its last call; 0 before the first.
    pub(super) limit: u64,
    pub(super) admitted: u64,
    pub(super) denied: u64,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct RegionSummary {
    pub(super) calls: u64,
    pub(super) admitted: u64,
    /// Calls that one exact limiter admits.
    pub(super) exact: u64,
    /// Largest number of admissions of all regions in a window.
    pub(super) fullest: u64,
}

/// Updates the figures by the calls since the last time. Returns true if each region has decided one.
pub(super) fn update(figures: &mut [RegionFigures; REGIONS.len()], record: &mut DemoRecord) -> bool {
    *figures = figures.map(|of| RegionFigures { limit: of.limit, ..RegionFigures::default() });
    for call in record.take_new() {
        let of = &mut figures[call.origin as usize];
        of.limit = call.decision.status.as_ref().map_or(0, |status| status.limit);
        *(if call.decision.allowed { &mut of.admitted } else { &mut of.denied }) += 1;
    }
    figures.iter().all(|of| of.limit > 0)
}

/// Evaluates the whole run against exact counts, in the time of the answers.
pub(super) fn summary(record: &DemoRecord) -> RegionSummary {
    let fullest = record.judge(quota(), instant, |_| ()).fullest;
    let mut instants: Vec<Timestamp> = record.calls.iter().map(instant).collect();
    instants.sort_unstable();
    let mut exact = Oracle::new(quota());
    let mut is_admitted = |at| {
        let has_room = exact.has_room(at, 1);
        if has_room {
            exact.admit(at, 1);
        }
        has_room
    };
    RegionSummary {
        calls: record.calls.len() as u64,
        admitted: record.calls.iter().filter(|call| call.decision.allowed).count() as u64,
        exact: instants.into_iter().filter(|at| is_admitted(*at)).count() as u64,
        fullest,
    }
}

fn instant(call: &DemoCall) -> Timestamp {
    Timestamp::from_ms(u64::try_from(call.answered.as_millis()).unwrap_or(u64::MAX))
}
