//! `tollgate check`: asks a running agent about one call.

use std::time::Duration;

use clap::builder::NonEmptyStringValueParser;
use http::StatusCode;
use serde_json::{Map, Value, json};
use tollgate_command::exit::{Exit, Usage};
use tollgate_command::output::{self, Format};
use tollgate_core::call::COST_MAX;
use tollgate_core::rules::parse_units;

use crate::client::{self, AskedAgent, TlsClientArgs};
use crate::serve;

/// Asks a running agent whether a call may pass
///
/// Exit code: 0 allowed, 3 denied, 4 no agent answered.
#[derive(clap::Args)]
pub(crate) struct CheckArgs {
    /// Descriptors of the call, such as user=u1 endpoint=/search
    #[arg(required = true, value_name = "NAME=VALUE", value_parser = descriptor)]
    descriptors: Vec<(String, String)>,
    /// Cost of the call in units, such as 5 or 30MB; 0 asks what is left and charges nothing
    #[arg(long, value_name = "UNITS", default_value = "1", value_parser = cost)]
    cost: u64,
    /// Address of the agent
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:8080", value_parser = NonEmptyStringValueParser::new())]
    agent: String,
    #[command(flatten)]
    tls: TlsClientArgs,
    /// Time to wait for an answer
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = serve::duration)]
    timeout: Duration,
    /// Form of the answer
    #[arg(long, default_value = "text")]
    format: Format,
}

/// Returns descriptors as JSON.
///
/// # Errors
/// If a name is given twice.
pub(crate) fn distinct(descriptors: &[(String, String)]) -> Result<Map<String, Value>, Usage> {
    let distinct: Map<_, _> = descriptors.iter().map(|(name, value)| (name.clone(), value.as_str().into())).collect();
    let twice = || Usage("a descriptor is given twice; give each name once".to_owned());
    (distinct.len() == descriptors.len()).then_some(distinct).ok_or_else(twice)
}

pub(crate) fn run(args: &CheckArgs) -> anyhow::Result<Exit> {
    let descriptors = distinct(&args.descriptors)?;
    let body = json!({ "descriptors": descriptors, "cost": args.cost });
    let agent = AskedAgent {
        address: &args.agent,
        flag: "--agent",
        tls: &args.tls,
        wait: args.timeout,
        elsewhere: "name that one with --agent",
    };
    let Some((status, _, answer)) = agent.post("/check", &body, client::is_decision)? else {
        return Ok(Exit::Unanswered);
    };
    let exit = if status == StatusCode::OK { Exit::Done } else { Exit::Denied };
    output::say_as(args.format, text_of(&answer), &answer)?;
    Ok(exit)
}

/// Parses a cost in units, such as `5` or `30MB`.
pub(crate) fn cost(text: &str) -> Result<u64, String> {
    let units = parse_units(text).ok().map(|(units, _)| units).filter(|units| *units <= COST_MAX);
    units.ok_or_else(|| format!("write a whole number of units up to {COST_MAX}, such as 5, 10k or 30MB"))
}

fn text_of(body: &Value) -> String {
    let number = |name: &str| body[name].as_u64();
    let text = |name: &str| body[name].as_str().map(str::to_owned);
    // A rule may have a nested body of denials, without its name and its counts.
    let nested = body.get("error");
    let message = || Some(nested?["message"].as_str()?.to_owned());
    let nested_wait_ms = || Some(nested?["details"]["retry_after_seconds"].as_u64()? * 1_000);
    // The deny list has no units.
    let limit = number("limit").filter(|limit| *limit > 0);
    let remaining = number("remaining").zip(limit);
    let lines = [
        ("rule", text("rule").or_else(|| nested.is_none().then(|| "none limits this call".to_owned()))),
        ("reason", text("detail").or_else(message)),
        (
            if body["slots"] == true { "free slots" } else { "remaining" },
            remaining.map(|(remaining, limit)| format!("{remaining} of {limit}")),
        ),
        ("its turn in", number("delay_ms").map(seconds)),
        ("retry after", number("retry_after_ms").filter(|ms| *ms > 0).or_else(nested_wait_ms).map(seconds)),
        ("all free in", number("reset_ms").filter(|_| limit.is_some()).map(seconds)),
        ("source", text("source")),
        ("by", text("by")),
        ("id", text("id")),
    ];
    let lines = lines.into_iter().filter_map(|(name, value)| Some(format!("\n{name:<13}{}", value?)));
    let verdict = if body["allowed"] == true { "allowed" } else { "denied" };
    lines.fold(verdict.to_owned(), |text, line| text + &line)
}

fn seconds(ms: u64) -> String {
    format!("{}.{:03} s", ms / 1_000, ms % 1_000)
}

pub(crate) fn descriptor(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("write NAME=VALUE, such as api_key=k1".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An answer that an agent gave on its own names its kind, as the JSON does.
    #[test]
    fn a_local_answer_names_its_kind() {
        for (body, expected) in [
            (json!({ "allowed": true, "source": "local", "by": "lease" }), "source       local\nby           lease"),
            (
                json!({ "allowed": true, "source": "fallback", "by": "part" }),
                "source       fallback\nby           part",
            ),
            (
                json!({ "allowed": false, "source": "local", "by": "cached_denial" }),
                "source       local\nby           cached_denial",
            ),
            (json!({ "allowed": true, "source": "store", "by": null }), "source       store"),
            (json!({ "allowed": true, "source": "store" }), "source       store"),
            (
                json!({ "error": { "message": "slow down", "details": { "retry_after_seconds": 36 } } }),
                "denied\nreason       slow down\nretry after  36.000 s",
            ),
        ] {
            let text = text_of(&body);
            assert!(text.ends_with(expected), "{text}");
        }
    }
}
