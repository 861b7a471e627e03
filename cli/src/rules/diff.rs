//! `tollgate rules diff`: compares the rules that two files enforce.
//!
//! The compared settings come from the table in `tollgate-rules`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use comfy_table::Table;
use serde_json::json;
use tollgate::{Rule, RuleSet, read_rules};
use tollgate_command::exit::Exit;
use tollgate_command::output::{self, Format, table};
use tollgate_core::clock::{Clock, SystemClock};
use tollgate_core::rules::Quota;
use tollgate_rules::display;
use tollgate_rules::settings::{QUOTA_COLUMN, Shown};

use super::exceptions::timed_field;

/// Compares the rules that two files enforce
///
/// Two spellings of the same rule are equal. A folder stands for its *.yaml files. Exit code: 0 both files are valid, 2 one is not.
#[derive(clap::Args)]
pub(crate) struct DiffArgs {
    /// The rules in force, as YAML, or a folder
    from: PathBuf,
    /// The new rules, as YAML, or a folder
    to: PathBuf,
    /// Format of the output
    #[arg(long, default_value = "text")]
    format: Format,
}

pub(crate) fn run(args: &DiffArgs) -> anyhow::Result<Exit> {
    let now = SystemClock::start().now();
    let (from, to) = (read_rules(&[&args.from], now)?, read_rules(&[&args.to], now)?);
    let changes = changes(&from, &to);
    match args.format {
        Format::Text if changes.is_empty() => output::say("Both enforce the same.")?,
        Format::Text => output::say(changes_table(&changes))?,
        Format::Json => {
            output::say_json(json!({ "same": changes.is_empty(), "changes": changes }))?;
        }
    }
    Ok(Exit::Done)
}

/// Returns the table of the differences between two rule sets; none if they enforce the same.
pub(super) fn difference_table(from: &RuleSet, to: &RuleSet) -> Option<Table> {
    let changes = changes(from, to);
    (!changes.is_empty()).then(|| changes_table(&changes))
}

#[derive(serde::Serialize)]
struct Difference {
    /// Part of the file, such as `rule per-key` or `lists.deny`.
    what: String,
    field: String,
    from: Option<String>,
    to: Option<String>,
    /// Consequence of the change.
    note: &'static str,
}

/// Names and texts of everything that is enforced. A part as a whole has an empty name.
type EnforcedFields = Vec<(String, String)>;

fn changes_table(changes: &[Difference]) -> Table {
    let text = |side: &Option<String>| side.clone().unwrap_or_else(|| "(none)".to_owned());
    let rows = changes.iter().map(|Difference { what, field, from, to, note }| {
        [what.clone(), field.clone(), format!("{} -> {}", text(from), text(to)), (*note).to_owned()]
    });
    table(&["WHAT", "FIELD", "CHANGE", "NOTE"], rows)
}

fn changes(from: &RuleSet, to: &RuleSet) -> Vec<Difference> {
    let mut changes = Vec::new();
    let find = |set: &RuleSet, name: &str| set.rules.iter().find(|rule| *rule.name == *name).cloned();
    let added = to.rules.iter().filter(|rule| find(from, &rule.name).is_none());
    for rule in from.rules.iter().chain(added) {
        let (before, after) = match (find(from, &rule.name), find(to, &rule.name)) {
            (Some(before), Some(after)) => (of_rule(&before), of_rule(&after)),
            (before, after) => (whole(before.as_deref()), whole(after.as_deref())),
        };
        compare(&mut changes, &format!("rule {}", rule.name), &before, &after);
    }
    // Among equally specific rules of a group the first applies.
    let order = |set: &RuleSet, other: &RuleSet| -> EnforcedFields {
        let both = set.rules.iter().filter(|rule| find(other, &rule.name).is_some());
        let names: Vec<&str> = both.map(|rule| &*rule.name).collect();
        vec![("order".to_owned(), names.join(", "))]
    };
    compare(&mut changes, "rules", &order(from, to), &order(to, from));
    compare(&mut changes, "file", &of_set(from), &of_set(to));
    for (what, from, to) in
        [("lists.allow", &from.lists.allow, &to.lists.allow), ("lists.deny", &from.lists.deny, &to.lists.deny)]
    {
        let entry = |entry| vec![(String::new(), display::matches(entry))];
        for removed in from.iter().filter(|entry| !to.contains(entry)) {
            compare(&mut changes, what, &entry(removed), &Vec::new());
        }
        for added in to.iter().filter(|entry| !from.contains(entry)) {
            compare(&mut changes, what, &Vec::new(), &entry(added));
        }
    }
    let timed = |set: &RuleSet, denies: bool| -> EnforcedFields {
        let entries = set.lists.timed.iter().filter(|entry| entry.denies == denies);
        merged(entries.map(|entry| (display::matches(&entry.matches), display::end(&entry.end))))
    };
    for (what, denies) in [("lists.allow", false), ("lists.deny", true)] {
        compare(&mut changes, what, &timed(from, denies), &timed(to, denies));
    }
    changes
}

