//! The experiments: the table of them, their names in a file, and their parameters.
//!
//! A derived enum with a tag reads a table before it knows the kind, and loses the places of the values. The parameters are read
//! directly instead, so that an error has its line.

use std::fmt::Debug;
use std::sync::Arc;

use indicatif::ProgressBar;
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer};
use toml::Spanned;
use toml::de::{DeValue, Error, ValueDeserializer};

use super::EXPERIMENTS;
use super::file::SettingError;
use super::result::ScenarioFindings;

/// An experiment with its parameters.
pub(super) trait Experiment: Debug + Send + Sync {
    /// Refuses parameters that do not fit.
    fn check(&self) -> Result<(), SettingError>;

    /// Returns the names of the numbers of the experiment.
    fn names(&self) -> Vec<String>;

    /// Runs the experiment. The bar counts its steps.
    fn run(&self, seed: u64, bar: &ProgressBar) -> ScenarioFindings;
}

/// Row of the table of experiments.
pub(super) struct RegisteredExperiment {
    /// Name of the experiment in a file, and of the scenario of the program.
    pub(super) name: &'static str,
    /// File of the scenario of the program.
    pub(super) scenario: &'static str,
    /// Reads the parameters.
    read: fn(Spanned<DeValue<'_>>) -> Result<Arc<dyn Experiment>, Error>,
}

/// Position of an experiment in the table.
struct ExperimentIndex(usize);

/// The field that decides which others an experiment has.
#[derive(Deserialize)]
struct KindField {
    kind: ExperimentIndex,
}

impl RegisteredExperiment {
    pub(super) const fn new<S: Experiment + DeserializeOwned + 'static>(
        name: &'static str,
        scenario: &'static str,
    ) -> Self {
        Self { name, scenario, read: |value| Ok(Arc::new(S::deserialize(ValueDeserializer::from(value))?)) }
    }
}

impl<'de> Deserialize<'de> for ExperimentIndex {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        let index = EXPERIMENTS.iter().position(|registered| registered.name == name);
        let names = || EXPERIMENTS.iter().map(|registered| format!("`{}`", registered.name)).collect::<Vec<_>>();
        let unknown = || D::Error::custom(format!("unknown variant `{name}`, expected one of {}", names().join(", ")));
        index.map(Self).ok_or_else(unknown)
    }
}

/// Reads the table of an experiment.
pub(super) fn read_experiment(mut value: Spanned<DeValue<'_>>) -> Result<Arc<dyn Experiment>, Error> {
    let KindField { kind } = KindField::deserialize(ValueDeserializer::from(value.clone()))?;
    if let DeValue::Table(table) = value.get_mut() {
        table.remove("kind");
    }
    (EXPERIMENTS[kind.0].read)(value)
}
