//! `tollgate quota`: the units that one caller has left under each rule.
//!
//! An agent is asked, because it takes descriptors as the caller sends them. An aggregator knows only labels, in which
//! secrets are digested. `/explain` names the rules that apply. `/check?policies=all` with a cost of 0 tells the units that
//! are left under each of them. Neither charges a unit. Rules in shadow and rules that hide their headers tell no counts.

use std::time::Duration;

use clap::builder::NonEmptyStringValueParser;
use http::HeaderMap;
use serde_json::{Value, json};
use tollgate_command::exit::Exit;
use tollgate_command::output::{self, Format};

use crate::check::{descriptor, distinct};
use crate::client::{self, AskedAgent, TlsClientArgs};
use crate::serve;

/// Shows what a caller has used and has left, under each rule that applies to its calls
///
/// Asks a running agent by POST /explain and POST /check?policies=all with a cost of 0; of an agent with --admin, give
/// both addresses. Nothing is charged; the analytics show the question as a call of 0 units. RESET is the time until
/// the whole quota is left again. Exit code: 0 done, 4 no agent answered.
#[derive(clap::Args)]
pub(crate) struct QuotaArgs {
    /// Descriptors of the call, as the caller sends them, such as user=u1 endpoint=/search
    #[arg(required = true, value_name = "NAME=VALUE", value_parser = descriptor)]
    descriptors: Vec<(String, String)>,
    /// Address of the agent
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:8080", value_parser = NonEmptyStringValueParser::new())]
    agent: String,
    /// Address of its operators, if it has one of its own
    #[arg(long, value_name = "ADDR", value_parser = NonEmptyStringValueParser::new())]
    admin: Option<String>,
    #[command(flatten)]
    tls: TlsClientArgs,
    /// Time to wait for an answer
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = serve::duration)]
    timeout: Duration,
    /// Form of the output
    #[arg(long, default_value = "text")]
    format: Format,
}

pub(crate) fn run(args: &QuotaArgs) -> anyhow::Result<Exit> {
    let descriptors = distinct(&args.descriptors)?;
    let call = json!({ "descriptors": descriptors });
    let asked = |address, flag, elsewhere| AskedAgent { address, flag, tls: &args.tls, wait: args.timeout, elsewhere };
    let gateways = asked(&args.agent, "--agent", "name that one with --agent, and this one with --admin");
    let operators = match &args.admin {
        Some(admin) => asked(admin, "--admin", "name that one with --admin"),
        None => asked(&args.agent, "--agent", "name that one with --admin"),
    };
    let Some((_, _, explanation)) = operators.post("/explain", &call, client::is_explanation)? else {
        return Ok(Exit::Unanswered);
    };
    let question = json!({ "descriptors": descriptors, "cost": 0 });
    let Some((_, headers, answer)) = gateways.post("/check?policies=all", &question, client::is_decision)? else {
        return Ok(Exit::Unanswered);
    };
    let quotas = quotas(&explanation, &headers, &answer);
    output::say_as(args.format, text_of(&quotas), &quotas)?;
    Ok(Exit::Done)
}

/// Joins the rules that apply with the counts that the agent tells.
fn quotas(explanation: &Value, headers: &HeaderMap, answer: &Value) -> Value {
    let field = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(items).unwrap_or_default();
    let (policies, limits) = (field("ratelimit-policy"), field("ratelimit"));
    let number = |items: &[Item<'_>], rule: &str, key: &str| {
        let (_, parameters) = items.iter().find(|(name, _)| *name == rule)?;
        parameters.iter().find(|(name, _)| *name == key)?.1.parse::<u64>().ok()
    };
    let rules = explanation["rules"].as_array().into_iter().flatten();
    let rules = rules.filter(|rule| rule["applies"] == true && rule["deny"] != true).map(|rule| {
        let name = rule["rule"].as_str().unwrap_or_default();
        // The rule that decides is in the body, too, with the time to the millisecond.
        let decides = answer["rule"] == name;
        let of_body = |key: &str| answer[key].as_u64().filter(|_| decides);
        let limit = number(&policies, name, "q").or_else(|| of_body("limit"));
        let left = number(&limits, name, "r").or_else(|| of_body("remaining"));
        let reset_ms = of_body("reset_ms").or_else(|| Some(number(&limits, name, "t")?.saturating_mul(1_000)));
        json!({
            "rule": name,
            "used": limit.zip(left).map(|(limit, left)| limit.saturating_sub(left)),
            "left": left,
            "limit": limit,
            "quota": rule["allows"],
            "reset_ms": reset_ms,
            "shadow": rule["shadow"],
        })
    });
    let denying = (answer["allowed"] == false).then(|| answer["rule"].clone());
    json!({
        "rules": rules.collect::<Vec<_>>(),
        "list": explanation["list"],
        "denied_by": denying,
        "emergency": explanation["emergency"],
        "source": answer["source"],
    })
}

/// Item of a structured list: a name, and its parameters.
type Item<'h> = (&'h str, Vec<(&'h str, &'h str)>);

/// Reads a field such as `"per-key";q=100;w=60, "search";q=30;w=60`. A name of a rule has no quotation mark.
fn items(field: &str) -> Vec<Item<'_>> {
    let (mut items, mut rest) = (Vec::new(), field);
    while let Some((name, after)) = rest.split_once('"').and_then(|(_, after)| after.split_once('"')) {
        let parameters = after.split(',').next().unwrap_or_default();
        items.push((name, parameters.split(';').filter_map(|parameter| parameter.trim().split_once('=')).collect()));
        rest = &after[parameters.len()..];
    }
    items
}

