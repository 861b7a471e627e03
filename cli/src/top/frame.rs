//! One frame: the state of the fleet, sparklines, rules, callers and agents as lines that fit the terminal.

#[cfg(test)]
mod tests;

use tollgate_core::clock::Timestamp;

use super::api::TopOrder;
use super::cells::{Glyphs, elements, number, rate, seconds, time_of_day, width};
use super::sparkline::sparklines;
use super::state::TopState;
use super::tables::{self, TopTable};

const KEYS: &str = "q quit   sort by: d denied  c calls  n near quota  w new   r rule   PgUp/PgDn";
/// Number of rows that rules and agents may have each, as a part of the rows of all tables.
const SIDE_SHARE: usize = 4;
/// Number of rows that they have at least, if there are as many.
const SIDE_ROWS_MIN: usize = 2;

/// Size of the terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FrameSize {
    pub(super) columns: usize,
    pub(super) rows: usize,
}

impl Default for FrameSize {
    /// Returns the size of a terminal that has none.
    fn default() -> Self {
        Self { columns: 80, rows: 24 }
    }
}

/// Form in which a line is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Emphasis {
    Plain,
    Heading,
    Alarm,
}

/// Returns the lines of a frame: at most one fewer than the terminal has rows, and none longer than it has columns.
pub(super) fn frame(state: &TopState, size: FrameSize, glyphs: Glyphs, now: Timestamp) -> Vec<(Emphasis, String)> {
    let FrameSize { columns, .. } = size;
    let mut lines = head(state, columns, glyphs, now);
    let now_ms = state.data.status["now_ms"].as_u64().unwrap_or_default();
    lines.extend(sparklines(&state.data.series, now_ms, columns, glyphs).map(|line| (Emphasis::Plain, line)));
    let room = rows_of_tables(state, lines.len(), size);
    add_table(&mut lines, tables::rules(&state.data.rules, columns, glyphs), 0, room.rules);
    lines.push((Emphasis::Plain, String::new()));
    lines.push((Emphasis::Heading, callers_heading(state, room.callers, glyphs)));
    add_table(&mut lines, tables::callers(&state.data.callers, columns, glyphs), state.scroll, room.callers);
    lines.push((Emphasis::Plain, String::new()));
    add_table(&mut lines, tables::agents(&state.data.agents, columns, glyphs), 0, room.agents);
    let drawn = size.rows.saturating_sub(1).max(1);
    if state.is_live {
        let missing = drawn.saturating_sub(lines.len() + 1);
        lines.extend((0..missing).map(|_| (Emphasis::Plain, String::new())));
        lines.truncate(drawn - 1);
        lines.push((Emphasis::Plain, KEYS.to_owned()));
    }
    lines.truncate(drawn);
    lines.into_iter().map(|(emphasis, text)| (emphasis, glyphs.cut(&text, columns))).collect()
}

/// Returns the number of callers that a frame shows.
pub(super) fn callers_shown(state: &TopState, size: FrameSize, glyphs: Glyphs, now: Timestamp) -> usize {
    rows_of_tables(state, head(state, size.columns, glyphs, now).len() + 2, size).callers
}

/// Number of rows of each table.
struct TableRows {
    rules: usize,
    callers: usize,
    agents: usize,
}

fn rows_of_tables(state: &TopState, above: usize, size: FrameSize) -> TableRows {
    // Three headings, the line above the callers, two blank lines, the keys, and the row in which the cursor stands.
    let room = size.rows.saturating_sub(above + 8);
    let beside = |len: usize| len.min((room / SIDE_SHARE).max(SIDE_ROWS_MIN));
    let agents = beside(elements(&state.data.agents["agents"]).len()).min(room);
    let rules = beside(elements(&state.data.rules["rules"]).len()).min(room.saturating_sub(agents + 1));
    let callers = room.saturating_sub(rules + agents);
    TableRows { rules, callers, agents }
}

fn add_table(lines: &mut Vec<(Emphasis, String)>, table: TopTable, from: usize, rows: usize) {
    lines.push((Emphasis::Heading, table.heading));
    lines.extend(table.rows.into_iter().skip(from).take(rows).map(|row| (Emphasis::Plain, row)));
}

