//! The file of a scenario.

use indexmap::IndexMap;
use serde::Deserialize;

use super::{approximations, false_denials};

/// Content of the file of a scenario.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScenarioFile {
    /// Title of the scenario.
    pub title: String,
    /// Rows of the requirements that it shows.
    #[serde(default)]
    pub shows: Vec<String>,
    /// Seed of all that is random.
    pub seed: u64,
    pub(super) experiment: Experiment,
    /// Smallest and largest value that is expected, by the name of the number.
    #[serde(default)]
    pub(super) expected: IndexMap<String, [f64; 2]>,
}

/// An experiment with its parameters.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub(super) enum Experiment {
    Approximations(approximations::ApproximationSettings),
    FalseDenials(false_denials::FalseDenialSettings),
}

/// Reason why a scenario has no result.
#[derive(Debug, thiserror::Error)]
pub enum ScenarioError {
    /// The file is not valid.
    #[error("{0}")]
    File(String),
    /// A number is expected that the experiment does not have.
    #[error("scenario {scenario}: `expected` names \"{number}\", which is none of its numbers: {known}")]
    UnknownNumber {
        /// Name of the scenario.
        scenario: String,
        /// Name in the file.
        number: String,
        /// Names of the numbers of the experiment.
        known: String,
    },
}

impl ScenarioFile {
    pub(super) fn parse(path: &str, text: &str) -> Result<Self, ScenarioError> {
        let file: Self = toml::from_str(text).map_err(|error| {
            let line = error.span().map_or(1, |span| 1 + text[..span.start].matches('\n').count());
            ScenarioError::File(format!("{path}:{line}: {}", error.message().trim_end()))
        })?;
        let checked = match &file.experiment {
            Experiment::Approximations(settings) => settings.check(),
            Experiment::FalseDenials(settings) => settings.check(),
        };
        checked.map_err(|reason| ScenarioError::File(format!("{path}: {reason}")))?;
        if let Some((name, _)) = file.expected.iter().find(|(_, [min, max])| min > max) {
            return Err(ScenarioError::File(format!("{path}: the range of \"{name}\" ends before it begins")));
        }
        Ok(file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bad_file_is_refused_with_its_line() {
        let valid = include_str!("../../scenarios/approximations.toml");
        // Text, its replacement, part of the message.
        let cases = [
            ("seed = 1", "seed = -1", "a.toml:9: "),
            ("seed = 1", "sead = 1", "unknown field `sead`"),
            ("kind = \"approximations\"", "kind = \"x\"", "unknown variant `x`"),
            ("hours = 24", "hours = 0", "`hours` is 1 to 1000"),
            ("[35.0, 60.0]", "[60.0, 35.0]", "ends before it begins"),
        ];
        for (text, replacement, expected) in cases {
            assert!(valid.contains(text), "{text}");
            let error = ScenarioFile::parse("a.toml", &valid.replacen(text, replacement, 1)).unwrap_err().to_string();
            assert!(error.starts_with("a.toml") && error.contains(expected), "{error}");
        }
    }
}
