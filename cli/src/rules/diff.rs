//! `tollgate rules diff`: what changes in force when one rules file takes the place of another.

use std::fmt;
use std::path::PathBuf;

use comfy_table::{Table, presets};
use serde_json::{Value, json};
use tollgate::{Rule, RuleSet, read_rules};
use tollgate_core::clock::{Clock, SystemClock};
use tollgate_core::counter::DigestKey;
use tollgate_core::rules::{LimitPolicy, Matches, Quota, display};

use crate::exit::Exit;
use crate::output::{self, Format};

/// Says what changes when one rules file takes the place of another
///
/// Compared is what is enforced, not how it is written. Keys are shown cut. Exit code: 0 both were read, whether they differ
/// or not; 2 one is not valid.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The rules in force, as YAML
    from: PathBuf,
    /// The rules to come
    to: PathBuf,
    /// How to print it
    #[arg(long, env = "TOLLGATE_FORMAT", hide_env_values = true, default_value = "text")]
    format: Format,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let now = SystemClock::start().now();
    let (from, to) = (read_rules(&args.from, now)?, read_rules(&args.to, now)?);
    let changes = changes(&from, &to);
    match args.format {
        Format::Text if changes.is_empty() => output::say("Both enforce the same.")?,
        Format::Text => output::say(table(&changes))?,
        Format::Json => {
            let changes: Vec<Value> = changes.iter().map(Change::json).collect();
            output::say(json!({ "same": changes.is_empty(), "changes": changes }))?;
        }
    }
    Ok(Exit::Done)
}

/// One thing that is other than before.
struct Change {
    /// `rule per-key`, `lists`.
    what: String,
    field: String,
    from: Option<String>,
    to: Option<String>,
    /// What it means.
    note: &'static str,
}

/// What is enforced, field by field.
type Fields = Vec<(String, String)>;

impl Change {
    fn json(&self) -> Value {
        json!({ "what": self.what, "field": self.field, "from": self.from, "to": self.to, "note": self.note })
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.from, &self.to) {
            (Some(from), Some(to)) => write!(f, "{from} -> {to}"),
            (Some(from), None) => write!(f, "{from} -> (none)"),
            (None, Some(to)) => write!(f, "(none) -> {to}"),
            (None, None) => Ok(()),
        }
    }
}

fn table(changes: &[Change]) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_header(["WHAT", "FIELD", "CHANGE", "NOTE"]);
    for change in changes {
        table.add_row([&change.what, &change.field, &change.to_string(), change.note]);
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    table
}

fn changes(from: &RuleSet, to: &RuleSet) -> Vec<Change> {
    let mut changes = Vec::new();
    for rule in &from.rules {
        let what = format!("rule {}", rule.name);
        match to.rules.iter().find(|other| other.name == rule.name) {
            Some(other) => compare(&mut changes, &what, &of_rule(from, rule), &of_rule(to, other)),
            None => changes.push(whole(what, Some(display::allowed(rule, rule.policy.as_ref())), None, "removed")),
        }
    }
    let added = to.rules.iter().filter(|rule| from.rules.iter().all(|other| other.name != rule.name));
    changes.extend(added.map(|rule| {
        let what = format!("rule {}", rule.name);
        whole(what, None, Some(display::allowed(rule, rule.policy.as_ref())), "added")
    }));
    // Among equals of a group the first counts.
    let order = |set: &RuleSet, other: &RuleSet| -> Fields {
        let both = set.rules.iter().filter(|rule| other.rules.iter().any(|found| found.name == rule.name));
        let names: Vec<&str> = both.map(|rule| &*rule.name).collect();
        vec![("order".to_owned(), names.join(", "))]
    };
    compare(&mut changes, "rules", &order(from, to), &order(to, from));
    compare(&mut changes, "file", &of_set(from), &of_set(to));
    listed(&mut changes, "lists.allow", &from.lists.allow, &to.lists.allow);
    listed(&mut changes, "lists.deny", &from.lists.deny, &to.lists.deny);
    changes
}

fn whole(what: String, from: Option<String>, to: Option<String>, note: &'static str) -> Change {
    Change { what, field: String::new(), from, to, note }
}

