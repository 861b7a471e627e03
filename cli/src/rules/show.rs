//! `tollgate rules show`: which rules apply to a call, on which terms, and why the others do not.

use std::path::PathBuf;

use anyhow::bail;
use comfy_table::{Table, presets};
use serde_json::{Value, json};
use tollgate::{RuleSet, read_rules};
use tollgate_common::call::Call;
use tollgate_common::clock::{Clock, SystemClock};
use tollgate_common::counter::DigestKey;
use tollgate_common::rule::{Explained, Explanation, Fact, Fate, Origin, Standing};

use super::validate::terms_json;
use super::words;
use crate::check::descriptor;
use crate::exit::{Exit, Usage};
use crate::output::{self, Format};

/// Says which rules apply to a call, on which terms, and why the others do not
///
/// Nobody is asked and nothing is counted. Secret values are shown cut. Exit code: 0 done, 2 the rules are not valid.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// What the call is, such as user=u1 endpoint=/search
    #[arg(value_name = "NAME=VALUE", value_parser = descriptor)]
    descriptors: Vec<(String, String)>,
    /// The rules, as YAML
    #[arg(long, value_name = "FILE", env = "TOLLGATE_RULES", hide_env_values = true)]
    rules: PathBuf,
    /// What is only the client's word: it selects no tier and no entry of the allow list
    #[arg(long, value_name = "NAME=VALUE", env = "TOLLGATE_UNVERIFIED", hide_env_values = true, value_parser = descriptor)]
    unverified: Vec<(String, String)>,
    /// How many units of its quotas the call takes
    #[arg(long, value_name = "UNITS", env = "TOLLGATE_COST", hide_env_values = true, default_value_t = 1)]
    cost: u64,
    /// How to print it
    #[arg(long, env = "TOLLGATE_FORMAT", hide_env_values = true, default_value = "text")]
    format: Format,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let mut call = Call::new().costing(args.cost);
    for (name, value) in &args.descriptors {
        call = call.with(name.as_str(), value.as_str());
    }
    for (name, value) in &args.unverified {
        call.claim(name.into(), value.into());
    }
    if call.descriptors().len() < args.descriptors.len() + args.unverified.len() {
        bail!(Usage("a descriptor is given twice; a call has one value of each".to_owned()));
    }
    let set = read_rules(&args.rules, SystemClock::start().now())?;
    let shown = Shown { set: &set, key: DigestKey::default() };
    let told = set.explain(&call);
    match args.format {
        Format::Text => output::say(shown.text(&told))?,
        Format::Json => output::say(shown.json(&told))?,
    }
    Ok(Exit::Done)
}

/// An explanation without secrets.
struct Shown<'a> {
    set: &'a RuleSet,
    key: DigestKey,
}

