//! `tollgate rules validate`: checks rules files and shows the rules that they contain.
//!
//! The texts of a limit and the JSON fields come from the table of settings in `tollgate-rules`.

use std::num::NonZeroU32;
use std::path::PathBuf;

use comfy_table::Table;
use serde_json::{Value, json};
use tollgate::{Rule, RuleSet, RulesFileError, read_rules};
use tollgate_command::exit::Exit;
use tollgate_command::output::{self, Format, table};
use tollgate_core::clock::{Clock, SystemClock};
use tollgate_core::rules::problem::Problem;
use tollgate_core::rules::{Matches, Scope};
use tollgate_engine::FLEET_EXPECTED_DEFAULT;
use tollgate_rules::display;
use tollgate_rules::settings::Shown;

use super::exceptions::timed_field;
use super::{bounds, outage, regions};

/// Shows the rules of a file, or its problems with their lines
///
/// Several files, and the *.yaml files of a folder, are one set of rules. Exit code: 0 valid, 2 not.
#[derive(clap::Args)]
pub(crate) struct ValidateArgs {
    /// The rules, as YAML, or folders with *.yaml files; - is standard input
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Number of agents for which the bounds of an outage of Redis are shown
    #[arg(long, value_name = "N", default_value_t = NonZeroU32::new(FLEET_EXPECTED_DEFAULT).expect("it is not 0"))]
    agents: NonZeroU32,
    /// Format of the output
    #[arg(long, default_value = "text")]
    format: Format,
}

pub(crate) fn run(ValidateArgs { files, agents, format }: &ValidateArgs) -> anyhow::Result<Exit> {
    let path_of = |file: &PathBuf| if file.as_os_str() == "-" { PathBuf::from("/dev/stdin") } else { file.clone() };
    let paths: Vec<PathBuf> = files.iter().map(path_of).collect();
    let read = read_rules(&paths, SystemClock::start().now());
    match (&read, format) {
        (Ok(set), Format::Text) => output::say(text(set, *agents))?,
        (Ok(set), Format::Json) => output::say_json(valid_json(set, *agents))?,
        (Err(RulesFileError::Invalid(error)), Format::Json) => {
            output::say_json(json!({ "valid": false, "problems": problems_json(&error.problems) }))?;
        }
        (Err(_), _) => {}
    }
    let set = read?;
    for warning in &set.warnings {
        output::note(format_args!("warning: {warning}"));
    }
    output::note(format_args!("{}", summary(files, &set)));
    Ok(Exit::Done)
}

fn summary(files: &[PathBuf], set: &RuleSet) -> String {
    let names: Vec<_> = files.iter().map(|file| file.display().to_string()).collect();
    let count = |count: usize, noun: &str| format!("{count} {noun}{}", if count == 1 { "" } else { "s" });
    let (rules, warnings) = (count(set.rules.len(), "rule"), count(set.warnings.len(), "warning"));
    format!("{}: valid, {rules}, {warnings}", names.join(", "))
}

fn text(set: &RuleSet, agents: NonZeroU32) -> String {
    let entries = |name: &'static str, list: &[Matches]| -> Vec<[String; 2]> {
        list.iter().map(|entry| [name.to_owned(), display::matches(entry)]).collect()
    };
    let deny_status = if set.lists.deny.is_empty() && set.rules.iter().all(|rule| !rule.deny) {
        String::new()
    } else {
        format!("\n\nCalls that are denied regardless of their count get status {}.", set.deny_status.code())
    };
    let timed = set.lists.timed.iter().map(|entry| {
        let list = if entry.denies { "deny" } else { "allow" };
        [list.to_owned(), format!("{} {}", display::matches(&entry.matches), display::end(&entry.end))]
    });
    let timed = timed.collect();
    let listed = [entries("allow", &set.lists.allow), entries("deny", &set.lists.deny), timed].concat();
    let rules = rules_table(set);
    let lists = if listed.is_empty() { String::new() } else { format!("\n\n{}", table(&["LIST", "WHO"], listed)) };
    let (bounds, outage) = (bounds::text(set), outage::text(set, agents));
    format!("{rules}{lists}{deny_status}{bounds}{outage}{}", regions::text(set, agents))
}

/// Builds a table with a row for each rule and for each tier with another policy.
fn rules_table(set: &RuleSet) -> Table {
    let mut rows = Vec::new();
    for rule in &set.rules {
        let per = if rule.deny { String::new() } else { display::counted_per(rule) };
        let calls = format!("{}\n{per}", display::matches(&rule.matches));
        let shown = [Shown::of_policy(rule, rule.policy.as_ref()), Shown::of_rule(rule)];
        rows.push([rule.name.to_string(), calls, Shown::lines(&shown).join("\n")]);
        for (tier, policy) in &rule.by_tier {
            let shown = Shown::of_policy(rule, policy.as_ref());
            rows.push([format!("  tier {tier}"), String::new(), Shown::lines(&[shown]).join("\n")]);
        }
        for exception in &rule.timed {
            let (callers, quota_and_end) = timed_field(rule, exception);
            rows.push([format!("  {callers}"), String::new(), quota_and_end]);
        }
    }
    table(&["RULE", "CALLS", "LIMIT"], rows)
}

fn valid_json(set: &RuleSet, agents: NonZeroU32) -> Value {
    let list = |list: &[Matches]| -> Vec<Value> { list.iter().map(display::matches_json).collect() };
    json!({
        "valid": true,
        "slot_by": set.slot_by.as_deref(),
        "regions": regions::json(set),
        "rules": set.rules.iter().map(|rule| rule_json(set, rule, agents)).collect::<Vec<_>>(),
        "deny_status": set.deny_status.code(),
        "degraded_remaining": set.degraded_remaining.as_str(),
        "lists": { "allow": list(&set.lists.allow), "deny": list(&set.lists.deny) },
        "warnings": problems_json(&set.warnings),
    })
}

fn rule_json(set: &RuleSet, rule: &Rule, agents: NonZeroU32) -> Value {
    let mut fields = Shown::of_rule(rule).json;
    fields.extend(Shown::of_policy(rule, rule.policy.as_ref()).json);
    if rule.deny {
        fields.insert("algorithm".to_owned(), "deny".into());
    }
    fields.insert("bounds".to_owned(), bounds::json(rule).into());
    if rule.scope == Scope::Regional {
        fields.insert("outage_exceptions".to_owned(), outage::exceptions_json(rule, agents).into());
    }
    if let Some(policy) = &rule.policy {
        if rule.scope == Scope::Regional {
            fields.insert("outage".to_owned(), outage::json(policy, agents));
        }
        if !set.regions.is_empty() {
            fields.insert("over_regions".to_owned(), regions::rule_json(set, rule.scope, policy, agents));
        }
    }
    fields.into()
}

fn problems_json(problems: &[Problem]) -> Vec<Value> {
    problems.iter().map(|problem| json!({ "place": problem.place, "text": problem.text })).collect()
}
