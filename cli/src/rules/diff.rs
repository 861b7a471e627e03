//! `tollgate rules diff`: compares the rules that two files enforce.
//!
//! The compared settings come from the table in `tollgate-rules`.

use std::fmt;
use std::path::PathBuf;

use comfy_table::Table;
use serde_json::{Value, json};
use tollgate::{Rule, RuleSet, read_rules};
use tollgate_core::clock::{Clock, SystemClock};
use tollgate_core::counter::DigestKey;
use tollgate_core::rules::{LimitPolicy, Matches, Quota};
use tollgate_rules::{display, settings};

use crate::exit::Exit;
use crate::output::{self, Format, table};

/// Compares the rules that two files enforce
///
/// Two spellings of the same rule are equal. Keys are shown cut. Exit code: 0 both files are valid, 2 one is not.
#[derive(clap::Args)]
pub(crate) struct DiffArgs {
    /// The rules in force, as YAML
    from: PathBuf,
    /// The new rules, as YAML
    to: PathBuf,
    /// Format of the output
    #[arg(long, default_value = "text")]
    format: Format,
}

pub(crate) fn run(args: &DiffArgs) -> anyhow::Result<Exit> {
    let now = SystemClock::start().now();
    let (from, to) = (read_rules(&args.from, now)?, read_rules(&args.to, now)?);
    let changes = changes(&from, &to);
    match args.format {
        Format::Text if changes.is_empty() => output::say("Both enforce the same.")?,
        Format::Text => output::say(changes_table(&changes))?,
        Format::Json => {
            let changes: Vec<Value> = changes.iter().map(Difference::json).collect();
            output::say(json!({ "same": changes.is_empty(), "changes": changes }))?;
        }
    }
    Ok(Exit::Done)
}

/// One difference between two rule sets.
struct Difference {
    /// Part of the file, such as `rule per-key` or `lists.deny`.
    what: String,
    field: String,
    from: Option<String>,
    to: Option<String>,
    /// Consequence of the change.
    note: &'static str,
}

/// Names and texts of everything that is enforced.
type EnforcedFields = Vec<(String, String)>;

impl Difference {
    fn json(&self) -> Value {
        json!({ "what": self.what, "field": self.field, "from": self.from, "to": self.to, "note": self.note })
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.from, &self.to) {
            (Some(from), Some(to)) => write!(f, "{from} -> {to}"),
            (Some(from), None) => write!(f, "{from} -> (none)"),
            (None, Some(to)) => write!(f, "(none) -> {to}"),
            (None, None) => Ok(()),
        }
    }
}

fn changes_table(changes: &[Difference]) -> Table {
    let rows = changes
        .iter()
        .map(|change| [change.what.clone(), change.field.clone(), change.to_string(), change.note.into()]);
    table(&["WHAT", "FIELD", "CHANGE", "NOTE"], rows)
}

fn changes(from: &RuleSet, to: &RuleSet) -> Vec<Difference> {
    let mut changes = Vec::new();
    for rule in &from.rules {
        let what = format!("rule {}", rule.name);
        match to.rules.iter().find(|other| other.name == rule.name) {
            Some(other) => compare(&mut changes, &what, &of_rule(from, rule), &of_rule(to, other)),
            None => changes.push(whole(what, Some(settings::allowed(rule, rule.policy.as_ref())), None, "removed")),
        }
    }
    let added = to.rules.iter().filter(|rule| from.rules.iter().all(|other| other.name != rule.name));
    changes.extend(added.map(|rule| {
        let what = format!("rule {}", rule.name);
        whole(what, None, Some(settings::allowed(rule, rule.policy.as_ref())), "added")
    }));
    // Among equally specific rules of a group the first applies.
    let order = |set: &RuleSet, other: &RuleSet| -> EnforcedFields {
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

fn whole(what: String, from: Option<String>, to: Option<String>, note: &'static str) -> Difference {
    Difference { what, field: String::new(), from, to, note }
}

fn compare(changes: &mut Vec<Difference>, what: &str, from: &EnforcedFields, to: &EnforcedFields) {
    let find = |fields: &EnforcedFields, field: &str| {
        fields.iter().find(|(name, _)| name == field).map(|(_, value)| value.clone())
    };
    let added = to.iter().filter(|(field, _)| find(from, field).is_none());
    for (field, _) in from.iter().chain(added) {
        let (before, after) = (find(from, field), find(to, field));
        if before != after {
            let note = note(field, before.as_deref(), after.as_deref());
            changes.push(Difference { what: what.to_owned(), field: field.clone(), from: before, to: after, note });
        }
    }
}

fn listed(changes: &mut Vec<Difference>, what: &str, from: &[Matches], to: &[Matches]) {
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

fn of_set(set: &RuleSet) -> EnforcedFields {
    let mut fields = EnforcedFields::new();
    fields.extend(set.slot_by.as_ref().map(|name| ("slot_by".to_owned(), name.to_string())));
    fields
        .extend(set.descriptors.iter().map(|spec| (format!("descriptor `{}`", spec.name), display::descriptor(spec))));
    fields
}

fn of_rule(set: &RuleSet, rule: &Rule) -> EnforcedFields {
    let own = settings::rule_texts(rule).into_iter();
    let mut fields: EnforcedFields = own.map(|(name, text)| (name.to_owned(), text)).collect();
    if rule.deny {
        fields.push(("quota".to_owned(), settings::allowed(rule, None)));
        return fields;
    }
    add_policy(&mut fields, "", rule.policy.as_ref());
    for (tier, policy) in &rule.by_tier {
        add_policy(&mut fields, &format!("tier {tier}: "), policy.as_ref());
    }
    let (key, secret) = (DigestKey::default(), rule.per.first().is_some_and(|name| set.is_secret(name)));
    let mut keys: Vec<_> = rule.by_key.iter().collect();
    keys.sort_unstable_by_key(|(key, _)| *key);
    for (name, policy) in keys {
        add_policy(&mut fields, &format!("key {}: ", key.shown(name, secret)), policy.as_ref());
    }
    fields
}

fn add_policy(fields: &mut EnforcedFields, prefix: &str, policy: Option<&LimitPolicy>) {
    fields.extend(settings::policy_texts(policy).into_iter().map(|(name, text)| (format!("{prefix}{name}"), text)));
}
