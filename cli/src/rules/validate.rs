//! `tollgate rules validate`: what a rules file means, before any agent reads it.

use std::path::{Path, PathBuf};

use comfy_table::{Table, presets};
use serde_json::{Map, Value, json};
use tollgate::{Rule, RuleSet, RulesFileError, read_rules};
use tollgate_common::algorithm::Algorithm;
use tollgate_common::clock::{Clock, SystemClock};
use tollgate_common::problem::Problem;
use tollgate_common::rule::{Consistency, OnFailure, Terms};
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
            rule.terms.map_or_else(|| "unlimited".to_owned(), |terms| terms.quota.to_string()),
            rule.terms.as_ref().map_or_else(String::new, algorithm),
            rule.terms.map_or("", |terms| consistency(terms.consistency)).to_owned(),
            rule.terms.map_or_else(String::new, |terms| on_failure(terms.on_failure)),
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
    let terms = rule.terms;
    let (name, estimate, sub_windows) = match terms.map(|terms| terms.algorithm) {
        Some(Algorithm::SlidingWindow(estimate)) => {
            ("sliding_window", Some(estimated(estimate)), terms.map(|terms| terms.window.parts()))
        }
        Some(other) => (name_of(other), None, None),
        None => ("unlimited", None, None),
    };
    json!({
        "name": *rule.name,
        "match": matches,
        "per": rule.per.iter().map(|name| &**name).collect::<Vec<_>>(),
        "quota": terms.map(|terms| terms.quota.to_string()),
        "units": terms.map(|terms| terms.quota.units()),
        "window_ms": terms.map(|terms| terms.quota.width_ms()),
        "algorithm": name,
        "sub_windows": sub_windows,
        "estimate": estimate,
        "consistency": terms.map(|terms| consistency(terms.consistency)),
        "on_failure": terms.map(|terms| on_failure(terms.on_failure)),
        "deadline_ms": terms.map(|terms| u64::try_from(terms.deadline.as_millis()).unwrap_or(u64::MAX)),
    })
}

fn name_of(algorithm: Algorithm) -> &'static str {
    match algorithm {
        Algorithm::SlidingWindow(_) => "sliding_window",
        Algorithm::SlidingLog => "sliding_log",
        Algorithm::FixedWindow => "fixed_window",
        Algorithm::TokenBucket => "token_bucket",
        Algorithm::LeakyBucket => "leaky_bucket",
        Algorithm::Concurrency => "concurrency",
    }
}

fn algorithm(terms: &Terms) -> String {
    match terms.algorithm {
        Algorithm::SlidingLog => "sliding_log, exact".to_owned(),
        Algorithm::SlidingWindow(estimate) => {
            let (parts, part_ms) = (terms.window.parts(), terms.window.part_ms());
            let part = if part_ms % 1_000 == 0 { format!("{} s", part_ms / 1_000) } else { format!("{part_ms} ms") };
            format!("sliding_window, {parts} x {part}, {}", estimated(estimate))
        }
        other => name_of(other).to_owned(),
    }
}

fn estimated(estimate: Estimate) -> &'static str {
    match estimate {
        Estimate::Interpolated => "interpolated",
        Estimate::Conservative | Estimate::Ignored => "conservative",
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