/// Returns the lines above the sparklines: the aggregator, the state of the fleet, and problems.
fn head(state: &TopState, columns: usize, glyphs: Glyphs, now: Timestamp) -> Vec<(Emphasis, String)> {
    let status = &state.data.status;
    let time = time_of_day(status["now_ms"].as_u64().unwrap_or_default());
    let scope = if status["scope"] == "agent" { "   (this process alone)" } else { "" };
    let title = format!("{time}   {}   {}{scope}", state.data.url, glyphs.label(&status["aggregator"]));
    let mut lines = vec![(Emphasis::Heading, title)];
    if let Some(unheard) = &state.unheard {
        let (since, lasts) = (time_of_day(unheard.since.as_ms()), seconds(now.ms_since(unheard.since) / 1_000));
        lines.push((
            Emphasis::Alarm,
            format!("old data: no answer since {since} ({lasts}): {}", glyphs.text(&unheard.why)),
        ));
    }
    lines.extend(wrapped(facts(state), columns).map(|line| (Emphasis::Plain, line)));
    lines.extend(wrapped(alarms(state, glyphs), columns).map(|line| (Emphasis::Alarm, line)));
    for problem in elements(&status["problems"]) {
        let [part, why] = ["part", "why"].map(|key| glyphs.label(&problem[key]));
        let since = problem["since_ms"].as_u64().map(|since| format!(", since {}", time_of_day(since)));
        lines.push((Emphasis::Alarm, format!("{part}{}: {why}", since.unwrap_or_default())));
    }
    lines
}

fn facts(state: &TopState) -> Vec<String> {
    let status = &state.data.status;
    let agents = status["agents"].as_u64().unwrap_or_default();
    let mut facts = vec![
        format!("{} calls/s", rate(&status["calls_per_s"])),
        format!("{} denied/s", rate(&status["denied_per_s"])),
    ];
    if status["shadow_denied_per_s"].as_f64() > Some(0.0) {
        facts.push(format!("{} in shadow/s", rate(&status["shadow_denied_per_s"])));
    }
    facts.push(status["lag_ms"].as_u64().map_or_else(|| "lag -".to_owned(), |ms| format!("lag {ms} ms")));
    facts.push(if agents == 1 { "1 agent".to_owned() } else { format!("{agents} agents") });
    facts
}

fn alarms(state: &TopState, glyphs: Glyphs) -> Vec<String> {
    let status = &state.data.status;
    let named = |what: &str, names: &serde_json::Value| match elements(names) {
        [] => None,
        [one] => Some(format!("{what} {}", glyphs.label(one))),
        [one, rest @ ..] => Some(format!("{what} {} and {} more", glyphs.label(one), rest.len())),
    };
    let alarms = [
        named("degraded:", &status["degraded_agents"]),
        named("rules refused:", &status["refusing_agents"]),
        status["emergency"].as_str().map(|quota| format!("emergency: {}", glyphs.text(quota))),
        named("silent:", &status["silent"]),
        (status["loading"] == true).then(|| "loading".to_owned()),
    ];
    alarms.into_iter().flatten().collect()
}

/// Joins texts to lines that are not longer than this number of columns, if no text is.
fn wrapped(texts: Vec<String>, columns: usize) -> impl Iterator<Item = String> {
    let mut lines: Vec<String> = Vec::new();
    for text in texts {
        match lines.last_mut() {
            Some(line) if width(line) + 3 + width(&text) <= columns => line.extend(["   ", &*text]),
            _ => lines.push(text),
        }
    }
    lines.into_iter()
}

fn callers_heading(state: &TopState, rows: usize, glyphs: Glyphs) -> String {
    let order = match state.question.order {
        TopOrder::Denied => "by denials",
        TopOrder::Calls => "by calls",
        TopOrder::Near => "by the used part of their quota",
        TopOrder::New => "by first denial",
    };
    let rule = state.question.rule.as_deref().map_or_else(String::new, |rule| format!(", rule {}", glyphs.text(rule)));
    let shown = elements(&state.data.callers["callers"]).iter().skip(state.scroll).take(rows).len();
    let range = if shown == 0 { "none".to_owned() } else { format!("{}-{}", state.scroll + 1, state.scroll + shown) };
    let (minutes, matched) = (state.question.minutes, number(&state.data.callers["matched"]));
    format!("{range} of {matched} callers {order}, last {minutes} min{rule}")
}
