//! The result of an experiment: a finding in a sentence, numbers, tables and plots.

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Default)]
pub(super) struct ScenarioFindings {
    /// The finding, in a sentence or two.
    pub(super) finding: String,
    pub(super) numbers: IndexMap<String, f64>,
    pub(super) tables: Vec<ResultTable>,
    pub(super) plots: Vec<Plot>,
}

/// A table. All columns but the first are numbers.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ResultTable {
    /// Content of the table.
    pub caption: String,
    /// Names of the columns.
    pub header: Vec<String>,
    /// Cells by row.
    pub rows: Vec<Vec<String>>,
}

/// A plot.
#[derive(Clone, Debug, Serialize, Deserialize)]
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
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Axis {
    /// Quantity and unit.
    pub label: String,
    /// Smallest and largest value.
    pub range: [f64; 2],
    /// True if equal distances are equal ratios.
    pub is_logarithmic: bool,
}

/// A line of a plot.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Series {
    /// Name in the legend.
    pub name: String,
    /// Role of the line, by which it is drawn.
    pub role: SeriesRole,
    /// Points, in order of x.
    pub points: Vec<(f64, f64)>,
}

/// Role of a line in a plot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
