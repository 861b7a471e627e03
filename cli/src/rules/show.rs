//! `tollgate rules show`: explains a call under the rules of an agent or of a file.
//!
//! Both ways give the same JSON: an agent answers `POST /explain`, a file is explained by the same function here. Values are those
//! that a request has: `endpoint=/users/123` is explained as `/users/{id}`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::bail;
use clap::builder::NonEmptyStringValueParser;
use serde_json::{Map, Value, json};
use tollgate::explain::explain;
use tollgate::read_rules;
use tollgate_command::exit::{Exit, Usage};
use tollgate_command::output::{self, Format, table};
use tollgate_core::call::Call;
use tollgate_core::clock::{Clock, SystemClock, Timestamp};
use tollgate_core::rules::TimedEnd;
use tollgate_rules::display;

use crate::check::{cost, descriptor};
use crate::client::{self, AskedAgent, TlsClientArgs};

/// Time that an agent has to answer.
const WAIT: Duration = Duration::from_secs(2);

/// Shows the rules that apply to a call, their policies, and the reasons why the others do not apply
///
/// Uses the rules of a running agent, which shortens secret values, or those of files. Nothing is counted. Exit code: 0 done, 2 the rules are not valid, 4 nobody answered.
#[derive(clap::Args)]
pub(crate) struct ShowArgs {
    /// Descriptors of the call, such as user=u1 endpoint=/search; rules files may stand before them, as with --rules
    #[arg(value_name = "[FILE] NAME=VALUE", value_parser = operand)]
    operands: Vec<ShowOperand>,
    /// The rules, as YAML, or a folder with *.yaml files, instead of those of an agent; may be repeated
    #[arg(long, value_name = "FILE")]
    rules: Vec<PathBuf>,
    /// Agent whose rules are shown; with --admin, the address of its operators
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:8080", value_parser = NonEmptyStringValueParser::new())]
    agent: String,
    #[command(flatten)]
    tls: TlsClientArgs,
    /// An unverified descriptor: it selects no tier and no entry of the allow list
    #[arg(long, value_name = "NAME=VALUE", value_parser = descriptor)]
    unverified: Vec<(String, String)>,
    /// Cost of the call in units, such as 5 or 30MB; a call of cost 0 charges nothing
    #[arg(long, value_name = "UNITS", default_value = "1", value_parser = cost)]
    cost: u64,
    /// Format of the output
    #[arg(long, default_value = "text")]
    format: Format,
}

#[derive(Clone)]
enum ShowOperand {
    Descriptor(String, String),
    File(PathBuf),
}

pub(crate) fn run(args: &ShowArgs) -> anyhow::Result<Exit> {
    let mut call = Call::new().costing(args.cost);
    let (mut files, mut descriptors, mut unverified) = (Vec::new(), Map::new(), Map::new());
    for operand in &args.operands {
        match operand {
            ShowOperand::Descriptor(name, value) => {
                call.set(name.into(), value.into());
                descriptors.insert(name.clone(), value.as_str().into());
            }
            ShowOperand::File(file) => files.push(file),
        }
    }
    let named = files.len();
    for (name, value) in &args.unverified {
        call.set_unverified(name.into(), value.into());
        unverified.insert(name.clone(), value.as_str().into());
    }
    if named + call.descriptors().len() < args.operands.len() + args.unverified.len() {
        bail!(Usage("a descriptor is given twice; a call has one value of each".to_owned()));
    }
    files.extend(&args.rules);
    let explanation = if files.is_empty() {
        let body = json!({ "descriptors": descriptors, "unverified": unverified, "cost": args.cost });
        let agent = AskedAgent {
            address: &args.agent,
            flag: "--agent",
            tls: &args.tls,
            wait: WAIT,
            elsewhere: "name that one with --agent",
        };
        let Some((_, _, answer)) = agent.post("/explain", &body, client::is_explanation)? else {
            return Ok(Exit::Unanswered);
        };
        answer
    } else {
        let now = SystemClock::start().now();
        let set = read_rules(&files, now)?.in_force_at(now);
        explain(&set, None, &set.as_requested(call))
    };
    output::say_as(args.format, text(&explanation), &explanation)?;
    Ok(Exit::Done)
}

fn operand(text: &str) -> Result<ShowOperand, String> {
    match descriptor(text) {
        Ok((name, value)) => Ok(ShowOperand::Descriptor(name, value)),
        Err(_) if Path::new(text).exists() => Ok(ShowOperand::File(text.into())),
        Err(error) => Err(format!("{error}, or the name of a rules file")),
    }
}

fn text(explanation: &Value) -> String {
    let items = |name: &str| explanation[name].as_array().cloned().unwrap_or_default();
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let known = items("descriptors")
        .into_iter()
        .map(|known| [word(&known["name"]), word(&known["value"]), provenance(&known).to_owned()]);
    let known = table(&["DESCRIPTOR", "VALUE", "STATUS"], known);
    let rules = items("rules").into_iter().map(|rule| {
        let applies = match (rule["applies"] == true, rule["shadow"] == true) {
            (true, true) => "in shadow",
            (true, false) => "yes",
            (false, _) => "no",
        };
        let owner = rule["owner"].as_str().map_or_else(String::new, |owner| format!("\n({owner})"));
        [word(&rule["rule"]) + &owner, applies.to_owned(), word(&rule["allows"]), word(&rule["why"])]
    });
    let rules = table(&["RULE", "APPLIES", "QUOTA", "WHY"], rules);
    let known = if known.is_empty() { String::new() } else { format!("{known}\n\n") };
    let entry = word(&explanation["list_entry"]);
    let end = list_end(&explanation["list_end"]);
    let list_match = match explanation["list"].as_str() {
        Some("allow") => format!("Never denied, by `lists.allow`: {entry}{end}"),
        Some(_) => format!("Always denied with status {}, by `lists.deny`: {entry}{end}", explanation["deny_status"]),
        None => "On no list.".to_owned(),
    };
    format!("{known}{rules}\n\n{list_match}")
}

/// Returns the end of a list entry that ends by itself.
fn list_end(end: &Value) -> String {
    let until = end["until_ms"].as_u64().map(Timestamp::from_ms);
    let reason = end["reason"].as_str().unwrap_or_default().into();
    until.map_or_else(String::new, |until| format!(" {}", display::end(&TimedEnd { until, reason })))
}

fn provenance(known: &Value) -> &'static str {
    match (known["derived"] == true, known["verified"] == true) {
        (true, true) => "derived, verified",
        (true, false) => "derived, unverified",
        (false, true) => "verified",
        (false, false) => "unverified",
    }
}
