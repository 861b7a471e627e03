//! `tollgate rules show`: which rules apply to a call, on which policy, and why the others do not.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::bail;
use clap::builder::NonEmptyStringValueParser;
use comfy_table::{Table, presets};
use serde_json::{Map, Value, json};
use tollgate::explain::explain;
use tollgate::read_rules;
use tollgate_core::call::Call;
use tollgate_core::clock::{Clock, SystemClock};
use tollgate_core::counter::DigestKey;

use crate::check::descriptor;
use crate::client;
use crate::exit::{Exit, Usage};
use crate::output::{self, Format};

/// How long an agent may take to answer.
const WAIT: Duration = Duration::from_secs(2);

/// Says which rules apply to a call, on which policy, and why the others do not
///
/// By the rules of a running agent, or by those of a file. Nothing is counted, and secret values are shown cut. Exit code:
/// 0 done, 2 the rules are not valid, 4 nobody answered.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// What the call is, such as user=u1 endpoint=/search; a rules file may stand before it, as with --rules
    #[arg(value_name = "[FILE] NAME=VALUE", value_parser = said)]
    said: Vec<Said>,
    /// The rules, as YAML, instead of those of an agent
    #[arg(long, value_name = "FILE", env = "TOLLGATE_RULES", hide_env_values = true)]
    rules: Option<PathBuf>,
    /// Whose rules
    #[arg(long, value_name = "URL", env = "TOLLGATE_AGENT", hide_env_values = true, default_value = "http://127.0.0.1:8080", value_parser = NonEmptyStringValueParser::new())]
    agent: String,
    /// What is only the client's word: it selects no tier and no entry of the allow list
    #[arg(long, value_name = "NAME=VALUE", env = "TOLLGATE_UNVERIFIED", hide_env_values = true, value_parser = descriptor)]
    unverified: Vec<(String, String)>,
    /// How many units of its quotas the call takes
    #[arg(long, value_name = "UNITS", env = "TOLLGATE_COST", hide_env_values = true, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=tollgate_http::COST_MAX))]
    cost: u64,
    /// How to print it
    #[arg(long, env = "TOLLGATE_FORMAT", hide_env_values = true, default_value = "text")]
    format: Format,
}

/// One word of the command line.
#[derive(Clone)]
enum Said {
    Descriptor(String, String),
    File(PathBuf),
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let files: Vec<&PathBuf> = args.said.iter().filter_map(Said::file).collect();
    if files.len() > 1 {
        bail!(Usage("several rules files are given; a call is shown under one".to_owned()));
    }
    let mut names: Vec<&str> = args.descriptors().chain(pairs(&args.unverified)).map(|(name, _)| name).collect();
    names.sort_unstable();
    if names.windows(2).any(|pair| pair[0] == pair[1]) {
        bail!(Usage("a descriptor is given twice; a call has one value of each".to_owned()));
    }
    let told = match files.first().copied().or(args.rules.as_ref()) {
        Some(file) => {
            let set = read_rules(file, SystemClock::start().now())?;
            explain(&set, &DigestKey::default(), &call(args))
        }
        None => match client::post(&args.agent, "/explain", &body(args), WAIT)? {
            Some(answer) => answer.body,
            None => return Ok(Exit::Unanswered),
        },
    };
    match args.format {
        Format::Text => output::say(text(&told))?,
        Format::Json => output::say(told)?,
    }
    Ok(Exit::Done)
}

impl Args {
    fn descriptors(&self) -> impl Iterator<Item = (&str, &str)> {
        self.said.iter().filter_map(|said| match said {
            Said::Descriptor(name, value) => Some((&**name, &**value)),
            Said::File(_) => None,
        })
    }
}

impl Said {
    fn file(&self) -> Option<&PathBuf> {
        match self {
            Self::File(file) => Some(file),
            Self::Descriptor(..) => None,
        }
    }
}

fn said(text: &str) -> Result<Said, String> {
    match descriptor(text) {
        Ok((name, value)) => Ok(Said::Descriptor(name, value)),
        Err(_) if Path::new(text).exists() => Ok(Said::File(text.into())),
        Err(error) => Err(format!("{error}, or the name of a rules file")),
    }
}

fn pairs(pairs: &[(String, String)]) -> impl Iterator<Item = (&str, &str)> {
    pairs.iter().map(|(name, value)| (&**name, &**value))
}

fn call(args: &Args) -> Call<'_> {
    let mut call = Call::new().costing(args.cost);
    for (name, value) in args.descriptors() {
        call = call.with(name, value);
    }
    for (name, value) in pairs(&args.unverified) {
        call.claim(name.into(), value.into());
    }
    call
}

fn body(args: &Args) -> Value {
    let member = |(name, value): (&str, &str)| (name.to_owned(), Value::from(value));
    let said: Map<String, Value> = args.descriptors().map(member).collect();
    let unverified: Map<String, Value> = pairs(&args.unverified).map(member).collect();
    json!({ "descriptors": said, "unverified": unverified, "cost": args.cost })
}

/// An explanation for people.
fn text(told: &Value) -> String {
    let items = |name: &str| told[name].as_array().cloned().unwrap_or_default();
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut known = Table::new();
    known.load_preset(presets::NOTHING).set_header(["DESCRIPTOR", "VALUE", "WHOSE WORD"]);
    for fact in items("descriptors") {
        known.add_row([word(&fact["name"]), word(&fact["value"]), whose(&fact).to_owned()]);
    }
    let mut rules = Table::new();
    rules.load_preset(presets::NOTHING).set_header(["RULE", "APPLIES", "QUOTA", "WHY"]);
    for rule in items("rules") {
        let applies = match (rule["applies"] == true, rule["shadow"] == true) {
            (true, true) => "in shadow",
            (true, false) => "yes",
            (false, _) => "no",
        };
        rules.add_row([word(&rule["rule"]), applies.to_owned(), word(&rule["allows"]), word(&rule["why"])]);
    }
    for column in known.column_iter_mut().chain(rules.column_iter_mut()) {
        column.set_padding((0, 2));
    }
    let known = if known.is_empty() { String::new() } else { format!("{known}\n\n") };
    let entry = word(&told["list_entry"]);
    let list_match = match told["list"].as_str() {
        Some("allow") => format!("Never denied, by `lists.allow`: {entry}"),
        Some(_) => format!("Always denied, by `lists.deny`: {entry}"),
        None => "On no list.".to_owned(),
    };
    format!("{known}{rules}\n\n{list_match}")
}

fn whose(fact: &Value) -> &'static str {
    match (fact["derived"] == true, fact["verified"] == true) {
        (true, true) => "follows from the rules file",
        (true, false) => "follows from the client's word",
        (false, true) => "verified",
        (false, false) => "the client's word",
    }
}