fn whole(rule: Option<&Rule>) -> EnforcedFields {
    let quota = |rule: &Rule| Shown::of_policy(rule, rule.policy.as_ref()).cell(QUOTA_COLUMN);
    rule.map(|rule| (String::new(), quota(rule))).into_iter().collect()
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

fn note(field: &str, from: Option<&str>, to: Option<&str>) -> &'static str {
    match field.rsplit(' ').next().unwrap_or(field) {
        "" if to.is_none() => "removed",
        "" => "added",
        "quota" => raised_or_lowered(from, to),
        "algorithm" if is_bucket(from) && !is_bucket(to) => "counts start high",
        "algorithm" => "counts are carried over",
        "slot_by" | "per" => "counters start anew",
        "order" => "of equally specific rules of a group the first counts",
        _ => "",
    }
}

/// Returns true if an algorithm knows the level of a bucket, and not when its units were admitted.
fn is_bucket(algorithm: Option<&str>) -> bool {
    algorithm.is_some_and(|algorithm| algorithm.ends_with("_bucket"))
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
    let slot_by = set.slot_by.iter().map(|name| ("slot_by".to_owned(), name.to_string()));
    let descriptors = set.descriptors.iter();
    let descriptors = descriptors.map(|spec| (format!("descriptor `{}`", spec.name), display::descriptor(spec)));
    let deny_status = ("deny_status".to_owned(), set.deny_status.code().to_string());
    let degraded_remaining = ("degraded_remaining".to_owned(), set.degraded_remaining.as_str().to_owned());
    let regions = (!set.regions.is_empty()).then(|| ("regions".to_owned(), display::regions(&set.regions)));
    slot_by.chain(regions).chain(descriptors).chain([deny_status, degraded_remaining]).collect()
}

fn of_rule(rule: &Rule) -> EnforcedFields {
    let mut fields = EnforcedFields::new();
    let mut add = |prefix: &str, shown: Shown| {
        fields.extend(shown.texts.into_iter().map(|(name, text)| (format!("{prefix}{name}"), text)));
    };
    add("", Shown::of_rule(rule));
    add("", Shown::of_policy(rule, rule.policy.as_ref()));
    for (tier, policy) in &rule.by_tier {
        add(&format!("tier {tier}: "), Shown::of_policy(rule, policy.as_ref()));
    }
    for (name, policy) in rule.by_key.iter().collect::<BTreeMap<_, _>>() {
        add(&format!("key {name}: "), Shown::of_policy(rule, policy.as_ref()));
    }
    fields.extend(merged(rule.timed.iter().map(|exception| timed_field(rule, exception))));
    fields
}

/// Merges fields of one name, of which the last one stands in front of those before it until it ends.
fn merged(fields: impl Iterator<Item = (String, String)>) -> EnforcedFields {
    let mut merged = EnforcedFields::new();
    for (name, text) in fields {
        match merged.iter_mut().find(|(known, _)| *known == name) {
            Some((_, known)) => *known = format!("{text}, then {known}"),
            None => merged.push((name, text)),
        }
    }
    merged
}
