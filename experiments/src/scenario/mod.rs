//! Scenarios: experiments in virtual time, each described by a TOML file with the ranges in which its numbers must lie.
//!
//! A file has a title, the requirements that it shows, a seed, an `experiment` with its parameters, and the table `expected`. The
//! same file and the same version give the same result. The files in `experiments/scenarios` are part of the program.

mod setting_error;
mod result;
mod experiment;
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
mod mixed_rules;
mod sub_windows;
mod ways;
mod adversary;
mod scale_out;
mod regions;
mod experiments;
mod file;
mod scenario_result;

use indicatif::ProgressBar;

pub use file::{ScenarioError, ScenarioFile};
pub use result::{Axis, Plot, ResultTable, Series, SeriesRole};
pub use scenario_result::{Number, ScenarioResult};

use experiment::RegisteredExperiment;
use experiments::EXPERIMENTS;
use result::ScenarioFindings;

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
        ScenarioResult::new(&self.name, &self.source, &self.file, findings)
    }

    /// Reads the result of an earlier run from its JSON; none if that was of another version, seed or file.
    #[must_use]
    pub fn known_result(&self, json: &str) -> Option<ScenarioResult> {
        let known: ScenarioResult = serde_json::from_str(json).ok()?;
        let own = ScenarioResult::new(&self.name, &self.source, &self.file, ScenarioFindings::default());
        let named =
            |result: &ScenarioResult| [&result.name, &result.command, &result.version, &result.title].map(Clone::clone);
        let has_range = |(name, number): (&String, &Number)| number.expected == self.file.expected.get(name).copied();
        (named(&known) == named(&own) && known.numbers.iter().all(has_range)).then_some(known)
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
