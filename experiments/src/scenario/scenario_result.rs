//! The result of a scenario: that of its experiment, with the ranges in which its numbers are expected.

use std::fmt;

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use tollgate_sim::figures::{plain_table, wrapped};

use super::file::ScenarioFile;
use super::result::{Plot, ResultTable, ScenarioFindings};

/// Result of a scenario.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ScenarioResult {
    /// Name of the scenario.
    pub name: String,
    /// Title of the scenario.
    pub title: String,
    /// Rows of the requirements that it shows.
    pub shows: Vec<String>,
    /// Seed of all that was random.
    pub seed: u64,
    /// Version of Tollgate.
    pub version: String,
    /// Command that repeats the run.
    pub command: String,
    /// The finding, in a sentence or two.
    pub finding: String,
    /// Numbers by name.
    pub numbers: IndexMap<String, Number>,
    /// Tables for people.
    pub tables: Vec<ResultTable>,
    /// Plots.
    pub plots: Vec<Plot>,
}

/// A number, and the smallest and largest value that is expected.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Number {
    /// Value.
    pub value: f64,
    /// Smallest and largest value that is expected; none if any value is.
    pub expected: Option<[f64; 2]>,
}

impl Number {
    /// Returns true if the value is in the range that is expected.
    #[must_use]
    pub fn is_expected(&self) -> bool {
        self.expected.is_none_or(|[min, max]| (min..=max).contains(&self.value))
    }
}

impl ScenarioResult {
    /// Creates the result of the scenario with this name, which is run by the name or file `source`.
    pub(super) fn new(name: &str, source: &str, file: &ScenarioFile, findings: ScenarioFindings) -> Self {
        let ScenarioFindings { finding, numbers, tables, plots } = findings;
        let number = |(name, value): (String, f64)| {
            let expected = file.expected.get(&name).copied();
            (name, Number { value, expected })
        };
        Self {
            name: name.to_owned(),
            title: file.title.clone(),
            shows: file.shows.clone(),
            seed: file.seed,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            command: format!("tollgate-lab run {source} --seed {}", file.seed),
            finding,
            numbers: numbers.into_iter().map(number).collect(),
            tables,
            plots,
        }
    }

    /// Returns a sentence for each number outside the range that is expected, with the command that repeats the run.
    #[must_use]
    pub fn unexpected(&self) -> Vec<String> {
        let sentence = |(name, number): (&String, &Number)| {
            let [min, max] = number.expected.filter(|_| !number.is_expected())?;
            let (value, seed, command) = (number.value, self.seed, &self.command);
            Some(format!("{name} is {value:.2}, expected {min} to {max} (seed {seed}: {command})"))
        };
        self.numbers.iter().filter_map(sentence).collect()
    }
}

impl fmt::Display for ScenarioResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} (seed {})\n\n{}", self.title, self.seed, wrapped(&self.finding))?;
        for table in &self.tables {
            let header: Vec<&str> = table.header.iter().map(String::as_str).collect();
            let mut text = plain_table(&header, 1);
            text.add_rows(&table.rows);
            writeln!(f, "\n{}\n{}", wrapped(&table.caption), text.trim_fmt())?;
        }
        let ranged = self.numbers.values().filter(|number| number.expected.is_some()).count();
        let unexpected = self.unexpected();
        writeln!(f, "\n{} of {ranged} numbers are in their expected ranges", ranged - unexpected.len())?;
        for sentence in unexpected {
            writeln!(f, "{}", wrapped(&format!("unexpected: {sentence}")))?;
        }
        Ok(())
    }
}
