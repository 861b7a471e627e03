//! Excess and false denials over the delay of the stream, for each consistency, with the store and after its loss.
//!
//! The delay is the time from a call to the signal that contains it. Under `strict` and `bounded`, signals decide only without the
//! store; under `eventual`, always. Signals that are too old decide nothing, and then `on_failure` does. A cell is one fleet under
//! one delay; its callers and their calls are the same in all of them.

mod settings;
mod callers;
mod cell;
mod curves;
mod findings;
mod pictures;

use indicatif::ProgressBar;

use super::experiment::Experiment;
use super::parallel::run_all;
use super::result::ScenarioFindings;
use super::setting_error::SettingError;
use callers::calls;
use cell::{Decider, LagCell, LagTallies};
use curves::LagResult;
use findings::{finding, numbers, tables};
pub(super) use settings::LagSettings;

/// Largest number of calls of a fleet, which are in memory at once.
const CALLS_MAX: f64 = 1e6;

impl Experiment for LagSettings {
    fn check(&self) -> Result<(), SettingError> {
        for agents in &self.agents {
            SettingError::unless_in("agents", *agents, 1..=200)?;
        }
        for delay_s in &self.delays_s {
            SettingError::unless_in("delays_s", *delay_s, 0.0..=120.0)?;
        }
        for (key, len, is_sorted) in [
            ("agents", self.agents.len(), self.agents.is_sorted_by(|a, b| a < b)),
            ("delays_s", self.delays_s.len(), self.delays_s.is_sorted_by(|a, b| a < b)),
        ] {
            SettingError::unless_in(key, len, 1..=40).map_err(|_| SettingError::new(key, "needs 1 to 40 values"))?;
            if !is_sorted {
                return Err(SettingError::new(key, "is not in ascending order"));
            }
        }
        SettingError::unless_in("quota", self.quota, 1..=10_000)?;
        SettingError::unless_in("callers", self.callers, 1..=1_000)?;
        for (key, quotas) in [("honest", self.honest), ("steady", self.steady), ("burst", self.burst)] {
            SettingError::unless_in(key, quotas, 0.01..=100.0)?;
        }
        SettingError::unless_in("seconds", self.seconds, 2..=3_600)?;
        SettingError::unless_in("burst_s", self.burst_s, 1..=self.seconds - 1)?;
        SettingError::unless_in("lost_after_s", self.lost_after_s, 0..=self.seconds - self.burst_s)?;
        let calls = self.calls();
        if calls > CALLS_MAX {
            return Err(SettingError::new("callers", format!("make {calls:.0} calls; at most a million")));
        }
        Ok(())
    }

    fn names(&self) -> Vec<String> {
        let results: Vec<LagResult> = self.cells().into_iter().map(|cell| (cell, LagTallies::default())).collect();
        numbers(self, &results).into_keys().collect()
    }

    fn run(&self, seed: u64, bar: &ProgressBar) -> ScenarioFindings {
        let (fleets, calls) = (self.cells(), calls(self, seed));
        bar.set_length(u64::try_from(fleets.len()).unwrap_or(u64::MAX));
        let results = run_all(&fleets, |cell| {
            let tallies = cell.run(self, seed, &calls);
            bar.inc(1);
            (*cell, tallies)
        });
        ScenarioFindings {
            finding: finding(self, &results),
            numbers: numbers(self, &results),
            tables: tables(self, &results),
            plots: pictures::plots(self, &results),
        }
    }
}

impl LagSettings {
    /// Returns the expected number of calls of a fleet.
    #[expect(clippy::cast_precision_loss, reason = "an estimate")]
    fn calls(&self) -> f64 {
        let quotas = (self.honest + self.steady) * self.seconds as f64 / 60.0 + self.burst;
        quotas * (self.quota * self.callers) as f64
    }

    fn cells(&self) -> Vec<LagCell> {
        let mut cells = Vec::new();
        for agents in &self.agents {
            for decider in Decider::ALL {
                cells.extend(self.delays_s.iter().map(|delay_s| LagCell {
                    agents: *agents,
                    delay_s: *delay_s,
                    decider,
                }));
            }
        }
        cells
    }

    /// Returns the size of the fleet that sentences and pictures show: the largest.
    fn shown_agents(&self) -> usize {
        self.agents[self.agents.len() - 1]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::experiment::tests::findings_of;

    /// Parameters other than those of the program's file.
    pub(super) fn small() -> LagSettings {
        LagSettings {
            agents: vec![2],
            delays_s: vec![0.0, 8.0],
            quota: 20,
            callers: 1,
            honest: 0.5,
            steady: 2.0,
            burst: 3.0,
            burst_s: 2,
            seconds: 20,
            lost_after_s: 5,
        }
    }

    #[test]
    fn each_finding_has_its_numbers() {
        let settings = small();
        let findings = findings_of(&settings);
        assert!(
            findings.finding.contains("`eventual` adds the calls of the delay: a burst of 1.5 "),
            "{}",
            findings.finding
        );
        let fresh_s = findings.numbers["2 agents: largest delay with fresh signals, s"];
        assert!((0.0..8.0).contains(&fresh_s), "stale after 8 s: {fresh_s}");
        assert_eq!((findings.tables.len(), findings.plots.len()), (3, 5));
    }
}
