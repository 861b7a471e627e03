//! `tollgate rules validate`: checks a rules file and shows the rules that it contains.
//!
//! Columns and JSON fields come from the table of settings in `tollgate-rules`.

use std::path::{Path, PathBuf};

use comfy_table::Table;
use serde_json::{Value, json};
use tollgate::{Rule, RuleSet, RulesFileError, read_rules};
use tollgate_core::clock::{Clock, SystemClock};
use tollgate_core::rules::Matches;
use tollgate_core::rules::problem::Problem;
use tollgate_rules::display;
use tollgate_rules::settings::{self, Shown};

use crate::exit::Exit;
use crate::output::{self, Format, table};

/// Shows the rules of a file, or its problems with their lines
///
/// Exit code: 0 valid, 2 not.
#[derive(clap::Args)]
pub(crate) struct ValidateArgs {
    /// The rules, as YAML
    file: PathBuf,
    /// Format of the output
    #[arg(long, default_value = "text")]
    format: Format,
}

pub(crate) fn run(ValidateArgs { file, format }: &ValidateArgs) -> anyhow::Result<Exit> {
    let read = read_rules(file, SystemClock::start().now());
    match (&read, format) {
        (Ok(set), Format::Text) => output::say(text(set))?,
        (Ok(set), Format::Json) => output::say(valid_json(set))?,
        (Err(RulesFileError::Invalid(error)), Format::Json) => {
            output::say(json!({ "valid": false, "problems": problems_json(&error.problems) }))?;
        }
        (Err(_), _) => {}
    }
    let set = read?;
    for warning in &set.warnings {
        eprintln!("warning: {warning}");
    }
    eprintln!("{}", summary(file, &set));
    Ok(Exit::Done)
}

fn summary(file: &Path, set: &RuleSet) -> String {
    let count = |count: usize, noun: &str| format!("{count} {noun}{}", if count == 1 { "" } else { "s" });
    let (rules, warnings) = (count(set.rules.len(), "rule"), count(set.warnings.len(), "warning"));
    format!("{}: valid, {rules}, {warnings}", file.display())
}

fn text(set: &RuleSet) -> String {
    let entries = |name: &'static str, list: &[Matches]| -> Vec<[String; 2]> {
        list.iter().map(|entry| [name.to_owned(), display::matches(entry)]).collect()
    };
    let deny_status = if set.lists.deny.is_empty() && set.rules.iter().all(|rule| !rule.deny) {
        String::new()
    } else {
        format!("\n\nCalls that are denied regardless of their count get status {}.", set.deny_status.code())
    };
    let listed = [entries("allow", &set.lists.allow), entries("deny", &set.lists.deny)].concat();
    let rules = rules_table(set);
    let lists = if listed.is_empty() { String::new() } else { format!("\n\n{}", table(&["LIST", "WHO"], listed)) };
    format!("{rules}{lists}{deny_status}")
}

/// Builds a table with a row for each rule and for each tier with another policy. The last column is left out when it is empty.
fn rules_table(set: &RuleSet) -> Table {
    let mut columns = settings::columns();
    let mut rows: Vec<Vec<String>> = Vec::new();
    for rule in &set.rules {
        let (shown, of_policy) = (Shown::of_rule(rule), Shown::of_policy(rule, rule.policy.as_ref()));
        rows.push(columns.iter().map(|column| shown.cell(column) + &of_policy.cell(column)).collect());
        for (tier, policy) in &rule.by_tier {
            let shown = Shown::of_policy(rule, policy.as_ref());
            let mut row: Vec<String> = columns.iter().map(|column| shown.cell(column)).collect();
            row[0] = format!("  tier {tier}");
            rows.push(row);
        }
    }
    if rows.iter().all(|row| row.last().is_none_or(String::is_empty)) {
        columns.pop();
        for row in &mut rows {
            row.pop();
        }
    }
    table(&columns, rows)
}

fn valid_json(set: &RuleSet) -> Value {
    let list = |list: &[Matches]| -> Vec<Value> { list.iter().map(display::matches_json).collect() };
    json!({
        "valid": true,
        "slot_by": set.slot_by.as_deref(),
        "rules": set.rules.iter().map(|rule| rule_json(rule)).collect::<Vec<_>>(),
        "deny_status": set.deny_status.code(),
        "lists": { "allow": list(&set.lists.allow), "deny": list(&set.lists.deny) },
        "warnings": problems_json(&set.warnings),
    })
}

fn rule_json(rule: &Rule) -> Value {
    let mut fields = Shown::of_rule(rule).json;
    fields.extend(Shown::of_policy(rule, rule.policy.as_ref()).json);
    if rule.deny {
        fields.insert("algorithm".to_owned(), "deny".into());
    }
    fields.into()
}

fn problems_json(problems: &[Problem]) -> Vec<Value> {
    problems.iter().map(|problem| json!({ "place": problem.place, "text": problem.text })).collect()
}
