//! `tollgate regions`: the budgets of regions, as an aggregator has read them from the ledger, and the usage of all regions.

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::NonEmptyStringValueParser;
use http::StatusCode;
use serde_json::{Value, json};
use tollgate_command::exit::Exit;
use tollgate_command::output::{self, Format};

use crate::client::{self, IsExpected, TlsClientArgs};
use crate::operator_token;
use values::{age, array, text};

mod values;
mod usage_text;

/// Maximum time for an answer.
const WAIT: Duration = Duration::from_secs(5);
/// Number of digits of a counter without a label.
const ID_LEN: usize = 8;

/// Shows the budgets of regions in global quotas, and the usage of all regions
///
/// The usage is that of all rules of a file that has `regions:`. An aggregator with --ledger answers, or `tollgate up --regions`, which also moves units and cuts links. Exit code: 0 done, 4 no
/// aggregator answered.
#[derive(clap::Args)]
pub(crate) struct RegionsArgs {
    #[command(subcommand)]
    switch: Option<RegionsSwitch>,
    /// Address of the aggregator
    #[arg(long, global = true, value_name = "URL", default_value = "http://127.0.0.1:8090", value_parser = NonEmptyStringValueParser::new())]
    aggregator: String,
    #[command(flatten)]
    tls: TlsClientArgs,
    /// File with the token of operators, to move units or cut links from another machine
    #[arg(long, global = true, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Maximum number of counters: of those that are wanted most, and of the largest ones of each rule
    #[arg(long, env = "TOLLGATE_COUNTERS", value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    limit: u32,
    /// Form of the output
    #[arg(long, global = true, default_value = "text")]
    format: Format,
}

/// Change of the regions of `tollgate up --regions`.
#[derive(clap::Subcommand)]
enum RegionsSwitch {
    /// Moves the units of one region to another for one term; then the demand decides again
    Move {
        /// Region that gives its units back
        from: String,
        /// Region that asks for them
        to: String,
    },
    /// Cuts the link of a region to the ledger
    Cut {
        /// Name of the region
        region: String,
    },
    /// Heals the link of a region to the ledger
    Heal {
        /// Name of the region
        region: String,
    },
}

impl RegionsSwitch {
    /// Path and body of the request.
    fn request(&self) -> (&'static str, Value) {
        match self {
            Self::Move { from, to } => ("/regions/move", json!({ "from": from, "to": to })),
            Self::Cut { region } => ("/regions/cut", json!({ "region": region })),
            Self::Heal { region } => ("/regions/heal", json!({ "region": region })),
        }
    }

    /// Returns the test for the answer to the request.
    fn is_expected(&self) -> IsExpected {
        match self {
            Self::Move { .. } => |status, body| status == StatusCode::OK && body["counters"].is_u64(),
            Self::Cut { .. } | Self::Heal { .. } => {
                |status, body| status == StatusCode::OK && body["was_cut"].is_boolean()
            }
        }
    }

    /// Describes the change that was made.
    fn done(&self, answer: &Value) -> String {
        match self {
            Self::Move { from, .. } if answer["counters"] == 0 => {
                format!("nothing moves: {from} holds no units beside its floors")
            }
            Self::Move { from, to } => format!(
                "{from} gives back its units beside its floors (counters: {}), once they have left its window,\nand {to} asks for them; after one term the demand decides again",
                answer["counters"]
            ),
            Self::Cut { region } if answer["was_cut"] == true => format!("{region} was cut off from the ledger before"),
            Self::Cut { region } => format!(
                "{region} is cut off from the ledger: it keeps its units until their term ends, and then its floors"
            ),
            Self::Heal { region } if answer["was_cut"] == false => format!("{region} was not cut off from the ledger"),
            Self::Heal { region } => format!("{region} reaches the ledger again, and asks for units as its demand is"),
        }
    }
}

pub(crate) fn run(args: &RegionsArgs) -> anyhow::Result<Exit> {
    if let Some(switch) = &args.switch {
        let (path, body) = switch.request();
        let token = args.token_file.as_deref().map(operator_token::checked).transpose()?;
        let access = (&args.tls, token.as_deref());
        let answer = client::post_to_aggregator(&args.aggregator, access, (path, &body), switch.is_expected(), WAIT)?;
        let Some(answer) = answer else { return Ok(Exit::Unanswered) };
        output::say_as(args.format, switch.done(&answer), &answer)?;
        return Ok(Exit::Done);
    }
    let path = format!("/regions?limit={}", args.limit);
    let is_expected = |status, body: &Value| {
        status == StatusCode::OK
            && body["rules"].is_array()
            && body["counters"].is_array()
            && body["ledger"].is_object()
    };
    let Some(answer) = client::get(&args.aggregator, &args.tls, &path, is_expected, WAIT)? else {
        return Ok(Exit::Unanswered);
    };
    output::say_as(args.format, text_of(&answer), &answer)?;
    Ok(Exit::Done)
}