fn compare(changes: &mut Vec<Change>, what: &str, from: &Fields, to: &Fields) {
    let find =
        |fields: &Fields, field: &str| fields.iter().find(|(name, _)| name == field).map(|(_, value)| value.clone());
    let added = to.iter().filter(|(field, _)| find(from, field).is_none());
    for (field, _) in from.iter().chain(added) {
        let (before, after) = (find(from, field), find(to, field));
        if before != after {
            let note = note(field, before.as_deref(), after.as_deref());
            changes.push(Change { what: what.to_owned(), field: field.clone(), from: before, to: after, note });
        }
    }
}

fn listed(changes: &mut Vec<Change>, what: &str, from: &[Matches], to: &[Matches]) {
    let removed = from.iter().filter(|entry| !to.contains(entry));
    let added = to.iter().filter(|entry| !from.contains(entry));
    changes.extend(removed.map(|entry| whole(what.to_owned(), Some(display::matches(entry)), None, "removed")));
    changes.extend(added.map(|entry| whole(what.to_owned(), None, Some(display::matches(entry)), "added")));
}

fn note(field: &str, from: Option<&str>, to: Option<&str>) -> &'static str {
    match field.rsplit(' ').next().unwrap_or(field) {
        "quota" => raised_or_lowered(from, to),
        "algorithm" => "counts are carried over",
        "slot_by" | "per" => "counters start anew",
        "order" => "of equally specific rules of a group the first counts",
        _ => "",
    }
}

fn raised_or_lowered(from: Option<&str>, to: Option<&str>) -> &'static str {
    let rate = |text: Option<&str>| match text {
        Some("unlimited") => Some((1, 0)),
        text => text?.parse().ok().map(|quota: Quota| (u128::from(quota.units()), u128::from(quota.width_ms()))),
    };
    let (Some((units, ms)), Some((more, other_ms))) = (rate(from), rate(to)) else {
        return "";
    };
    match (more * ms).cmp(&(units * other_ms)) {
        std::cmp::Ordering::Greater => "raised",
        std::cmp::Ordering::Less => "lowered",
        std::cmp::Ordering::Equal => "the same rate",
    }
}

fn of_set(set: &RuleSet) -> Fields {
    let mut fields = Fields::new();
    fields.extend(set.slot_by.as_ref().map(|name| ("slot_by".to_owned(), name.to_string())));
    fields
        .extend(set.descriptors.iter().map(|spec| (format!("descriptor `{}`", spec.name), display::descriptor(spec))));
    fields
}

fn of_rule(set: &RuleSet, rule: &Rule) -> Fields {
    let mut fields = Fields::new();
    let mut add = |field: &str, value: String| fields.push((field.to_owned(), value));
    add("match", display::matches(&rule.matches));
    add("per", display::per(rule));
    if let Some(group) = &rule.group {
        add("group", group.to_string());
    }
    if let Some(name) = &rule.quota_from {
        add("quota.from", name.to_string());
    }
    if let Some(cost) = display::cost(rule) {
        add("cost", cost);
    }
    add("charge", display::charge(rule.charge).to_owned());
    add("shadow", rule.shadow.to_string());
    if !rule.replaces.is_empty() {
        add("replaces", rule.replaces.join(", "));
    }
    if rule.deny {
        add("quota", display::allowed(rule, None));
        return fields;
    }
    of_terms(&mut fields, "", rule.policy.as_ref());
    for (tier, policy) in &rule.by_tier {
        of_terms(&mut fields, &format!("tier {tier}: "), policy.as_ref());
    }
    let (key, secret) = (DigestKey::default(), rule.per.first().is_some_and(|name| set.is_secret(name)));
    let mut keys: Vec<_> = rule.by_key.iter().collect();
    keys.sort_unstable_by_key(|(key, _)| *key);
    for (name, policy) in keys {
        of_terms(&mut fields, &format!("key {}: ", key.shown(name, secret)), policy.as_ref());
    }
    fields
}

fn of_terms(fields: &mut Fields, whose: &str, policy: Option<&LimitPolicy>) {
    let mut add = |field: &str, value: String| fields.push((format!("{whose}{field}"), value));
    add("quota", display::quota(policy));
    let Some(policy) = policy else { return };
    add("algorithm", display::algorithm(policy));
    if let Some(burst) = display::burst(policy) {
        add("burst", burst);
    }
    add("consistency", display::consistency(policy.consistency).to_owned());
    add("on_failure", display::on_failure(policy.on_failure));
    add("deadline", format!("{} ms", policy.deadline.as_millis()));
}