impl Shown<'_> {
    fn value(&self, name: &str, value: &str) -> String {
        self.key.shown(value, self.set.is_secret(name))
    }

    /// What follows from the rules file is no secret.
    fn fact(&self, fact: &Fact<'_>) -> String {
        if fact.derived { fact.value.to_owned() } else { self.value(fact.name, fact.value) }
    }

    fn text(&self, told: &Explanation<'_>) -> String {
        let mut known = Table::new();
        known.load_preset(presets::NOTHING).set_header(["DESCRIPTOR", "VALUE", "WHOSE WORD"]);
        for fact in &told.descriptors {
            known.add_row([fact.name, &self.fact(fact), word(fact)]);
        }
        let mut rules = Table::new();
        rules.load_preset(presets::NOTHING).set_header(["RULE", "APPLIES", "QUOTA", "WHY"]);
        for explained in &told.rules {
            let quota = match &explained.fate {
                Fate::Applies { terms, .. } => words::allowed(explained.rule, terms.as_ref()),
                _ => String::new(),
            };
            let applies = match &explained.fate {
                Fate::Applies { .. } if explained.rule.shadow => "in shadow",
                Fate::Applies { .. } => "yes",
                _ => "no",
            };
            rules.add_row([&explained.rule.name, applies, &quota, &self.why(explained)]);
        }
        for column in known.column_iter_mut().chain(rules.column_iter_mut()) {
            column.set_padding((0, 2));
        }
        let known = if told.descriptors.is_empty() { String::new() } else { format!("{known}\n\n") };
        format!("{known}{rules}\n\n{}", self.standing(told.standing))
    }

    fn standing(&self, standing: Standing) -> String {
        let lists = &self.set.lists;
        match standing {
            Standing::Usual => "On no list.".to_owned(),
            Standing::Allowed(place) => {
                format!("Never denied, by `lists.allow`: {}", words::matches(&lists.allow[place]))
            }
            Standing::Denied(place) => {
                format!("Always denied, by `lists.deny`: {}", words::matches(&lists.deny[place]))
            }
        }
    }

    fn why(&self, explained: &Explained<'_>) -> String {
        match &explained.fate {
            Fate::Applies { .. } if explained.rule.deny => "it denies what it matches".to_owned(),
            Fate::Applies { terms: None, origin, .. } => origin_of(*origin),
            Fate::Applies { terms: Some(terms), origin, cost } => {
                let burst = words::burst(terms).map_or_else(String::new, |burst| format!(", burst {burst}"));
                let from = origin_of(*origin);
                format!("{from}; {}{burst}; costs {cost}", words::algorithm(terms))
            }
            Fate::NotAsked => "the call leaves it aside".to_owned(),
            Fate::Mismatch { descriptor, pattern, value: None } => {
                format!("there is no {descriptor}, which must be {pattern}")
            }
            Fate::Mismatch { descriptor, pattern, value: Some(value) } => {
                format!("{descriptor} is {}, and must be {pattern}", self.value(descriptor, value))
            }
            Fate::Missing { descriptor } => format!("there is no {descriptor} to count by"),
            Fate::LessSpecific { than } => format!("{than}, of the same group, is more specific or stands above"),
            Fate::Replaced { by } => format!("{by} replaces it"),
        }
    }

    fn json(&self, told: &Explanation<'_>) -> Value {
        let known = told.descriptors.iter().map(|fact| {
            let value = self.fact(fact);
            json!({ "name": fact.name, "value": value, "verified": fact.verified, "derived": fact.derived })
        });
        let rules = told.rules.iter().map(|explained| {
            let mut rule =
                json!({ "rule": *explained.rule.name, "shadow": explained.rule.shadow, "deny": explained.rule.deny });
            rule["applies"] = matches!(explained.fate, Fate::Applies { .. }).into();
            rule["why"] = self.why(explained).into();
            if let Fate::Applies { terms, origin, cost } = &explained.fate {
                rule["terms"] = terms_json(terms.as_ref()).into();
                rule["origin"] = match origin {
                    Origin::Rule => json!({ "kind": "rule" }),
                    Origin::Key => json!({ "kind": "key" }),
                    Origin::Tier(name) => json!({ "kind": "tier", "name": name }),
                    Origin::Descriptor(name) => json!({ "kind": "descriptor", "name": name }),
                };
                rule["cost"] = (*cost).into();
            }
            rule
        });
        let (list, entry) = match told.standing {
            Standing::Usual => (None, None),
            Standing::Allowed(place) => (Some("allow"), Some(place)),
            Standing::Denied(place) => (Some("deny"), Some(place)),
        };
        json!({
            "descriptors": known.collect::<Vec<_>>(),
            "list": list,
            "list_entry": entry,
            "rules": rules.collect::<Vec<_>>(),
        })
    }
}

fn word(fact: &Fact<'_>) -> &'static str {
    match (fact.derived, fact.verified) {
        (true, true) => "follows from the rules file",
        (true, false) => "follows from the client's word",
        (false, true) => "verified",
        (false, false) => "the client's word",
    }
}

fn origin_of(origin: Origin<'_>) -> String {
    match origin {
        Origin::Rule => "the rule's own".to_owned(),
        Origin::Key => "this key's own".to_owned(),
        Origin::Tier(name) => format!("of the tier {name}"),
        Origin::Descriptor(name) => format!("from the descriptor {name}"),
    }
}
