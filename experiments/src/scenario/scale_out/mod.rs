//! A fleet that grows tenfold within a minute under full load, and shrinks again, with the store and with a store that is lost
//! meanwhile; beside it sticky sessions, which lose counts whenever callers move to other nodes.
//!
//! The bound of an outage is the one that `tollgate rules validate` prints.

mod timeline;
mod sticky;
mod fleet_course;
mod findings;
mod pictures;

use std::num::NonZeroU32;

use indicatif::ProgressBar;
use serde::Deserialize;
use tollgate_core::algorithm::Algorithm;
use tollgate_core::rules::{Consistency, OutageBound, Quota, Rule};
use tollgate_core::window::Estimate;

use super::arrivals::MINUTE_MS;
use super::experiment::Experiment;
use super::file::SettingError;
use super::fleet::{CALLER, FleetTally};
use super::parallel::run_all;
use super::result::ScenarioFindings;
use timeline::calls_while_signals_differ;
use tollgate_sim::figures::ratio;

/// Largest number of calls, which are in memory at once.
const CALLS_MAX: f64 = 1e6;
const RUNS: [ScaleOutRun; 3] = [
    ScaleOutRun { name: "strict", consistency: Consistency::Strict, loses_store: false },
    ScaleOutRun { name: "strict, lost", consistency: Consistency::Strict, loses_store: true },
    ScaleOutRun { name: "bounded, lost", consistency: Consistency::Bounded, loses_store: true },
];

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ScaleOutSettings {
    /// Least and most agents.
    agents: [usize; 2],
    /// Time with the least agents, in which agents join, with the most agents, in which agents leave, and with the least again.
    before_s: u64,
    up_s: u64,
    peak_s: u64,
    down_s: u64,
    after_s: u64,
    /// Begin and end of each loss of the store, in the runs that lose it.
    lost_s: Vec<[u64; 2]>,
    /// Quota of a caller, per minute.
    quota: u64,
    callers: u64,
    /// Demand of each caller, in quotas.
    demand: f64,
}

/// A rule, and the state of the store.
#[derive(Clone, Copy, Debug)]
struct ScaleOutRun {
    name: &'static str,
    consistency: Consistency,
    loses_store: bool,
}

#[derive(Clone, Debug, Default)]
struct Course {
    /// Units of the fullest last minute of a caller at the end of each second.
    fullest: Vec<u64>,
    /// Numbers until the end of the peak, and after it.
    joining: FleetTally,
    leaving: FleetTally,
    /// Smallest fleet that an agent knows at the end of the peak, and largest one at the end of the run.
    known_at_peak: u32,
    known_at_end: u32,
}

/// Smallest bound of an outage under a rule in the largest fleet, and the courses of the runs and of sticky sessions.
struct Courses {
    bound: u64,
    runs: Vec<Course>,
    sticky: Course,
}

impl Experiment for ScaleOutSettings {
    fn check(&self) -> Result<(), SettingError> {
        let [least, most] = self.agents;
        SettingError::unless_in("agents", least, 1..=most)?;
        SettingError::unless_in("agents", most, least..=500)?;
        for (key, seconds) in [
            ("before_s", self.before_s),
            ("up_s", self.up_s),
            ("peak_s", self.peak_s),
            ("down_s", self.down_s),
            ("after_s", self.after_s),
        ] {
            SettingError::unless_in(key, seconds, 1..=3_600)?;
        }
        if let Some([begin, end]) = self.lost_s.iter().find(|[begin, end]| begin >= end || *end > self.seconds()) {
            return Err(SettingError::new(
                "lost_s",
                format!("has {begin} to {end}; write a begin and a later end in the run"),
            ));
        }
        SettingError::unless_in("quota", self.quota, 1..=10_000)?;
        SettingError::unless_in("callers", self.callers, 1..=1_000)?;
        SettingError::unless_in("demand", self.demand, 0.01..=100.0)?;
        #[expect(clippy::cast_precision_loss, reason = "an estimate")]
        let calls = (self.callers * self.quota * self.seconds()) as f64 * self.demand / 60.0;
        if calls > CALLS_MAX {
            return Err(SettingError::new("callers", format!("make {calls:.0} calls; at most a million")));
        }
        Ok(())
    }

