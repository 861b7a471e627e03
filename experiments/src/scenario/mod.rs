//! Scenarios: experiments in virtual time, each described by a TOML file with the ranges in which its numbers must lie.
//!
//! A file has a title, the requirements that it shows, a seed, an `experiment` with its parameters, and the table `expected`. The
//! same file and the same version give the same result. The files in `experiments/scenarios` are part of the program.

mod file;
mod result;
mod arrivals;
mod cells;
mod fleet;
mod approximations;
mod false_denials;
mod lag;
mod scale_out;

use indicatif::ProgressBar;

pub use file::{ScenarioError, ScenarioFile};
pub use result::{Axis, Number, Plot, ResultTable, ScenarioResult, Series, SeriesRole};

use file::Experiment;

/// Name and text of each scenario of the program.
const SCENARIOS: [(&str, &str); 4] = [
    ("approximations", include_str!("../../scenarios/approximations.toml")),
    ("false-denials", include_str!("../../scenarios/false-denials.toml")),
    ("lag", include_str!("../../scenarios/lag.toml")),
    ("scale-out", include_str!("../../scenarios/scale-out.toml")),
];

/// A scenario: its name, and its file.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Name by which it is run.
    pub name: String,
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
        SCENARIOS.into_iter().map(scenario).collect()
    }

    /// Reads a scenario from the text of the file `path`.
    ///
    /// # Errors
    /// If the text is not a valid scenario. The error names the file and the line.
    pub fn parse(name: &str, path: &str, text: &str) -> Result<Self, ScenarioError> {
        Ok(Self { name: name.to_owned(), file: ScenarioFile::parse(path, text)? })
    }

    /// Runs the experiment. The bar counts its steps.
    #[must_use]
    pub fn run(&self, bar: &ProgressBar) -> ScenarioResult {
        bar.set_message(self.name.clone());
        let findings = match &self.file.experiment {
            Experiment::Approximations(settings) => approximations::run(settings, self.file.seed, bar),
            Experiment::FalseDenials(settings) => false_denials::run(settings, self.file.seed, bar),
            Experiment::Lag(settings) => lag::run(settings, self.file.seed, bar),
            Experiment::ScaleOut(settings) => scale_out::run(settings, self.file.seed, bar),
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
