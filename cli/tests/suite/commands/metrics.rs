//! Metrics as scrapers see them: formats, names, series, and the tables of `docs/metrics.md`.

use std::collections::BTreeSet;
use std::io::Write;
use std::process::{Command, Stdio};

use crate::support::{Client, Up, file, tollgate, wait_for};

const DOCUMENT: &str = include_str!("../../../../docs/metrics.md");
const OPEN_METRICS: &str = "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3";
/// Address of a Kafka that does not answer.
const NO_KAFKA: &str = "127.0.0.1:1";

/// Starts an aggregator without its Kafka and its ledger.
fn aggregator() -> Up {
    let servers = ["--kafka", NO_KAFKA, "--ledger", NO_KAFKA, "--redis", "redis://127.0.0.1:1"];
    let args = [&["aggregator"], &servers[..], &["--region", "eu", "--http", "127.0.0.1:0"]].concat();
    Up::of(&mut tollgate(&args))
}

fn scrape(client: &mut Client) -> String {
    client.get("/metrics", &[]).text().to_owned()
}

/// Returns the metrics of an agent whose aggregator counts its partitions.
fn settled(client: &mut Client) -> String {
    wait_for("the aggregator to count", || {
        let text = scrape(client);
        text.contains(r#"tollgate_aggregator_counters{partition="3"}"#).then_some(text)
    })
}

/// Returns the series of a text: names with their labels.
fn series(text: &str) -> BTreeSet<String> {
    let samples = text.lines().filter(|line| !line.starts_with('#'));
    samples.map(|line| line.rsplit_once(' ').unwrap().0.to_owned()).collect()
}

/// Returns the names of a text with those of their labels, such as `tollgate_decisions_total{rule,outcome,source}`.
fn exported(text: &str) -> BTreeSet<String> {
    let families = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
    let labelled = |(name, kind): (&str, &str)| {
        let suffix = if kind == "histogram" { "_sum" } else { "" };
        let sample = text.lines().find(|line| line.split(['{', ' ']).next() == Some(&format!("{name}{suffix}")));
        let labels = sample.and_then(|line| line.split_once('{')).map_or("", |(_, labels)| labels);
        let labels: Vec<_> = labels.split(',').filter_map(|label| Some(label.split_once('=')?.0)).collect();
        if labels.is_empty() { name.to_owned() } else { format!("{name}{{{}}}", labels.join(",")) }
    };
    families.map(labelled).collect()
}

/// Returns the names that the document lists: in each table, the header has the prefix of the names.
fn documented() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for table in DOCUMENT.split("\n\n").filter_map(|part| part.strip_prefix("| name (`")) {
        let (prefix, rows) = table.split_once("...`)").unwrap();
        let cells = rows.lines().filter_map(|line| line.strip_prefix("| ")?.split(" |").next());
        let listed = cells.flat_map(|cell| cell.split('`').skip(1).step_by(2));
        names.extend(listed.map(|name| format!("{prefix}{name}")));
    }
    names
}

fn value(text: &str, series: &str) -> f64 {
    let found = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    found.unwrap_or_else(|| panic!("no {series} in {text}")).parse().unwrap()
}

#[test]
fn the_document_lists_exactly_the_metrics_that_are_exported() {
    let collector: &[&str] = if cfg!(feature = "otlp") { &["--otlp", "http://127.0.0.1:1"] } else { &[] };
    let up = Up::start(&[&["--decision-log", "stderr"], collector].concat());
    let of_up = exported(&settled(&mut up.client()));
    assert!(of_up.is_subset(&documented()), "{of_up:?}");
    let of_aggregator = exported(&scrape(&mut aggregator().client()));
    assert!(of_aggregator.contains("tollgate_build_info{version}"), "{of_aggregator:?}");
    assert!(of_aggregator.contains("process_resident_memory_bytes"), "{of_aggregator:?}");
    // These begin with the terms of a rule.
    let late = [
        "granted_units{rule}",
        "budget_age_seconds{rule}",
        "used_units{rule,region}",
        "demand_units{rule,region}",
        "usage_age_seconds{region}",
    ];
    let late = late.map(|name| format!("tollgate_regions_{name}"));
    // A binary without the feature does not have these.
    let of_spans = ["spans_total", "spans_lost_total"].map(|name| format!("tollgate_otlp_{name}"));
    assert_eq!(of_spans.iter().all(|name| of_up.contains(name)), cfg!(feature = "otlp"), "{of_up:?}");
    let all: BTreeSet<String> = of_up.into_iter().chain(of_aggregator).chain(late).chain(of_spans).collect();
    assert_eq!(all, documented());
}

