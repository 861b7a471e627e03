//! `tollgate rules validate`: what a rules file means, before any agent reads it.

use std::path::{Path, PathBuf};

use comfy_table::{Table, presets};
use serde_json::{Map, Value, json};
use tollgate::{Rule, RuleSet, RulesFileError, read_rules};
use tollgate_common::algorithm::Algorithm;
use tollgate_common::clock::{Clock, SystemClock};
use tollgate_common::problem::Problem;
use tollgate_common::rule::{Consistency, OnFailure};
use tollgate_common::window::Estimate;

use crate::exit::Exit;
use crate::output::{self, Format};

/// Says what a rules file means, or what is wrong with it and where
///
/// Exit code: 0 valid, 2 not.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The rules, as YAML
    file: PathBuf,
    /// How to print them
    #[arg(long, env = "TOLLGATE_FORMAT", hide_env_values = true, default_value = "text")]
    format: Format,
}

pub(crate) fn run(Args { file, format }: &Args) -> anyhow::Result<Exit> {
    let read = read_rules(file, SystemClock::start().now());
    match (&read, format) {
        (Ok(set), Format::Text) => output::say(table(set))?,
        (Ok(set), Format::Json) => output::say(valid(set))?,
        (Err(RulesFileError::Invalid(error)), Format::Json) => {
            output::say(invalid(&error.problems))?;
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
    let count = |count: usize, word: &str| format!("{count} {word}{}", if count == 1 { "" } else { "s" });
    format!("{}: valid, {}, {}", file.display(), count(set.rules.len(), "rule"), count(set.warnings.len(), "warning"))
}

fn table(set: &RuleSet) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    table.set_header(["RULE", "MATCH", "PER", "QUOTA", "ALGORITHM", "CONSISTENCY", "ON FAILURE"]);
    for rule in &set.rules {
        let matches: Vec<String> = rule.matches.iter().map(|(name, pattern)| format!("{name}={pattern}")).collect();
        let matches = if matches.is_empty() { "every call".to_owned() } else { matches.join(" ") };
        let per = if rule.per.is_empty() { "(one counter)".to_owned() } else { rule.per.join(", ") };
        table.add_row([
            rule.name.to_string(),
            matches,
            per,
            rule.quota.to_string(),
            algorithm(rule),
            consistency(rule.consistency).to_owned(),
            on_failure(rule.on_failure),
        ]);
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    table
}

fn valid(set: &RuleSet) -> Value {
    let rules: Vec<Value> = set.rules.iter().map(|rule| of_rule(rule)).collect();
    json!({ "valid": true, "rules": rules, "warnings": problems(&set.warnings) })
}

fn invalid(found: &[Problem]) -> Value {
    json!({ "valid": false, "problems": problems(found) })
}

fn problems(found: &[Problem]) -> Vec<Value> {
    found.iter().map(|problem| json!({ "place": problem.place, "text": problem.text })).collect()
}

fn of_rule(rule: &Rule) -> Value {
    let matches: Map<String, Value> =
        rule.matches.iter().map(|(name, pattern)| (name.to_string(), pattern.to_string().into())).collect();
    let (name, estimate, sub_windows) = match rule.algorithm {
        Algorithm::SlidingWindow(estimate) => ("sliding_window", Some(estimated(estimate)), Some(rule.window.parts())),
        Algorithm::SlidingLog => ("sliding_log", None, None),
    };
    json!({
        "name": *rule.name,
        "match": matches,
        "per": rule.per.iter().map(|name| &**name).collect::<Vec<_>>(),
        "quota": rule.quota.to_string(),
        "units": rule.quota.units(),
        "window_ms": rule.quota.width_ms(),
        "algorithm": name,
        "sub_windows": sub_windows,
        "estimate": estimate,
        "consistency": consistency(rule.consistency),
        "on_failure": on_failure(rule.on_failure),
        "deadline_ms": u64::try_from(rule.deadline.as_millis()).unwrap_or(u64::MAX),
    })
}

fn algorithm(rule: &Rule) -> String {
    match rule.algorithm {
        Algorithm::SlidingLog => "sliding_log, exact".to_owned(),
        Algorithm::SlidingWindow(estimate) => {
            let (parts, part_ms) = (rule.window.parts(), rule.window.part_ms());
            let part = if part_ms % 1_000 == 0 { format!("{} s", part_ms / 1_000) } else { format!("{part_ms} ms") };
            format!("sliding_window, {parts} x {part}, {}", estimated(estimate))
        }
    }
}

fn estimated(estimate: Estimate) -> &'static str {
    match estimate {
        Estimate::Interpolated => "interpolated",
        Estimate::Conservative => "conservative",
    }
}

fn consistency(consistency: Consistency) -> &'static str {
    match consistency {
        Consistency::Strict => "strict",
        Consistency::Bounded => "bounded",
    }
}

fn on_failure(on_failure: OnFailure) -> String {
    match on_failure {
        OnFailure::Share => "share".to_owned(),
        OnFailure::Open => "open".to_owned(),
        OnFailure::Closed => "closed".to_owned(),
        OnFailure::Limit(quota) => format!("limit {quota}"),
    }
}