fn text_of(quotas: &Value) -> String {
    let number = |value: &Value| value.as_u64().map_or_else(|| "-".to_owned(), |number| number.to_string());
    let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    let rules = quotas["rules"].as_array().map_or(&[][..], Vec::as_slice);
    let rows = rules.iter().map(|rule| {
        let reset = match rule["reset_ms"].as_u64() {
            None => "-".to_owned(),
            Some(0) => "all is left".to_owned(),
            Some(ms) => format!("in {} s", ms.div_ceil(1_000)),
        };
        let name = if rule["shadow"] == true { text(&rule["rule"]) + " (in shadow)" } else { text(&rule["rule"]) };
        [name, number(&rule["used"]), number(&rule["left"]), text(&rule["quota"]), reset]
    });
    let table = match rules {
        [] => "no rule limits this call".to_owned(),
        _ => output::table(&["RULE", "USED", "LEFT", "QUOTA", "RESET"], rows).to_string(),
    };
    let source = quotas["source"].as_str().filter(|source| ["signal", "fallback"].contains(source));
    let is_replaced = quotas["denied_by"].is_string() || quotas["emergency"].is_string();
    let tells_nothing = !is_replaced && rules.iter().any(|rule| rule["left"].is_null());
    let notes = [
        (quotas["list"] == "allow").then(|| "Never denied: the caller is in `lists.allow`.".to_owned()),
        quotas["denied_by"].as_str().map(|rule| format!("Always denied by {rule}.")),
        quotas["emergency"]
            .as_str()
            .map(|quota| format!("The emergency switch is on: {quota} at each agent, in place of these quotas.")),
        source.map(|source| format!("Redis did not answer, so these are estimates ({source}).")),
        tells_nothing.then(|| "-: a rule in shadow, or one that hides its headers, tells no counts.".to_owned()),
    ];
    notes.into_iter().flatten().fold(table, |text, note| text + "\n" + &note)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fields_of_rate_limits_are_read() {
        for (field, expected) in [
            ("", vec![]),
            (r#""a";q=5;w=60"#, vec![("a", vec![("q", "5"), ("w", "60")])]),
            (
                r#""a,b";r=0;t=61, "c;d";r=2;t=0"#,
                vec![("a,b", vec![("r", "0"), ("t", "61")]), ("c;d", vec![("r", "2"), ("t", "0")])],
            ),
            (r#""lists.deny";q=0"#, vec![("lists.deny", vec![("q", "0")])]),
            ("nonsense", vec![]),
            (r#""half"#, vec![]),
        ] {
            assert_eq!(items(field), expected, "{field}");
        }
    }

    /// H6: each rule that applies has a row; one that tells no counts has dashes, and a note says why.
    #[test]
    fn each_rule_that_applies_has_a_row_of_at_most_80_columns() {
        let rule = |name: &str, applies, shadow| json!({ "rule": name, "applies": applies, "deny": false, "shadow": shadow, "allows": "5/min" });
        let long = "a-rule-with-a-name-of-64-letters-that-somebody-has-generated-xxxx";
        let rules = [
            rule("per-key", true, false),
            rule("search", true, false),
            rule("other", false, false),
            rule("trial", true, true),
            rule(long, true, false),
        ];
        let explanation = json!({ "rules": rules, "list": null, "emergency": null });
        let mut headers = HeaderMap::new();
        headers.insert("ratelimit-policy", r#""search";q=3;w=60, "per-key";q=5;w=60"#.parse().expect("a value"));
        headers.insert("ratelimit", r#""search";r=0;t=61, "per-key";r=5;t=0"#.parse().expect("a value"));
        let answer = json!({ "allowed": true, "rule": "search", "limit": 3, "remaining": 0, "reset_ms": 60_154, "source": "signal" });
        let quotas = quotas(&explanation, &headers, &answer);
        assert_eq!(
            quotas["rules"][1],
            json!({ "rule": "search", "used": 3, "left": 0, "limit": 3, "quota": "5/min", "reset_ms": 60_154, "shadow": false })
        );
        let text = text_of(&quotas);
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert!(rows.contains(&vec!["search", "3", "0", "5/min", "in", "61", "s"]), "{text}");
        assert!(rows.contains(&vec!["per-key", "0", "5", "5/min", "all", "is", "left"]), "{text}");
        assert!(rows.contains(&vec!["trial", "(in", "shadow)", "-", "-", "5/min", "-"]), "{text}");
        assert!(
            !text.contains("other") && text.contains("estimates (signal)") && text.contains("tells no counts"),
            "{text}"
        );
    }

    #[test]
    fn lists_and_the_emergency_switch_are_told() {
        for (explanation, answer, expected) in [
            (
                json!({ "rules": [], "list": null }),
                json!({ "allowed": true, "rule": null }),
                "no rule limits this call",
            ),
            (
                json!({ "rules": [], "list": "allow" }),
                json!({ "allowed": true }),
                "Never denied: the caller is in `lists.allow`.",
            ),
            (
                json!({ "rules": [], "list": "deny" }),
                json!({ "allowed": false, "rule": "lists.deny" }),
                "Always denied by lists.deny.",
            ),
            (
                json!({ "rules": [], "emergency": "10/s" }),
                json!({ "allowed": true }),
                "The emergency switch is on: 10/s",
            ),
        ] {
            let text = text_of(&quotas(&explanation, &HeaderMap::new(), &answer));
            assert!(text.contains(expected) && text.lines().all(|line| line.chars().count() <= 80), "{text}");
        }
    }
}
