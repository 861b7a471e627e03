//! The file of a scenario.

use std::sync::Arc;

use indexmap::IndexMap;
use serde::Deserialize;
use serde::de::{IgnoredAny, IntoDeserializer};
use toml::de::DeTable;

use super::experiment::Experiment;
use super::experiments::read_experiment;

/// Number of names that an error offers for a wrong one.
const OFFERED_LEN_MAX: usize = 3;

/// Content of the file of a scenario.
#[derive(Clone, Debug)]
pub struct ScenarioFile {
    /// Title of the scenario.
    pub title: String,
    /// Rows of the requirements that it shows.
    pub shows: Vec<String>,
    /// Seed of all that is random.
    pub seed: u64,
    pub(super) experiment: Arc<dyn Experiment>,
    /// Smallest and largest value that is expected, by the name of the number.
    pub(super) expected: IndexMap<String, [f64; 2]>,
}

/// The fields of the experiment depend on its kind.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ScenarioFields {
    title: String,
    #[serde(default)]
    shows: Vec<String>,
    seed: u64,
    #[serde(rename = "experiment")]
    _experiment: IgnoredAny,
    #[serde(default)]
    expected: IndexMap<String, [f64; 2]>,
}

/// Reason why a file is not a scenario, with the file and the line.
#[derive(Debug, thiserror::Error)]
#[error("{path}:{line}: {reason}")]
pub struct ScenarioError {
    path: String,
    line: usize,
    reason: String,
}

impl ScenarioFile {
    pub(super) fn parse(path: &str, text: &str) -> Result<Self, ScenarioError> {
        let error = |line, reason| ScenarioError { path: path.to_owned(), line, reason };
        let file = Self::read(text).map_err(|refused| {
            let (message, place) = (refused.message().trim_end(), refused.span().map_or(0, |span| span.start));
            let line = 1 + text[..place].matches('\n').count();
            let has_wrong_value = message.starts_with("invalid ");
            match key_at(text, place).filter(|_| has_wrong_value) {
                Some((line, key)) => error(line, format!("`{key}`: {message}")),
                None => error(line, message.to_owned()),
            }
        })?;
        file.experiment.check().map_err(|refused| error(line_of(text, refused.key), refused.reason))?;
        let names = file.experiment.names();
        for (name, [min, max]) in &file.expected {
            let refused = |reason| error(line_of(text, &format!("\"{name}\"")), reason);
            if !names.contains(name) {
                return Err(refused(format!("there is no number \"{name}\"; {}", nearest(name, &names))));
            }
            // Neither bound is NaN.
            if !matches!(min.partial_cmp(max), Some(order) if order.is_le()) {
                return Err(refused(format!("the range of \"{name}\" ends before it begins; write [least, most]")));
            }
        }
        Ok(file)
    }

    /// Reads the fields of the experiment from the text as well, so that their errors have their places.
    fn read(text: &str) -> Result<Self, toml::de::Error> {
        let table = DeTable::parse(text)?;
        let experiment = table.get_ref().get("experiment").cloned();
        let ScenarioFields { title, shows, seed, expected, .. } = Deserialize::deserialize(table.into_deserializer())?;
        let experiment = read_experiment(experiment.expect("a field that is required"))?;
        Ok(Self { title, shows, seed, experiment, expected })
    }
}

/// Returns the key of the value at this place of a text, and its line.
fn key_at(text: &str, place: usize) -> Option<(usize, &str)> {
    let end = text[place..].find('\n').map_or(text.len(), |len| place + len);
    let lines: Vec<&str> = text[..end].lines().collect();
    lines.iter().enumerate().rev().find_map(|(index, line)| {
        let (key, _) = line.trim_start().split_once('=')?;
        let key = key.trim();
        (!key.starts_with('#') && !key.is_empty()).then(|| (index + 1, key.trim_matches('"')))
    })
}

fn line_of(text: &str, key: &str) -> usize {
    let is_of_key = |line: &str| line.strip_prefix(key).is_some_and(|rest| rest.trim_start().starts_with('='));
    1 + text.lines().position(|line| is_of_key(line.trim_start())).unwrap_or_default()
}

/// Names the numbers whose names are nearest to another one.
fn nearest(name: &str, names: &[String]) -> String {
    let mut names: Vec<(f64, &String)> = names.iter().map(|known| (strsim::jaro_winkler(known, name), known)).collect();
    names.sort_by(|a, b| b.0.total_cmp(&a.0));
    let shown =
        names.iter().take(OFFERED_LEN_MAX).map(|(_, known)| format!("\"{known}\"")).collect::<Vec<_>>().join(", ");
    format!("near to it are {shown}; `tollgate-lab run --format json` prints all")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bad_file_is_refused_with_its_line() {
        let valid = include_str!("../../scenarios/approximations.toml");
        // Text, its replacement; text of the line that is named, part of the message.
        let cases = [
            ("seed = 1", "seed = -1", "seed", "`seed`: invalid value"),
            ("hours = 24", "hours = \"x\"", "hours", "`hours`: invalid type: string \"x\""),
            ("[2, 40]", "[2, true]", "period_s", "`period_s`: invalid type: boolean"),
            ("hours = 24", "", "[experiment]", "missing field `hours`"),
            ("seed = 1", "seed = one", "seed", "string values must be quoted"),
            ("seed = 1", "sead = 1", "sead", "unknown field `sead`"),
            ("hours = 24", "days = 1", "days", "unknown field `days`, expected one of `limit`, `hours`"),
            ("hours = 24", "hours = 0", "hours", "`hours` is 0; write 1 to 1000"),
            ("[2, 40]", "[40, 2]", "period_s", "`period_s` is 40 to 2; write the smaller first"),
            ("[35.0, 60.0]", "[60.0, 35.0]", "\"fixed window: mean", "ends before it begins"),
            ("[35.0, 60.0]", "[nan, nan]", "\"fixed window: mean", "ends before it begins"),
            ("\"12 of 5 s: mean", "\"12 of 5s: mean", "\"12 of 5s", "near to it are \"12 of 5 s: mean error\""),
        ];
        for (text, replacement, named, expected) in cases {
            assert!(valid.contains(text), "{text}");
            let text = valid.replacen(text, replacement, 1);
            let error = ScenarioFile::parse("a.toml", &text).unwrap_err().to_string();
            let line = 1 + text.lines().position(|line| line.starts_with(named)).unwrap();
            assert!(error.starts_with(&format!("a.toml:{line}: ")) && error.contains(expected), "{line} {error}");
        }
        let unknown = valid.replace("\"approximations\"", "\"x\"");
        assert!(ScenarioFile::parse("a.toml", &unknown).unwrap_err().to_string().contains("unknown variant `x`"));
    }
}
