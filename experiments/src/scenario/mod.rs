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

use experiment::RegisteredExperiment;

/// The experiments. A new one is a folder with its settings, which implement [`Experiment`](experiment::Experiment), a line
/// `mod`, and a row here.
const EXPERIMENTS: &[RegisteredExperiment] = &[
    RegisteredExperiment::new::<approximations::ApproximationSettings>(
        "approximations",
        include_str!("../../scenarios/approximations.toml"),
    ),
    RegisteredExperiment::new::<false_denials::FalseDenialSettings>(
        "false-denials",
        include_str!("../../scenarios/false-denials.toml"),
    ),
    RegisteredExperiment::new::<burst::BurstSettings>("burst", include_str!("../../scenarios/burst.toml")),
    RegisteredExperiment::new::<lost_shard::LostShardSettings>(
        "lost-shard",
        include_str!("../../scenarios/lost-shard.toml"),
    ),
    RegisteredExperiment::new::<retry_storm::RetryStormSettings>(
        "retry-storm",
        include_str!("../../scenarios/retry-storm.toml"),
    ),
    RegisteredExperiment::new::<lag::LagSettings>("lag", include_str!("../../scenarios/lag.toml")),
    RegisteredExperiment::new::<real_traffic::RealTrafficSettings>(
        "real-traffic",
        include_str!("../../scenarios/real-traffic.toml"),
    ),
    RegisteredExperiment::new::<price::PriceSettings>("price", include_str!("../../scenarios/price.toml")),
    RegisteredExperiment::new::<ways::WaySettings>("ways", include_str!("../../scenarios/ways.toml")),
    RegisteredExperiment::new::<adversary::AdversarySettings>(
        "adversary",
        include_str!("../../scenarios/adversary.toml"),
    ),
    RegisteredExperiment::new::<scale_out::ScaleOutSettings>(
        "scale-out",
        include_str!("../../scenarios/scale-out.toml"),
    ),
    RegisteredExperiment::new::<regions::GlobalQuotaSettings>("regions", include_str!("../../scenarios/regions.toml")),
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
        let parsed = |RegisteredExperiment { name, scenario, .. }: &RegisteredExperiment| {
            Self::parse(name, name, scenario).expect("scenarios of the program are valid")
        };
        EXPERIMENTS.iter().map(parsed).collect()
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
        let findings = self.file.experiment.run(self.file.seed, bar);
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
        assert_eq!(names.len(), EXPERIMENTS.len());
    }
}
