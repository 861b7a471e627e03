//! An experiment, and its row in the table of all of them.

use std::fmt::Debug;
use std::sync::Arc;

use indicatif::ProgressBar;
use serde::de::DeserializeOwned;
use toml::Spanned;
use toml::de::{DeValue, Error, ValueDeserializer};

use super::result::ScenarioFindings;
use super::setting_error::SettingError;

/// An experiment with its parameters.
pub(super) trait Experiment: Debug + Send + Sync {
    /// Refuses parameters that do not fit.
    fn check(&self) -> Result<(), SettingError>;

    /// Returns the names of the numbers of the experiment.
    fn names(&self) -> Vec<String>;

    /// Runs the experiment. The bar counts its steps.
    fn run(&self, seed: u64, bar: &ProgressBar) -> ScenarioFindings;
}

/// Reader of the parameters of one experiment.
type ReadExperiment = fn(Spanned<DeValue<'_>>) -> Result<Arc<dyn Experiment>, Error>;

/// Row of the table of experiments.
pub(super) struct RegisteredExperiment {
    /// Name of the experiment in a file, and of the scenario of the program.
    pub(super) name: &'static str,
    /// File of the scenario of the program.
    pub(super) scenario: &'static str,
    pub(super) read: ReadExperiment,
}

impl RegisteredExperiment {
    pub(super) const fn new<S: Experiment + DeserializeOwned + 'static>(
        name: &'static str,
        scenario: &'static str,
    ) -> Self {
        Self { name, scenario, read: |value| Ok(Arc::new(S::deserialize(ValueDeserializer::from(value))?)) }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Runs an experiment, which has the numbers that it names.
    pub(in crate::scenario) fn findings_of(settings: &impl Experiment) -> ScenarioFindings {
        let findings = settings.run(1, &ProgressBar::hidden());
        assert_eq!(settings.names(), findings.numbers.keys().cloned().collect::<Vec<_>>());
        findings
    }
}
