//! Report of a replay, as text and as JSON.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use comfy_table::Table;
use serde::{Serialize, Serializer};
use tollgate::Rule;
use tollgate_core::clock::Timestamp;
use tollgate_core::one_line::one_line;
use tollgate_rules::settings::{QUOTA_COLUMN, Shown};

use super::agents::ReplayFleet;
use super::input::BadLine;
use crate::figures::{count, percent, plain_table, wrapped};

const BARS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Report of a replay.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ReplayReport {
    /// Calls read.
    pub calls: u64,
    /// Calls that every rule admitted.
    pub admitted: u64,
    /// Calls that a rule denied.
    pub denied: u64,
    /// Time of the first call.
    #[serde(serialize_with = "rfc3339")]
    pub from: Timestamp,
    /// Time of the last call.
    #[serde(serialize_with = "rfc3339")]
    pub to: Timestamp,
    /// Calls by the format of their lines.
    pub formats: BTreeMap<String, u64>,
    /// Lines that are not calls.
    pub bad_lines: u64,
    /// First few bad lines.
    pub bad_lines_shown: Vec<BadLine>,
    /// Messages of servers between the calls.
    pub messages: u64,
    /// Calls that are more than five minutes older than one before them.
    pub disordered: u64,
    /// Sentences about clients and times that may be wrong.
    pub warnings: Vec<String>,
    /// The simulated fleet; nothing if one agent with its own table has answered.
    #[serde(flatten)]
    pub fleet: Option<ReplayFleet>,
    /// Figures by rule.
    pub rules: Vec<RuleReport>,
    /// Number of counters that denied a call.
    pub limited_callers: u64,
    /// Counters with the most denials.
    pub most_limited: Vec<CallerReport>,
    /// Calls and denials over time.
    pub timeline: ReplayTimeline,
}

/// Numbers of calls and denials in equal parts of the time of a log.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ReplayTimeline {
    /// Width of a column, in ms.
    pub column_ms: u64,
    /// Calls and denials per column.
    pub columns: Vec<(u64, u64)>,
}

/// Figures of one rule.
#[derive(Clone, Debug, Default, Serialize)]
pub struct RuleReport {
    /// Name of the rule.
    pub name: String,
    /// Quota of the rule.
    pub quota: String,
    /// Calls to which the rule applies.
    pub calls: u64,
    /// Admitted calls among these.
    pub admitted: u64,
    /// Calls among these that this rule denied.
    pub denied: u64,
    /// Number of counters of the rule.
    pub counters: u64,
    /// Calls admitted with more than the quota in the window that ends with them.
    pub over_admitted: u64,
    /// Calls that this rule denied although the window had room.
    pub under_admitted: u64,
    /// Units of the fullest window of a counter.
    pub worst_window: u64,
    /// Numbers of calls by the reason why the rule does not apply, if it applies to none.
    pub idle_reasons: BTreeMap<String, u64>,
}

/// Figures of one caller.
#[derive(Clone, Debug, Serialize)]
pub struct CallerReport {
    /// Values that select the counter.
    pub caller: String,
    /// Rule of the counter.
    pub rule: Arc<str>,
    /// Calls on the counter.
    pub calls: u64,
    /// Calls that the counter denied.
    pub denied: u64,
}

impl RuleReport {
    pub(super) fn new(rule: &Rule) -> Self {
        Self {
            name: rule.name.to_string(),
            quota: Shown::of_policy(rule, rule.policy.as_ref()).cell(QUOTA_COLUMN),
            ..Self::default()
        }
    }
}

