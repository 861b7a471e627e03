//! `tollgate rules validate`: what a rules file means, before any agent reads it.

use std::path::{Path, PathBuf};

use comfy_table::{Table, presets};
use serde_json::{Map, Value, json};
use tollgate::explain::terms_json;
use tollgate::{Rule, RuleSet, RulesFileError, read_rules};
use tollgate_core::clock::{Clock, SystemClock};
use tollgate_core::rules::problem::Problem;
use tollgate_core::rules::{Charging, LimitPolicy, Matches, display};

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
        (Ok(set), Format::Text) => output::say(text(set))?,
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
    let (rules, warnings) = (count(set.rules.len(), "rule"), count(set.warnings.len(), "warning"));
    format!("{}: valid, {rules}, {warnings}", file.display())
}

fn count(count: usize, word: &str) -> String {
    format!("{count} {word}{}", if count == 1 { "" } else { "s" })
}

fn text(set: &RuleSet) -> String {
    let mut text = rules(set).to_string();
    let entries = |name: &'static str, list: &[Matches]| -> Vec<[String; 2]> {
        list.iter().map(|entry| [name.to_owned(), display::matches(entry)]).collect()
    };
    let listed = [entries("allow", &set.lists.allow), entries("deny", &set.lists.deny)].concat();
    if !listed.is_empty() {
        let mut table = plain(&["LIST", "WHO"]);
        table.add_rows(listed);
        text = format!("{text}\n\n{}", padded(table));
    }
    text
}

/// A row for each rule, and one for each tier that has other policy. What few rules say is a column only where one does.
fn rules(set: &RuleSet) -> Table {
    let more: Vec<String> = set.rules.iter().map(|rule| more(rule)).collect();
    let with_more = more.iter().any(|more| !more.is_empty());
    let mut header = vec!["RULE", "MATCH", "PER", "QUOTA", "ALGORITHM", "CONSISTENCY", "ON FAILURE"];
    header.extend(with_more.then_some("MORE"));
    let mut table = plain(&header);
    for (rule, more) in set.rules.iter().zip(more) {
        let mut row = vec![rule.name.to_string(), display::matches(&rule.matches), display::per(rule)];
        row.extend(of_terms(rule, rule.policy.as_ref()));
        row.extend(with_more.then_some(more));
        table.add_row(row);
        for (tier, policy) in &rule.by_tier {
            let mut row = vec![format!("  tier {tier}"), String::new(), String::new()];
            row.extend(of_terms(rule, policy.as_ref()));
            table.add_row(row);
        }
    }
    padded(table)
}

fn plain(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_header(header);
    table
}

fn padded(mut table: Table) -> Table {
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    table
}

fn of_terms(rule: &Rule, policy: Option<&LimitPolicy>) -> [String; 4] {
    let Some(policy) = policy else {
        return [display::allowed(rule, None), String::new(), String::new(), String::new()];
    };
    let algorithm = match display::burst(policy) {
        Some(burst) => format!("{}, burst {burst}", display::algorithm(policy)),
        None => display::algorithm(policy),
    };
    let consistency = display::consistency(policy.consistency).to_owned();
    [display::quota(Some(policy)), algorithm, consistency, display::on_failure(policy.on_failure)]
}

fn more(rule: &Rule) -> String {
    let mut parts: Vec<String> = Vec::new();
    parts.extend(rule.quota_from.as_ref().map(|name| format!("quota from {name}")));
    parts.extend((!rule.by_key.is_empty()).then(|| count(rule.by_key.len(), "key")));
    parts.extend(rule.group.as_ref().map(|group| format!("group {group}")));
    parts.extend(display::cost(rule).map(|cost| format!("cost {cost}")));
    parts.extend((rule.charge != Charging::default()).then(|| format!("charge {}", display::charge(rule.charge))));
    parts.extend(rule.shadow.then(|| "shadow".to_owned()));
    parts.extend((!rule.replaces.is_empty()).then(|| format!("replaces {}", rule.replaces.join(", "))));
    parts.join("; ")
}

fn valid(set: &RuleSet) -> Value {
    let rules: Vec<Value> = set.rules.iter().map(|rule| of_rule(rule)).collect();
    let list = |list: &[Matches]| -> Vec<Value> { list.iter().map(of_matches).collect() };
    json!({
        "valid": true,
        "slot_by": set.slot_by.as_deref(),
        "rules": rules,
        "lists": { "allow": list(&set.lists.allow), "deny": list(&set.lists.deny) },
        "warnings": problems(&set.warnings),
    })
}

fn invalid(found: &[Problem]) -> Value {
    json!({ "valid": false, "problems": problems(found) })
}

fn problems(found: &[Problem]) -> Vec<Value> {
    found.iter().map(|problem| json!({ "place": problem.place, "text": problem.text })).collect()
}

fn of_matches(matches: &Matches) -> Value {
    matches.iter().map(|(name, pattern)| (name.to_string(), pattern.to_string().into())).collect::<Map<_, _>>().into()
}

fn of_rule(rule: &Rule) -> Value {
    let tiers: Map<String, Value> =
        rule.by_tier.iter().map(|(tier, policy)| (tier.to_string(), terms_json(policy.as_ref()).into())).collect();
    let costs = rule.costs.as_ref().map(|(name, table)| {
        let table: Vec<_> =
            table.iter().map(|(pattern, cost)| json!({ "match": pattern.to_string(), "cost": cost })).collect();
        json!({ "by": **name, "table": table })
    });
    let mut all = json!({
        "name": *rule.name,
        "match": of_matches(&rule.matches),
        "per": rule.per.iter().map(|name| &**name).collect::<Vec<_>>(),
        "tiers": tiers,
        "keys": rule.by_key.len(),
        "quota_from": rule.quota_from.as_deref(),
        "group": rule.group.as_deref(),
        "cost": rule.cost,
        "costs": costs,
        "charge": display::charge(rule.charge),
        "deny": rule.deny,
        "shadow": rule.shadow,
        "replaces": rule.replaces.iter().map(|name| &**name).collect::<Vec<_>>(),
    });
    if let Some(all) = all.as_object_mut() {
        all.extend(terms_json(rule.policy.as_ref()));
        if rule.deny {
            all.insert("algorithm".to_owned(), "deny".into());
        }
    }
    all
}