/// Every series exists before its first event: calls of each outcome add none.
#[test]
fn every_series_exists_from_the_start() {
    let up = Up::start(&["--limit", "1/min per api_key"]);
    let mut client = up.client();
    let before = series(&settled(&mut client));
    for (rule, outcome, source) in [("per-api_key", "denied", "local"), ("", "allowed", "store")] {
        let name = format!(r#"tollgate_decisions_total{{rule="{rule}",outcome="{outcome}",source="{source}"}}"#);
        assert!(before.contains(&name), "{name} is missing: {before:?}");
    }
    for error in ["timed_out", "expired", "unreachable", "busy", "contended", "refused", "full", "unreadable"] {
        assert!(before.contains(&format!(r#"tollgate_store_errors_total{{error="{error}"}}"#)), "{error}");
    }
    let statuses = ["k", "k", "k", "other"].map(|key| client.check(key).status);
    assert_eq!(statuses, [200, 429, 429, 200]);
    client.get("/check", &[("authorization", "Bearer no.token.here")]);
    wait_for("the calls to be counted", || {
        let text = scrape(&mut client);
        let rows = text.lines().filter(|line| line.starts_with("tollgate_aggregator_rows_total"));
        rows.map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum::<u64>().ge(&4).then_some(())
    });
    assert_eq!(series(&scrape(&mut client)), before);
    let aggregator = series(&scrape(&mut aggregator().client()));
    for partition in 0..8 {
        assert!(aggregator.contains(&format!(r#"tollgate_aggregator_rows_total{{partition="{partition}"}}"#)));
    }
}

#[test]
fn promtool_finds_no_fault_in_the_metrics_of_agent_and_aggregator() {
    let (up, aggregator) = (Up::start(&[]), aggregator());
    for text in [settled(&mut up.client()), scrape(&mut aggregator.client())] {
        let mut promtool = Command::new("promtool");
        promtool.args(["check", "metrics"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut promtool = promtool.spawn().expect("promtool is missing; install it with `apt-get install prometheus`");
        promtool.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        let output = promtool.wait_with_output().unwrap();
        let faults = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap()).concat();
        assert!(output.status.success() && faults.is_empty(), "{faults}");
    }
}

#[test]
fn metrics_come_in_the_format_that_the_client_accepts() {
    for process in [Up::start(&[]), aggregator()] {
        let mut client = process.client();
        let text = client.get("/metrics", &[("accept", "*/*")]);
        assert_eq!(text.header("content-type"), "text/plain; version=0.0.4; charset=utf-8");
        assert!(text.text().contains("# TYPE process_cpu_seconds_total counter\n") && !text.text().contains("# EOF"));
        let open = client.get("/metrics", &[("accept", OPEN_METRICS)]);
        assert_eq!(open.header("content-type"), "application/openmetrics-text; version=1.0.0; charset=utf-8");
        assert!(open.text().contains("# TYPE process_cpu_seconds counter\n") && open.text().ends_with("\n# EOF\n"));
        assert_eq!(open.text().matches("# EOF").count(), 1);
    }
}

/// The last successful reload and its time, as an alert sees them.
#[test]
fn a_refused_reload_is_seen_in_the_metrics() {
    let rules = |quota| format!("rules: [{{ name: per-key, per: [api_key], quota: {quota}/min }}]\n");
    let path = file("metrics_reload.yaml", &rules(10));
    let up = Up::start(&["--rules", path.to_str().unwrap()]);
    let mut client = up.client();
    let reload = |text: &str| {
        let [successful, at] = ["successful", "success_timestamp_seconds"]
            .map(|name| value(text, &format!("tollgate_rules_last_reload_{name}")));
        (successful, at)
    };
    let started = value(&scrape(&mut client), "process_start_time_seconds");
    let (successful, at) = reload(&scrape(&mut client));
    assert!(successful > 0.5 && (at - started).abs() < 60.0, "{at} {started}");
    let mut reloaded = |quota, expected: f64| {
        file("metrics_reload.yaml", &rules(quota));
        wait_for("the file to be read", || {
            let (successful, at) = reload(&scrape(&mut client));
            ((successful - expected).abs() < 0.5).then_some(at)
        })
    };
    assert!((reloaded(0, 0.0) - at).abs() < 0.5, "a refused file changes no time");
    assert!(reloaded(20, 1.0) >= at);
}

#[test]
fn the_connection_to_the_bus_is_a_metric() {
    let up = Up::start(&[]);
    let mut client = up.client();
    wait_for("the bus inside the process", || {
        let text = scrape(&mut client);
        let connected = ["tollgate_bus_connected", "tollgate_aggregator_bus_connected"].map(|name| value(&text, name));
        connected.iter().all(|connected| *connected > 0.5).then_some(())
    });
    assert!(value(&scrape(&mut aggregator().client()), "tollgate_aggregator_bus_connected") < 0.5);
}