impl fmt::Display for ReplayReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.calls == 0 {
            writeln!(f, "no calls")?;
        } else {
            writeln!(
                f,
                "{} calls from {} to {}:\n{} admitted, {} denied ({})",
                count(self.calls),
                utc(self.from),
                utc(self.to),
                count(self.admitted),
                count(self.denied),
                percent(self.denied, self.calls)
            )?;
        }
        if let Some(fleet) = &self.fleet {
            writeln!(f, "{fleet}")?;
        }
        if self.bad_lines > 0 {
            match self.bad_lines {
                1 => writeln!(f, "1 line could not be read:")?,
                lines => writeln!(f, "{} lines could not be read, the first of them:", count(lines))?,
            }
            for bad in &self.bad_lines_shown {
                writeln!(f, "{}", wrapped(&one_line(&format!("{}: {}", bad.place, bad.reason))))?;
            }
        }
        for warning in &self.warnings {
            writeln!(f, "{}", wrapped(&one_line(&format!("warning: {warning}"))))?;
        }
        writeln!(f, "\n{}", self.rules_table().trim_fmt())?;
        for rule in self.rules.iter().filter(|rule| rule.calls == 0 && self.calls > 0) {
            let reasons: Vec<_> =
                rule.idle_reasons.iter().map(|(reason, calls)| format!("{} {reason}", count(*calls))).collect();
            let text = format!("rule {} applies to none of these calls: {}", rule.name, reasons.join(", "));
            writeln!(f, "{}", wrapped(&text))?;
        }
        if !self.most_limited.is_empty() {
            writeln!(f, "\nmost limited of {} limited callers", count(self.limited_callers))?;
            writeln!(f, "{}", self.callers_table().trim_fmt())?;
        }
        if self.calls > 0 {
            let ReplayTimeline { column_ms, columns } = &self.timeline;
            let most = columns.iter().map(|(calls, _)| *calls).max().unwrap_or(0);
            writeln!(f, "\ntimeline, {} a column, at most {} calls in one", duration(*column_ms), count(most))?;
            let bars = |of: fn(&(u64, u64)) -> u64| columns.iter().map(|x| bar(of(x), most)).collect::<String>();
            writeln!(f, "  calls   {}", bars(|column| column.0))?;
            writeln!(f, "  denied  {}", bars(|column| column.1))?;
        }
        Ok(())
    }
}

impl ReplayReport {
    fn rules_table(&self) -> Table {
        let mut table = plain_table(
            &["rule", "quota", "calls", "admitted", "denied", "counters", "over-\nadmitted", "under-\nadmitted"],
            2,
        );
        for rule in &self.rules {
            let figures =
                [rule.calls, rule.admitted, rule.denied, rule.counters, rule.over_admitted, rule.under_admitted];
            table.add_row([rule.name.clone(), rule.quota.clone()].into_iter().chain(figures.map(count)));
        }
        table
    }

    fn callers_table(&self) -> Table {
        let mut table = plain_table(&["caller", "rule", "calls", "denied", ""], 2);
        for caller in &self.most_limited {
            table.add_row([
                one_line(&caller.caller).into_owned(),
                caller.rule.to_string(),
                count(caller.calls),
                count(caller.denied),
                percent(caller.denied, caller.calls),
            ]);
        }
        table
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn rfc3339<S: Serializer>(at: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
    let instant = i64::try_from(at.as_ms()).ok().and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok());
    serializer.serialize_str(&instant.map_or_else(String::new, |instant| instant.to_string()))
}

pub(super) fn utc(at: Timestamp) -> String {
    let instant = i64::try_from(at.as_ms()).ok().and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok());
    instant.map_or_else(|| format!("{} ms", at.as_ms()), |instant| instant.strftime("%F %T UTC").to_string())
}

fn duration(ms: u64) -> String {
    let seconds = ms / 1_000;
    match (seconds / 86_400, seconds / 3_600 % 24, seconds / 60 % 60, seconds % 60) {
        (0, 0, 0, s) => format!("{s} s"),
        (0, 0, m, s) => format!("{m} min {s} s"),
        (0, h, m, _) => format!("{h} h {m} min"),
        (d, h, _, _) => format!("{d} d {h} h"),
    }
}

/// Returns a bar whose height is the share of the largest value. Every value above 0 is visible.
fn bar(value: u64, most: u64) -> char {
    let step = (value * 8).div_ceil(most.max(1));
    BARS[usize::try_from(step).unwrap_or(0).min(8)]
}
