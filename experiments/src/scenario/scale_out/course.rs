//! Runs of the experiment, and their courses.

use tollgate_core::algorithm::Algorithm;
use tollgate_core::rules::{Consistency, Rule};
use tollgate_core::window::Estimate;

use super::settings::ScaleOutSettings;
use crate::scenario::fleet::{CALLER, FleetTally};

pub(super) const RUNS: [ScaleOutRun; 3] = [
    ScaleOutRun { name: "strict", consistency: Consistency::Strict, loses_store: false },
    ScaleOutRun { name: "strict, lost", consistency: Consistency::Strict, loses_store: true },
    ScaleOutRun { name: "bounded, lost", consistency: Consistency::Bounded, loses_store: true },
];

/// A rule, and the state of the store.
#[derive(Clone, Copy, Debug)]
pub(super) struct ScaleOutRun {
    pub(super) name: &'static str,
    pub(super) consistency: Consistency,
    pub(super) loses_store: bool,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Course {
    /// Units of the fullest last minute of a caller at the end of each second.
    pub(super) fullest: Vec<u64>,
    /// Numbers until the end of the peak, and after it.
    pub(super) joining: FleetTally,
    pub(super) leaving: FleetTally,
    /// Smallest fleet that an agent knows at the end of the peak, and largest one at the end of the run.
    pub(super) known_at_peak: u32,
    pub(super) known_at_end: u32,
}

/// Smallest bound of an outage under a rule in the largest fleet, and the courses of the runs and of sticky sessions.
pub(super) struct Courses {
    pub(super) bound: u64,
    pub(super) runs: Vec<Course>,
    pub(super) sticky: Course,
}

impl Course {
    pub(super) fn tally(&self) -> FleetTally {
        let mut tally = self.joining;
        tally.add(&self.leaving);
        tally
    }
}

impl ScaleOutRun {
    pub(super) fn rule(self, settings: &ScaleOutSettings) -> Rule {
        let rule = Rule::per("key", &[CALLER], settings.per_minute());
        // The error of the interpolated estimate would hide the effect of the agents that join.
        let rule = rule.with(|policy| policy.set_consistency(self.consistency));
        rule.counted_by(Algorithm::SlidingWindow(Estimate::Conservative))
    }
}
