//! Scenarios: experiments in virtual time, each described by a TOML file with the ranges in which its numbers must lie.
//!
//! A file has a title, the requirements that it shows, a seed, an `experiment` with its parameters, and the table `expected`. The
//! same file and the same version give the same result. The files in `experiments/scenarios` are part of the program.

mod experiment;
mod file;
mod result;
mod parallel;
mod arrivals;
mod fleet;
mod timeline;
mod approximations;
mod false_denials;
mod burst;
mod lost_shard;
mod retry_storm;
mod lag;
mod real_traffic;
mod price;
mod ways;
mod adversary;
mod scale_out;
mod regions;

use indicatif::ProgressBar;

pub use file::{ScenarioError, ScenarioFile};
pub use result::{Axis, Number, Plot, ResultTable, ScenarioResult, Series, SeriesRole};

use experiment::Experiment;

/// Name and text of each scenario of the program.
const SCENARIOS: &[(&str, &str)] = &[
    ("approximations", include_str!("../../scenarios/approximations.toml")),
    ("false-denials", include_str!("../../scenarios/false-denials.toml")),
    ("burst", include_str!("../../scenarios/burst.toml")),
    ("lost-shard", include_str!("../../scenarios/lost-shard.toml")),
    ("retry-storm", include_str!("../../scenarios/retry-storm.toml")),
    ("lag", include_str!("../../scenarios/lag.toml")),
    ("real-traffic", include_str!("../../scenarios/real-traffic.toml")),
    ("price", include_str!("../../scenarios/price.toml")),
    ("ways", include_str!("../../scenarios/ways.toml")),
    ("adversary", include_str!("../../scenarios/adversary.toml")),
    ("scale-out", include_str!("../../scenarios/scale-out.toml")),
    ("regions", include_str!("../../scenarios/regions.toml")),
];

/// A scenario: its name, and its file.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Name of its result.
    pub name: String,
    /// Name or file by which it is run.
    pub source: String,
    /// Content of its file.
    pub file: ScenarioFile,
}

impl Scenario {
    /// Returns the scenarios of the program.
    ///
    /// # Panics
    /// Panics if one of them is not valid, which a test excludes.
    #[must_use]
    pub fn all() -> Vec<Self> {
        let scenario = |(name, text)| Self::parse(name, name, text).expect("scenarios of the program are valid");
        SCENARIOS.iter().copied().map(scenario).collect()
    }

    /// Reads a scenario from the text of the file `path`.
    ///
    /// # Errors
    /// If the text is not a valid scenario. The error names the file and the line.
    pub fn parse(name: &str, path: &str, text: &str) -> Result<Self, ScenarioError> {
        Ok(Self { name: name.to_owned(), source: path.to_owned(), file: ScenarioFile::parse(path, text)? })
    }

    /// Returns the scenario with another seed.
    #[must_use]
    pub fn with_seed(mut self, seed: u64) -> Self {
        self.file.seed = seed;
        self
    }

    /// Runs the experiment. The bar counts its steps.
    #[must_use]
    pub fn run(&self, bar: &ProgressBar) -> ScenarioResult {
        bar.set_message(self.name.clone());
        let findings = match &self.file.experiment {
            Experiment::Approximations(settings) => approximations::run(settings, self.file.seed, bar),
            Experiment::FalseDenials(settings) => false_denials::run(settings, self.file.seed, bar),
            Experiment::Burst(settings) => burst::run(settings, self.file.seed, bar),
            Experiment::LostShard(settings) => lost_shard::run(settings, self.file.seed, bar),
            Experiment::RetryStorm(settings) => retry_storm::run(settings, self.file.seed, bar),
            Experiment::Lag(settings) => lag::run(settings, self.file.seed, bar),
            Experiment::RealTraffic(settings) => real_traffic::run(settings, self.file.seed, bar),
            Experiment::Price(settings) => price::run(settings, self.file.seed, bar),
            Experiment::Ways(settings) => ways::run(settings, self.file.seed, bar),
            Experiment::Adversary(settings) => adversary::run(settings, self.file.seed, bar),
            Experiment::ScaleOut(settings) => scale_out::run(settings, self.file.seed, bar),
            Experiment::Regions(settings) => regions::run(settings, self.file.seed, bar),
        };
        ScenarioResult::new(self, findings)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_scenarios_of_the_program_are_valid_and_have_different_names() {
        let names: BTreeSet<String> = Scenario::all().into_iter().map(|scenario| scenario.name).collect();
        assert_eq!(names.len(), SCENARIOS.len());
    }
}
