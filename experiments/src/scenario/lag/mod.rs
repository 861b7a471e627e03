//! Excess and false denials over the delay of the stream, for each consistency, with the store and after its loss.
//!
//! The delay is the time from a call to the signal that contains it. Under `strict` and `bounded`, signals decide only without the
//! store; under `eventual`, always. Signals that are too old decide nothing, and then `on_failure` does. A cell is one fleet under
//! one delay; its callers and their calls are the same in all of them.

mod callers;
mod cell;
mod findings;
mod pictures;

use indicatif::ProgressBar;
use serde::Deserialize;

use super::experiment::Experiment;
use super::file::SettingError;
use super::fleet::FleetTally;
use super::parallel::run_all;
use super::result::ScenarioFindings;
use callers::{LagDemand, calls};
use cell::{Decider, LagCell, LagTallies};
use findings::{finding, numbers, tables};
use tollgate_sim::figures::ratio;

/// Largest number of calls of a fleet, which are in memory at once.
const CALLS_MAX: f64 = 1e6;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LagSettings {
    /// Sizes of the fleets.
    agents: Vec<usize>,
    /// Times from a call to its signal.
    delays_s: Vec<f64>,
    /// Quota of a caller, per minute.
    quota: u64,
    /// Number of callers with each demand.
    callers: u64,
    /// Demand below the quota, in quotas.
    honest: f64,
    /// Demand above it, in quotas.
    steady: f64,
    /// Calls of a burst, in quotas, and its length.
    burst: f64,
    burst_s: u64,
    /// Length of a run.
    seconds: u64,
    /// Begin of the measurement and of all bursts. Some runs lose the store then.
    lost_after_s: u64,
}

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

type LagResult = (LagCell, LagTallies);

/// Returns the units of the fullest window in percent of the quota.
fn worst_percent(settings: &LagSettings, tally: &FleetTally) -> f64 {
    100.0 * ratio(tally.worst_window, settings.quota)
}

/// Returns the false denials in percent of the calls.
fn denied_percent(tally: &FleetTally) -> f64 {
    100.0 * ratio(tally.under_admitted, tally.calls)
}

/// Returns a value of a fleet of this size and way of deciding over the delay, for callers of one demand.
fn curve(
    results: &[LagResult],
    agents: usize,
    decider: Decider,
    demand: LagDemand,
    value: impl Fn(&FleetTally) -> f64,
) -> Vec<(f64, f64)> {
    let of_curve = results.iter().filter(|(cell, _)| (cell.agents, cell.decider) == (agents, decider));
    of_curve.map(|(cell, tallies)| (cell.delay_s, value(&tallies[demand as usize]))).collect()
}

/// Returns the first point with the largest value.
fn highest(points: impl IntoIterator<Item = (f64, f64)>) -> (f64, f64) {
    let higher = |best: (f64, f64), point: (f64, f64)| if point.1 > best.1 { point } else { best };
    points.into_iter().reduce(higher).expect("there is a delay")
}

/// Returns the delay at which signals last made at least half of the decisions of `eventual`; 0 if at none.
fn signalled_to_s(results: &[LagResult], agents: usize) -> f64 {
    let by_signals =
        curve(results, agents, Decider::Eventual, LagDemand::Steady, |tally| ratio(tally.by_signals, tally.calls));
    by_signals.into_iter().filter(|(_, part)| *part >= 0.5).map(|(delay_s, _)| delay_s).fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let findings = settings.run(1, &ProgressBar::hidden());
        assert!(
            findings.finding.contains("`eventual` adds the calls of the delay: a burst of 1.5 "),
            "{}",
            findings.finding
        );
        assert_eq!(settings.names(), findings.numbers.keys().cloned().collect::<Vec<_>>());
        let fresh_s = findings.numbers["2 agents: largest delay with fresh signals, s"];
        assert!((0.0..8.0).contains(&fresh_s), "stale after 8 s: {fresh_s}");
        assert_eq!((findings.tables.len(), findings.plots.len()), (3, 5));
    }
}
