//! Tables of rules, callers and agents.

use console::Alignment;
use serde_json::Value;

use super::cells::{Glyphs, age, compact, elements, number, quota};

/// Column of a table.
struct TopColumn {
    title: &'static str,
    width: ColumnWidth,
    alignment: Alignment,
}

#[derive(Clone, Copy)]
enum ColumnWidth {
    Fixed(usize),
    /// Part of the columns that the fixed ones leave, in percent.
    Percent(usize),
}

/// Minimum width of a column that takes a part.
const PERCENT_WIDTH_MIN: usize = 4;

const fn left(title: &'static str, percent: usize) -> TopColumn {
    TopColumn { title, width: ColumnWidth::Percent(percent), alignment: Alignment::Left }
}

const fn right(title: &'static str, width: usize) -> TopColumn {
    TopColumn { title, width: ColumnWidth::Fixed(width), alignment: Alignment::Right }
}

const RULES: [TopColumn; 6] = [
    left("rules, last minute", 100),
    right("quota", 12),
    right("callers", 7),
    right("admitted", 8),
    right("denied", 7),
    right("in shadow", 9),
];
const CALLERS: [TopColumn; 7] = [
    left("rule", 38),
    left("caller", 62),
    right("admitted", 8),
    right("denied", 7),
    right("used", 5),
    right("quota", 9),
    right("since", 7),
];
const AGENTS: [TopColumn; 8] = [
    left("agents, last minute", 62),
    left("region", 38),
    right("admitted", 8),
    right("denied", 7),
    right("store", 5),
    right("rules", 7),
    right("clock", 8),
    right("heard", 7),
];

/// Heading and rows of a table, each of at most this number of columns.
pub(super) struct TopTable {
    pub(super) heading: String,
    pub(super) rows: Vec<String>,
}

pub(super) fn rules(rules: &Value, columns: usize, glyphs: Glyphs) -> TopTable {
    let row = |rule: &Value| {
        let (limits, minute) = (elements(&rule["limits"]), &rule["last_minute"]);
        let limit = limits.first().map_or_else(|| "-".to_owned(), |limit| quota(&limit["quota"], &limit["window_ms"]));
        let callers = &rule["callers"];
        let about = if callers["exact"] == false { "~" } else { "" };
        let sums = ["admitted", "denied", "shadow_denied"].map(|key| number(&minute[key]));
        [vec![glyphs.label(&rule["rule"]), limit, format!("{about}{}", number(&callers["estimate"]))], sums.to_vec()]
            .concat()
    };
    table(&RULES, elements(&rules["rules"]).iter().map(row), columns, glyphs)
}

pub(super) fn callers(callers: &Value, columns: usize, glyphs: Glyphs) -> TopTable {
    let now_ms = &callers["now_ms"];
    let row = |caller: &Value| {
        let permille = caller["used_permille"].as_u64();
        let at_least = if caller["missing_max"].as_u64() > Some(0) { ">" } else { "" };
        let calls = |key: &str| format!("{at_least}{}", number(&caller[key]));
        vec![
            glyphs.label(&caller["rule"]),
            glyphs.label(&caller["caller"]),
            calls("admitted"),
            calls("denied"),
            permille.map_or_else(|| "-".to_owned(), |permille| format!("{}%", compact(permille / 10))),
            quota(&caller["quota"], &caller["window_ms"]),
            age(&caller["first_denied_ms"], now_ms),
        ]
    };
    table(&CALLERS, elements(&callers["callers"]).iter().map(row), columns, glyphs)
}

pub(super) fn agents(agents: &Value, columns: usize, glyphs: Glyphs) -> TopTable {
    let now_ms = &agents["now_ms"];
    let row = |agent: &Value| {
        let offset = agent["clock_offset_ms"].as_i64();
        vec![
            glyphs.label(&agent["agent"]),
            glyphs.label(&agent["region"]),
            number(&agent["last_minute"]["admitted"]),
            number(&agent["last_minute"]["denied"]),
            glyphs.label(&agent["store"]),
            glyphs.label(&agent["rules_state"]),
            offset.map_or_else(|| "-".to_owned(), |ms| format!("{ms:+} ms")),
            age(&agent["seen_ms"], now_ms),
        ]
    };
    table(&AGENTS, elements(&agents["agents"]).iter().map(row), columns, glyphs)
}

fn table(of: &[TopColumn], rows: impl Iterator<Item = Vec<String>>, columns: usize, glyphs: Glyphs) -> TopTable {
    let fixed: usize =
        of.iter().map(|column| if let ColumnWidth::Fixed(width) = column.width { width } else { 0 }).sum();
    let free = columns.saturating_sub(fixed + of.len() - 1);
    let widths: Vec<usize> = of
        .iter()
        .map(|column| match column.width {
            ColumnWidth::Fixed(width) => width,
            ColumnWidth::Percent(percent) => (free * percent / 100).max(PERCENT_WIDTH_MIN),
        })
        .collect();
    let row = |cells: &[String]| {
        let cells = cells.iter().zip(of).zip(&widths);
        let cells: Vec<String> =
            cells.map(|((cell, column), width)| glyphs.cell(cell, *width, column.alignment)).collect();
        glyphs.cut(&cells.join(" "), columns)
    };
    let titles: Vec<String> = of.iter().map(|column| column.title.to_owned()).collect();
    TopTable { heading: row(&titles), rows: rows.map(|cells| row(&cells)).collect() }
}
