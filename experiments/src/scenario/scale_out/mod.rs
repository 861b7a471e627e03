//! A fleet that grows tenfold within a minute under full load, and shrinks again, with the store and with a store that is lost
//! meanwhile; beside it sticky sessions, which lose counts whenever callers move to other nodes.
//!
//! The bound of an outage is the one that `tollgate rules validate` prints.

mod settings;
mod timeline;
mod course;
mod sticky;
mod fleet_course;
mod findings;
mod pictures;

use std::num::NonZeroU32;

use indicatif::ProgressBar;
use tollgate_core::rules::OutageBound;

use super::experiment::Experiment;
use super::parallel::run_all;
use super::result::ScenarioFindings;
use super::setting_error::SettingError;
use course::{Course, Courses, RUNS};
pub(super) use settings::ScaleOutSettings;
use timeline::calls_while_signals_differ;

/// Largest number of calls, which are in memory at once.
const CALLS_MAX: f64 = 1e6;

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::experiment::tests::findings_of;

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
        let findings = findings_of(&settings);
        assert!(findings.finding.starts_with("While a fleet grows from 2 to 6 agents"), "{}", findings.finding);
        for known in ["strict: smallest known fleet at the peak", "strict: largest known fleet at the end"] {
            assert!((2.0..=6.0).contains(&findings.numbers[known]), "{known}");
        }
        assert!(findings.numbers["strict: worst window while agents leave, % of quota"] <= 100.0);
        assert!(findings.plots[0].series.iter().any(|series| series.name == "store lost"));
    }
}