/// Formats the answer as tables; a rule without budgets beside its floors has a row for each region.
fn text_of(answer: &Value) -> String {
    let rows: Vec<[String; 8]> = array(&answer["counters"]).iter().flat_map(rows_of_counter).collect();
    let has_rows = |rule: &Value| rows.iter().any(|row| rule["rule"].as_str() == Some(&*row[0]));
    let idle = array(&answer["rules"]).iter().filter(|rule| !has_rows(rule)).flat_map(rows_of_rule);
    let removed = array(&answer["rules"]).iter().flat_map(rows_of_removed);
    let rows: Vec<[String; 8]> = idle.chain(rows.iter().cloned()).chain(removed).collect();
    let table = output::table(&["rule", "counter", "region", "floor", "held", "wants", "moves", "age"], rows);
    let coordinator = answer["coordinator"].as_str().unwrap_or("not known in this region");
    let (ledger, shown) = (&answer["ledger"], array(&answer["counters"]).len());
    let errors = [("ledger", &ledger["error"]), ("store", &answer["store_error"])];
    let errors = errors.iter().filter_map(|(name, error)| Some(format!("\n{name}: {}", error.as_str()?)));
    let rules = array(&answer["rules"]).iter();
    let differing =
        rules.filter_map(|rule| Some(format!("\nrule {}: {}", text(&rule["rule"]), rule["error"].as_str()?)));
    let (matched, counters_max) = (&answer["matched"], &answer["counters_max"]);
    let is_full = matched.as_u64().zip(counters_max.as_u64()).is_some_and(|(matched, max)| matched >= max);
    let full = if is_full { ": the cap is reached, further counters have their floors only" } else { "" };
    let usage = usage_text::usage_text(&answer["usage"]);
    let usage = if usage.is_empty() { usage } else { usage + "\n\n" };
    format!(
        "{usage}budgets\n{table}\n\nseen from {}; coordinator: {coordinator}; entries: {}, void: {}\ncounters above their floors: {} of at most {}, shown: {shown}{full}{}{}",
        text(&answer["region"]),
        text(&ledger["entries"]),
        text(&ledger["void"]),
        text(matched),
        text(counters_max),
        differing.collect::<String>(),
        errors.collect::<String>(),
    )
}

/// Returns a row for each region; the first one has the number of grants and give-backs.
fn rows_of_counter(counter: &Value) -> Vec<[String; 8]> {
    let id: String = counter["id"].as_str().unwrap_or_default().chars().take(ID_LEN).collect();
    let label = counter["label"].as_str().map_or(id, str::to_owned);
    let moves: u64 = ["grants", "give_backs"].iter().filter_map(|key| counter[key].as_u64()).sum();
    let row = |(number, region): (usize, &Value)| {
        let [name, floor, held, wants] = ["region", "floor", "held", "wants"].map(|key| text(&region[key]));
        let moves = if number == 0 { moves.to_string() } else { String::new() };
        [text(&counter["rule"]), label.clone(), name, floor, held, wants, moves, age(region)]
    };
    array(&counter["regions"]).iter().enumerate().map(row).collect()
}

/// Returns the floors of a rule: its counters hold no more.
fn rows_of_rule(rule: &Value) -> Vec<[String; 8]> {
    rows_of_floors(rule, "(all others)", &rule["floors"])
}

/// Returns the floors of the regions that the rules do not name any more: they are reserved until those regions give them back.
fn rows_of_removed(rule: &Value) -> Vec<[String; 8]> {
    rows_of_floors(rule, "(removed)", &rule["floors_of_removed"])
}

fn rows_of_floors(rule: &Value, counter: &str, floors: &Value) -> Vec<[String; 8]> {
    let row = |(region, floor): (&String, &Value)| {
        let (floor, none) = (text(floor), || "-".to_owned());
        [text(&rule["rule"]), counter.to_owned(), region.clone(), floor.clone(), floor, none(), none(), none()]
    };
    floors.as_object().into_iter().flatten().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_of_budgets_fits_80_columns() {
        let region = |region, held, wants, age_ms: Option<u64>| json!({ "region": region, "floor": 10, "held": held, "wants": wants, "age_ms": age_ms });
        let counter = |label: Option<&str>, regions: Value| json!({ "rule": "per-key", "id": "78c649e77c2905a1ef6b0cfdb3bebf8f", "label": label, "quota": 100, "grants": 3, "give_backs": 1, "regions": regions });
        let answer = json!({
            "region": "eu",
            "coordinator": "eu-a",
            "ledger": { "entries": 12, "void": 1, "error": null },
            "store_error": "no answer in time",
            "rules": [{ "rule": "per-key", "floors": { "eu": 10 } }, { "rule": "idle", "error": "its window differs", "floors": { "eu": 5, "us": 7 }, "floors_of_removed": { "ap": 3 } }],
            "matched": 2,
            "counters_max": 2,
            "counters": [
                counter(Some("api_key=sk_a…12345678"), json!([region("eu", 80, 120, Some(3_400)), region("us", 20, 0, None)])),
                counter(None, json!([region("eu", 11, 11, Some(900))])),
            ],
        });
        let text = text_of(&answer);
        assert!(text.lines().take_while(|line| !line.is_empty()).all(|line| line.chars().count() <= 80), "{text}");
        let rows: Vec<Vec<&str>> = text.lines().skip(1).map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(rows[1], ["idle", "(all", "others)", "eu", "5", "5", "-", "-", "-"]);
        assert_eq!(rows[3], ["per-key", "api_key=sk_a…12345678", "eu", "10", "80", "120", "4", "3", "s"]);
        assert_eq!(rows[4], ["per-key", "api_key=sk_a…12345678", "us", "10", "20", "0", "-"]);
        assert_eq!(rows[5], ["per-key", "78c649e7", "eu", "10", "11", "11", "4", "0", "s"]);
        assert_eq!(rows[6], ["idle", "(removed)", "ap", "3", "3", "-", "-", "-"]);
        let full = "counters above their floors: 2 of at most 2, shown: 2: the cap is reached, further counters have their floors only";
        assert!(text.contains(full) && text.contains("\nrule idle: its window differs\n"), "{text}");
        assert!(text.contains("coordinator: eu-a") && text.ends_with("store: no answer in time"), "{text}");
    }
}
