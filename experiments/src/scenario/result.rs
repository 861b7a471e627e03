//! The result of a scenario: a finding in a sentence, numbers with the ranges in which they are expected, tables and plots.

use std::fmt;

use indexmap::IndexMap;
use serde::Serialize;

use super::Scenario;
use tollgate_sim::figures::{plain_table, wrapped};

#[derive(Clone, Debug, Default)]
pub(super) struct ScenarioFindings {
    /// The finding, in a sentence or two.
    pub(super) finding: String,
    pub(super) numbers: IndexMap<String, f64>,
    pub(super) tables: Vec<ResultTable>,
    pub(super) plots: Vec<Plot>,
}

/// Result of a scenario.
#[derive(Clone, Debug, Serialize)]
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
    pub version: &'static str,
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
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Number {
    /// Value.
    pub value: f64,
    /// Smallest and largest value that is expected; none if any value is.
    pub expected: Option<[f64; 2]>,
}

/// A table. All columns but the first are numbers.
#[derive(Clone, Debug, Serialize)]
pub struct ResultTable {
    /// Content of the table.
    pub caption: String,
    /// Names of the columns.
    pub header: Vec<String>,
    /// Cells by row.
    pub rows: Vec<Vec<String>>,
}

/// A plot.
#[derive(Clone, Debug, Serialize)]
pub struct Plot {
    /// Name of its file, without extension.
    pub name: String,
    /// The finding that it shows.
    pub title: String,
    /// Horizontal axis.
    pub x: Axis,
    /// Vertical axis.
    pub y: Axis,
    /// Lines.
    pub series: Vec<Series>,
}

/// An axis: its label with the unit, and its range.
#[derive(Clone, Debug, Serialize)]
pub struct Axis {
    /// Quantity and unit.
    pub label: String,
    /// Smallest and largest value.
    pub range: [f64; 2],
    /// True if equal distances are equal ratios.
    pub is_logarithmic: bool,
}

/// A line of a plot.
#[derive(Clone, Debug, Serialize)]
pub struct Series {
    /// Name in the legend.
    pub name: String,
    /// Role of the line, by which it is drawn.
    pub role: SeriesRole,
    /// Points, in order of x.
    pub points: Vec<(f64, f64)>,
}

/// Role of a line in a plot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SeriesRole {
    /// The truth, with which the others are compared.
    Truth,
    /// A limit or a bound.
    Limit,
    /// A way of counting or limiting.
    Measured,
}

impl Axis {
    /// Creates a linear axis.
    pub(crate) fn new(label: impl Into<String>, range: [f64; 2]) -> Self {
        Self { label: label.into(), range, is_logarithmic: false }
    }

    /// Creates a logarithmic axis, whose values are above 0.
    pub(crate) fn logarithmic(label: impl Into<String>, range: [f64; 2]) -> Self {
        Self { is_logarithmic: true, ..Self::new(label, range) }
    }
}

impl Number {
    /// Returns true if the value is in the range that is expected.
    #[must_use]
    pub fn is_expected(&self) -> bool {
        self.expected.is_none_or(|[min, max]| (min..=max).contains(&self.value))
    }
}

impl ScenarioResult {
    pub(super) fn new(scenario: &Scenario, findings: ScenarioFindings) -> Self {
        let (file, ScenarioFindings { finding, numbers, tables, plots }) = (&scenario.file, findings);
        let number = |(name, value): (String, f64)| {
            let expected = file.expected.get(&name).copied();
            (name, Number { value, expected })
        };
        Self {
            name: scenario.name.clone(),
            title: file.title.clone(),
            shows: file.shows.clone(),
            seed: file.seed,
            version: env!("CARGO_PKG_VERSION"),
            command: format!("tollgate-lab run {} --seed {}", scenario.source, file.seed),
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
        let shows = self.shows.iter().flat_map(|row| [row.as_str(), ", "]).collect::<String>();
        writeln!(f, "{} ({shows}seed {})\n\n{}", self.title, self.seed, wrapped(&self.finding))?;
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