    fn names(&self) -> Vec<String> {
        let runs = vec![Course::default(); RUNS.len()];
        let courses = Courses { bound: 1, runs, sticky: Course::default() };
        findings::numbers(self, &courses).into_keys().collect()
    }

    fn run(&self, seed: u64, bar: &ProgressBar) -> ScenarioFindings {
        let calls = self.calls(seed);
        bar.set_length(RUNS.len() as u64);
        let runs = run_all(&RUNS, |run| {
            let course = fleet_course::fleet_course(self, *run, seed, &calls);
            bar.inc(1);
            course
        });
        let agents = u32::try_from(self.agents[1]).ok().and_then(NonZeroU32::new).unwrap_or(NonZeroU32::MIN);
        let bounds = RUNS.iter().filter_map(|run| run.rule(self).policy);
        let bound = bounds.map(|policy| OutageBound::of(&policy, agents).by_signals).min().unwrap_or_default();
        let bound = bound + calls_while_signals_differ(&calls, self.callers);
        let sticky = sticky::sticky(self, self.per_minute(), &calls);
        let courses = Courses { bound, runs, sticky };
        ScenarioFindings {
            finding: findings::finding(self, &courses),
            numbers: findings::numbers(self, &courses),
            tables: vec![findings::table(self, &courses)],
            plots: vec![pictures::plot(self, &courses)],
        }
    }
}

impl ScaleOutSettings {
    fn per_minute(&self) -> Quota {
        Quota::new(self.quota, MINUTE_MS).expect("a quota in range")
    }

    fn percent(&self, units: u64) -> f64 {
        100.0 * ratio(units, self.quota)
    }
}

impl Course {
    fn tally(&self) -> FleetTally {
        let mut tally = self.joining;
        tally.add(&self.leaving);
        tally
    }
}

impl ScaleOutRun {
    fn rule(self, settings: &ScaleOutSettings) -> Rule {
        let rule = Rule::per("key", &[CALLER], settings.per_minute());
        // The error of the interpolated estimate would hide the effect of the agents that join.
        let rule = rule.with(|policy| policy.set_consistency(self.consistency));
        rule.counted_by(Algorithm::SlidingWindow(Estimate::Conservative))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Parameters other than those of the program's file.
    pub(super) fn small() -> ScaleOutSettings {
        ScaleOutSettings {
            agents: [2, 6],
            before_s: 3,
            up_s: 4,
            peak_s: 2,
            down_s: 2,
            after_s: 1,
            lost_s: vec![[4, 6]],
            quota: 60,
            callers: 2,
            demand: 3.0,
        }
    }
    #[test]
    fn a_loss_of_the_store_lies_in_the_run() {
        for (lost_s, is_valid) in [([4, 6], true), ([6, 4], false), ([11, 13], false)] {
            assert_eq!(ScaleOutSettings { lost_s: vec![lost_s], ..small() }.check().is_ok(), is_valid, "{lost_s:?}");
        }
    }

    #[test]
    fn each_finding_has_its_numbers() {
        let settings = small();
        let findings = settings.run(1, &ProgressBar::hidden());
        assert!(findings.finding.starts_with("While a fleet grows from 2 to 6 agents"), "{}", findings.finding);
        assert_eq!(settings.names(), findings.numbers.keys().cloned().collect::<Vec<_>>());
        for known in ["strict: smallest known fleet at the peak", "strict: largest known fleet at the end"] {
            assert!((2.0..=6.0).contains(&findings.numbers[known]), "{known}");
        }
        assert!(findings.numbers["strict: worst window while agents leave, % of quota"] <= 100.0);
        assert!(findings.plots[0].series.iter().any(|series| series.name == "store lost"));
    }
}
