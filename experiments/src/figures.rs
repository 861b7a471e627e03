//! Figures for people: distributions of times, tables, counts and shares.

use std::time::Duration;

use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, Table, presets};
use hdrhistogram::Histogram;
use indicatif::HumanCount;

/// Width of a report for people, in characters.
const WIDTH_MAX: u16 = 80;
/// Longest time that a histogram distinguishes, in its unit: ten minutes in microseconds.
const MEASURED_MAX: u64 = 600_000_000;

pub(crate) fn histogram() -> Histogram<u64> {
    Histogram::new_with_max(MEASURED_MAX, 3).expect("bounds that are in order")
}

pub(crate) fn as_us(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// Returns an empty table without lines, at most 80 characters wide; long cells are wrapped. Columns from `figures` on
/// are aligned to the right.
pub(crate) fn plain_table(header: &[&str], figures: usize) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_header(header.iter().copied());
    table.set_content_arrangement(ContentArrangement::Dynamic).set_width(WIDTH_MAX);
    for column in table.column_iter_mut().skip(figures) {
        column.set_constraint(ColumnConstraint::ContentWidth).set_cell_alignment(CellAlignment::Right);
    }
    table
}

pub(crate) fn wrapped(line: &str) -> String {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic).set_width(WIDTH_MAX);
    table.add_row([line]);
    table.column_iter_mut().for_each(|column| {
        column.set_padding((0, 0));
    });
    table.trim_fmt()
}

pub(crate) fn agents(number: usize) -> String {
    format!("{number} agent{}", if number == 1 { "" } else { "s" })
}

/// Formats a count as `1,234`.
pub(crate) fn count(count: u64) -> String {
    HumanCount(count).to_string()
}

/// Returns a part of a whole; 0 of nothing.
#[expect(clippy::cast_precision_loss, reason = "numbers of calls")]
pub(crate) fn ratio(part: u64, whole: u64) -> f64 {
    part as f64 / whole.max(1) as f64
}

/// Formats a share as `12.3%`.
pub(crate) fn percent(part: u64, whole: u64) -> String {
    let permille = (u128::from(part) * 1_000 + u128::from(whole) / 2) / u128::from(whole.max(1));
    format!("{}.{}%", permille / 10, permille % 10)
}
