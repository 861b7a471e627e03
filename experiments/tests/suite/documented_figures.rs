//! Figures of scenarios in the documents, compared with what the scenarios print.
//!
//! A figure is documented if the page has its text with a number in place of `{}`. The number must be within the range that the
//! scenario's file expects, if it has one. It must also be the number that the scenario prints, rounded as the page rounds it.
//! The default run executes the two shortest scenarios. In the full run, the test of the report compares all but `ways`.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use serde_json::Value;
use tollgate_servers::finish;
use toml::Table;

use crate::support::lab;

/// Scenario, name of its number, text in `docs/experiments.md`, and the factor from the number to the text.
type Figure = (&'static str, &'static str, &'static str, f64);

const SHORT: [&str; 2] = ["approximations", "burst"];

#[rustfmt::skip]
const FIGURES: &[Figure] = &[
    ("approximations", "12 of 5 s: mean error", "{} calls off on average at 100/min with the default", 1.0),
    ("approximations", "fixed window: mean error", "a fixed window is {} off", 1.0),
    ("approximations", "fixed window: passed wrongly, %", "A fixed window counts {}% of the calls past the limit", 1.0),
    ("approximations", "1 of 60 s: mean error", "minute together are {} calls off", 1.0),
    ("approximations", "4 of 15 s: mean error", "five windows of 15 s {}.", 1.0),
    ("approximations", "60 of 1 s: mean error", "with 61 reads {}.", 1.0),
    ("burst", "default: most admitted", "five agents admit exactly {},", 1.0),
    ("burst", "default: last admission after, ms", "within {} s |", 0.001),
    ("burst", "default: requests to the store per burst", "A burst costs Redis {} requests", 1.0),
    ("lost-shard", "leases off: extra admissions", "at most {} calls beyond the quota, and", 1.0),
    ("lost-shard", "default, no signals: extra admissions", "beyond the quota, and {} without signals", 1.0),
    ("lost-shard", "open, no signals: extra admissions", "without signals admits {} calls beyond", 1.0),
    ("retry-storm", "at once: calls in the busiest second", "| {} calls/s cost Redis", 1.0),
    ("retry-storm", "at once: requests to the store in a second of denials", "cost Redis {} requests/s", 1.0),
    ("retry-storm", "Retry-After: calls per admitted unit", "`Retry-After` make {} calls for each", 1.0),
    ("retry-storm", "at once: calls per admitted unit", "admitted unit, and others {}.", 1.0),
    ("retry-storm", "half of each: units of the jobs that wait, %", "they get {}% of the units", 1.0),
    ("retry-storm", "half of each, penalties: units of the jobs that wait, %", "would give them {}%", 1.0),
    ("scale-out", "strict: worst window while agents join, % of quota", "| `strict` admits at most {}% |", 1.0),
    ("scale-out", "bounded, lost: worst window while agents leave, % of quota", "leave, a window holds {}%", 1.0),
    ("scale-out", "bound of an outage, % of quota", "The printed bound is {}% here", 1.0),
    ("scale-out", "sticky: worst window while agents join, % of quota", "Sticky sessions admit up to {}%", 1.0),
    ("adversary", "interpolated: found, % of the quota", "the interpolated estimate and `fixed_window` get {}%", 1.0),
    ("adversary", "conservative: found, % of the quota", "and the conservative estimate {}%", 1.0),
    ("adversary", "strict: found, % of the quota", "Three agents get {}% under `strict`", 1.0),
    ("adversary", "eventual: found, % of the quota", "and {}% under `eventual`", 1.0),
    ("lag", "eventual, 20 agents, burst, 0 s: worst window, % of quota", "a second gets {}% without a delay", 1.0),
    ("lag", "eventual, 20 agents, burst, 1 s: worst window, % of quota", "delay of 1 s, it gets {}%", 1.0),
    ("price", "10000/min, 20 agents, skew 0: store requests per call", "with 20 agents, down to {} requests", 1.0),
    ("price", "100/min, 4 agents, skew 1.1: quota stranded, % of calls", "Leases deny at most {}% more calls falsely", 1.0),
    ("regions", "day, 1 s: admitted, % of exact", "{}% of what one exact limiter admits", 1.0),
    ("regions", "static shares: admitted, % of exact", "Static shares admit {}%", 1.0),
    ("regions", "regional limits: fullest minute, % of quota", "Limits of each region admit {}% of the quota", 1.0),
    ("real-traffic", "sliding_window eventual, 20 agents: worst window, % of quota", "admits up to {}% with 20 agents", 1.0),
    ("mixed-rules", "minute, hour at 1: requests a call at 0.7", "two windows makes {} requests", 1.0),
    ("sub-windows", "interpolated 30, 3 agents, 0.9 of 100/min: denied falsely, %", "with 30, at most {}% of honest calls", 1.0),
    ("sub-windows", "interpolated 12, 3 agents, 0.9 of 100/min: denied falsely, %", "0.9 of 100/min; with 12, {}%", 1.0),
    ("sub-windows", "conservative 12, 3 agents, 0.9 of 300/min: denied falsely, %", "denies {}% falsely with 12 sub-windows", 1.0),
    ("sub-windows", "conservative 30, 3 agents, 0.9 of 300/min: denied falsely, %", "with 20, and {}% with 30", 1.0),
    ("sub-windows", "interpolated 30, 20 agents, 0.9 of 10000/min: requests per call", "requests with 12, and {} with 30", 1.0),
    ("adversary", "bounded, store late: found, % of the quota", "answers late now and then, the default rule gets {}%", 1.0),
    ("ways", "gossip, summed at 20: worst minute, % of quota", "and summed gossip {}%", 1.0),
];

fn read(path: &str) -> String {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    fs::read_to_string(root.join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Returns the number in the page at `{}` of this text, as written.
fn documented<'p>(page: &'p str, text: &str) -> Option<&'p str> {
    let (before, after) = text.split_once("{}").expect("a place for the number");
    let is_of_number = |c: char| c.is_ascii_digit() || c == '.' || c == ',';
    page.match_indices(before).find_map(|(at, _)| {
        let rest = &page[at + before.len()..];
        let len = rest.find(|c| !is_of_number(c))?;
        let number = rest[..len].trim_end_matches(['.', ',']);
        (rest[number.len()..].starts_with(after) && !number.is_empty()).then_some(number)
    })
}

/// Returns the value of a number, and half a unit of its last digit that is not 0.
fn value_and_rounding(number: &str) -> (f64, f64) {
    let digits = number.replace(',', "");
    let value: f64 = digits.parse().expect("a number");
    let unit = match digits.split_once('.') {
        Some((_, decimals)) => 0.1_f64.powi(i32::try_from(decimals.len()).expect("few")),
        None => {
            10_f64.powi(i32::try_from(digits.len() - digits.trim_end_matches('0').len()).expect("few")).min(1_000.0)
        }
    };
    (value, unit / 2.0)
}

fn result_of(scenario: &str) -> Value {
    let run = finish(&mut lab(&["run", scenario, "--format", "json"]));
    assert_eq!((run.exit, &*run.err), (0, ""), "{scenario}");
    let results: Value = serde_json::from_str(&run.out).expect("JSON");
    results["results"][0].clone()
}

/// Returns the figures of the page that differ from the numbers of these results, or from the expected ranges.
pub(crate) fn wrong_figures(results: &BTreeMap<String, Value>) -> Vec<String> {
    let page = read("../docs/experiments.md").split_whitespace().collect::<Vec<_>>().join(" ");
    let mut offenders = Vec::new();
    for (scenario, name, text, factor) in FIGURES {
        let Some(number) = documented(&page, text) else {
            offenders.push(format!("{scenario}: the page does not have the text {text:?}"));
            continue;
        };
        let (shown, rounding) = value_and_rounding(number);
        let is_near = |value: f64| (value * factor - shown).abs() <= rounding * 1.001;
        let file: Table = read(&format!("scenarios/{scenario}.toml")).parse().expect("TOML");
        let range = file["expected"].get(*name).map(|range| [0, 1].map(|end| range[end].as_float().expect("a number")));
        let is_expected = range.is_none_or(|[least, most]| {
            is_near(least) || is_near(most) || (least * factor..=most * factor).contains(&shown)
        });
        let result = results.get(*scenario);
        let printed = result.map(|result| result["numbers"][*name]["value"].as_f64().unwrap_or(f64::NAN));
        if !is_expected || printed.is_some_and(|value| !is_near(value)) {
            offenders
                .push(format!("{scenario}: {name}: the page has {number}, expected {range:?}, printed {printed:?}"));
        }
    }
    offenders
}

/// Figures in virtual time are those of this version.
#[test]
fn figures_in_the_documents_are_those_of_the_scenarios() {
    let results = SHORT.iter().map(|scenario| ((*scenario).to_owned(), result_of(scenario))).collect();
    assert_eq!(wrong_figures(&results), [""; 0], "docs/experiments.md");
}
