//! `--otlp`: an agent over a real Redis, and an aggregator, beside a collector of OTLP.

#[allow(dead_code, missing_docs, unreachable_pub, clippy::pedantic, reason = "generated code")]
#[path = "../../../../src/otlp/proto/mod.rs"]
mod proto;
mod receiver;

use std::collections::BTreeSet;

use serde_json::{Value as Json, json};
use tollgate_servers::Redis;

use crate::support::{Client, Up, file, finish, tollgate, wait_for};
use proto::opentelemetry::proto::metrics::v1::metric::Data;
use proto::opentelemetry::proto::metrics::v1::number_data_point::Value;
use proto::opentelemetry::proto::metrics::v1::{Metric, NumberDataPoint};
use proto::opentelemetry::proto::trace::v1::Span;
use proto::opentelemetry::proto::trace::v1::status::StatusCode;
use receiver::{Receiver, text};

/// The deadline, and the time for which a denial is repeated, are such that a busy machine keeps them.
const RULES: &str = "rules: [{ name: per-key, per: [api_key], quota: 1000/h, deadline: 1s }]";
/// A call that no window has room for.
const TOO_LARGE: &str = r#"{"descriptors": {"api_key": "large"}, "cost": 1001}"#;
/// Calls of one request.
const BATCH: usize = 256;
/// Spans that wait at most for a collector: those in the queue, and those of one message.
const WAITING_LEN_MAX: usize = 2_048 + 512;

/// Starts an agent whose calls without a trace are all sampled.
fn agent(redis: &Redis, collector: &Receiver) -> Up {
    // Tests that run at the same time have files of their own.
    let rules = file(&format!("otlp-{}.yaml", collector.port), RULES).display().to_string();
    let (redis, url) = (redis.url(), collector.url());
    let servers = ["--redis", &*redis, "--otlp", &*url, "--otlp-sample", "100%"];
    let args = ["agent", "--node", "gw-1", "--agents-expected", "1", "--http", "127.0.0.1:0", "--rules", &*rules];
    let agent = Up::of(&mut tollgate(&[&args[..], &servers].concat()));
    wait_for("readiness", || (agent.client().get("/readyz", &[]).status == 200).then_some(()));
    agent
}

/// Checks a call by this body. `trace` is the number of its trace, and its flags.
fn check(client: &mut Client, body: &str, trace: Option<(u32, &str)>) -> Json {
    let parent = trace.map(|(number, flags)| format!("00-{number:032x}-{number:016x}-{flags}"));
    let headers: Vec<_> = parent.iter().map(|parent| ("traceparent", &**parent)).collect();
    client.send("POST", "/check", &headers, body);
    client.receive().json()
}

fn of_key(key: &str) -> String {
    json!({ "descriptors": { "api_key": key } }).to_string()
}

/// Returns the value of a metric of the agent without labels.
fn metric(client: &mut Client, name: &str) -> usize {
    let metrics = client.get("/metrics", &[]);
    let line = metrics.text().lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {name}")).parse().expect("a number")
}

fn points<'m>(metrics: &'m [Metric], name: &str) -> &'m [NumberDataPoint] {
    let metric = metrics.iter().find(|metric| metric.name == name).unwrap_or_else(|| panic!("no {name}"));
    match &metric.data {
        Some(Data::Sum(sum)) if sum.is_monotonic && name.ends_with("_total") => &sum.data_points,
        Some(Data::Gauge(gauge)) => &gauge.data_points,
        other => panic!("{name}: {other:?}"),
    }
}

fn number(point: &NumberDataPoint) -> usize {
    match point.value {
        Some(Value::AsInt(number)) => number.try_into().expect("not below 0"),
        other => panic!("{other:?}"),
    }
}

/// Returns the number of the trace of a call that repeats another one.
fn repeat_trace(repeat: usize) -> u32 {
    100 + u32::try_from(repeat).expect("a few calls")
}

/// A span for each decision that waited for Redis, in the trace of its call, and none for a decision that did not wait. The metrics
/// tell all calls.
#[test]
fn decisions_that_waited_for_redis_are_spans_and_all_calls_are_in_the_metrics() {
    let (redis, mut collector) = (Redis::start(), Receiver::start());
    let agent = agent(&redis, &collector);
    let mut client = agent.client();

    // Each call, and the answer to it: those in traces of their own, and those of which a trace is begun.
    let traced =
        [check(&mut client, &of_key("traced"), Some((1, "01"))), check(&mut client, TOO_LARGE, Some((2, "01")))];
    let unsampled = check(&mut client, &of_key("unsampled"), Some((3, "00")));
    // The answer to the first announcement of the rules ends denials that the agent knows.
    let mut repeats = Vec::new();
    wait_for("a denial that the agent repeats", || {
        repeats.push(check(&mut client, TOO_LARGE, Some((repeat_trace(repeats.len()), "01"))));
        (repeats.last()?["by"] == "cached_denial").then_some(())
    });
    let mut untraced = vec![check(&mut client, &of_key("untraced"), None)];
    // No lease is asked for at the end of a sub-window.
    wait_for("an admission by a lease", || {
        untraced.push(check(&mut client, &of_key("busy"), None));
        (untraced.last()?["by"] == "lease").then_some(())
    });
    redis.pause();
    let late = check(&mut client, &of_key("late"), Some((5, "01")));
    redis.resume();
    drop(client);
    agent.signal("TERM");
    let (status, log) = agent.end();
    assert_eq!(status.code(), Some(0), "{log}");
    collector.stop();
    let received = collector.telemetry();

    assert_eq!([&traced[0], &traced[1], &unsampled].map(|answer| &answer["source"]), ["store"; 3]);
    assert_eq!([&traced[0], &traced[1]].map(|answer| &answer["allowed"]), [true, false]);
    assert!(repeats.iter().all(|answer| answer["allowed"] == false), "{repeats:?}");

    let of_trace = |number: u128| -> Vec<&Span> {
        received.spans.iter().filter(|span| span.trace_id == number.to_be_bytes()).collect()
    };
    for (trace, answer, error) in [(1_u32, &traced[0], ""), (2, &traced[1], ""), (5, &late, "timed_out")] {
        let spans = of_trace(trace.into());
        let [span] = spans[..] else { panic!("trace {trace}: {spans:?}") };
        assert_eq!(span.parent_span_id, u64::from(trace).to_be_bytes());
        let decision = if answer["allowed"] == true { "allowed" } else { "denied" };
        let told = ["tollgate.rule", "tollgate.decision", "tollgate.source", "tollgate.store", "error.type"]
            .map(|key| text(&span.attributes, key));
        let source = answer["source"].as_str().expect("a source");
        assert_eq!(told, ["per-key", decision, source, &redis.url(), error], "trace {trace}");
        let expected = if error.is_empty() { StatusCode::Unset } else { StatusCode::Error };
        assert_eq!(
            span.status.as_ref().map(proto::opentelemetry::proto::trace::v1::Status::code),
            Some(expected),
            "trace {trace}"
        );
        assert!(span.end_time_unix_nano > span.start_time_unix_nano, "{span:?}");
    }
    assert!(of_trace(3).is_empty(), "a trace that is not sampled has no span");
    let by_redis = repeats.len() - 1;
    for repeat in 0..=by_redis {
        let spans = of_trace(repeat_trace(repeat).into()).len();
        assert_eq!(spans, usize::from(repeat < by_redis), "only a denial by Redis is a span");
    }
    // A lease decides without Redis. A busy machine may make Redis late, which then is a span, too.
    let asked = untraced.iter().filter(|answer| answer["by"] != "lease").count();
    let begun: BTreeSet<&[u8]> =
        received.spans.iter().filter(|span| span.parent_span_id.is_empty()).map(|span| &*span.trace_id).collect();
    assert_eq!((begun.len(), received.spans.len()), (asked, asked + 3 + by_redis));
    assert!(received.spans.iter().all(|span| !format!("{span:?}").contains("busy")), "a key is no attribute");

    let last = received.metrics.last().expect("the last metrics");
    let calls = untraced.len() + repeats.len() + 4;
    assert_eq!(points(last, "tollgate_decisions_total").iter().map(number).sum::<usize>(), calls);
    let denied = points(last, "tollgate_decisions_total").iter();
    let denied = denied.filter(|point| text(&point.attributes, "outcome") == "denied").map(number).sum::<usize>();
    assert_eq!(denied, 1 + repeats.len() + usize::from(late["allowed"] == false));
    assert_eq!(points(last, "tollgate_agents_active").iter().map(number).collect::<Vec<_>>(), [1]);
    let checks = last.iter().find(|metric| metric.name == "tollgate_check_duration_seconds").expect("a histogram");
    let Some(Data::Histogram(checks)) = &checks.data else { panic!("{checks:?}") };
    assert_eq!(checks.data_points[0].count, calls as u64);
    assert_eq!(checks.data_points[0].bucket_counts.iter().sum::<u64>(), calls as u64);
    for resource in &received.resources {
        let told =
            ["service.name", "service.instance.id", "service.version"].map(|key| text(&resource.attributes, key));
        assert_eq!(told, ["tollgate-agent", "gw-1", env!("CARGO_PKG_VERSION")]);
    }
}

/// `no-wait`: calls are decided as before while the collector is down. Spans past the cap are lost and counted, and the log tells each
/// change once. A collector that is back gets the spans that waited.
#[test]
fn while_the_collector_is_down_calls_go_on_and_lost_spans_are_counted() {
    let (redis, mut collector) = (Redis::start(), Receiver::start());
    let agent = agent(&redis, &collector);
    let mut client = agent.client();
    assert_eq!(check(&mut client, &of_key("before"), None)["source"], "store");
    wait_for("the span", || (collector.telemetry().spans.len() == 1).then_some(()));
    collector.stop();

    let batches = 2 * WAITING_LEN_MAX / BATCH;
    for batch in 0..batches {
        let calls: Vec<_> =
            (0..BATCH).map(|call| json!({ "descriptors": { "api_key": format!("{batch}-{call}") } })).collect();
        client.send("POST", "/batch", &[], &json!({ "calls": calls }).to_string());
        let answers = client.receive().json();
        let answers = answers["answers"].as_array().expect("answers");
        let by_store = answers.iter().filter(|answer| answer["allowed"] == true && answer["source"] == "store");
        assert_eq!(by_store.count(), BATCH, "{answers:?}");
    }
    let lost = metric(&mut client, "tollgate_otlp_spans_lost_total");
    let calls = batches * BATCH;
    assert!((calls - WAITING_LEN_MAX..calls).contains(&lost), "{lost} of {calls}");
    assert_eq!(metric(&mut client, "tollgate_otlp_spans_total"), 1);

    collector.restart();
    let rest = calls - lost;
    wait_for("the spans that waited", || (collector.telemetry().spans.len() == 1 + rest).then_some(()));
    assert_eq!(metric(&mut client, "tollgate_otlp_spans_lost_total"), lost);
    drop(client);
    agent.signal("TERM");
    let (status, log) = agent.end();
    assert_eq!(status.code(), Some(0), "{log}");
    for (words, count) in [("does not take spans: ", 1), ("takes spans again", 1), ("spans are lost", 1)] {
        assert_eq!(log.matches(words).count(), count, "{words}: {log}");
    }
    assert!(log.contains("start a collector there that receives OTLP over HTTP, or correct --otlp"), "{log}");
}

/// An aggregator has metrics and no spans. The interval is that of OpenTelemetry's variable.
#[test]
fn a_collector_gets_the_metrics_of_an_aggregator_at_each_interval() {
    let mut collector = Receiver::start();
    let url = collector.url();
    let args = ["aggregator", "--node", "agg-1", "--kafka", "127.0.0.1:1", "--http", "127.0.0.1:0", "--otlp", &*url];
    let aggregator = Up::of(tollgate(&args).env("OTEL_METRIC_EXPORT_INTERVAL", "20"));
    wait_for("three readings", || (collector.telemetry().metrics.len() >= 3).then_some(()));
    aggregator.signal("TERM");
    assert_eq!(aggregator.end().0.code(), Some(0));
    collector.stop();
    let received = collector.telemetry();
    assert!(received.spans.is_empty());
    for metrics in &received.metrics {
        assert_eq!(points(metrics, "tollgate_aggregator_bus_connected").iter().map(number).collect::<Vec<_>>(), [0]);
        assert_eq!(points(metrics, "tollgate_build_info").iter().map(number).collect::<Vec<_>>(), [1]);
    }
    let resource = &received.resources[0].attributes;
    assert_eq!(
        ["service.name", "service.instance.id"].map(|key| text(resource, key)),
        ["tollgate-aggregator", "agg-1"]
    );
}

#[test]
fn an_interval_that_is_none_is_refused() {
    let mut command = tollgate(&["up", "--http", "127.0.0.1:0", "--otlp", "http://127.0.0.1:4318"]);
    let refused = finish(command.env("OTEL_METRIC_EXPORT_INTERVAL", "15s"));
    let expected = "OTEL_METRIC_EXPORT_INTERVAL cannot be `15s`: write a number of milliseconds, such as 15000";
    assert!(refused.exit == 2 && refused.err.contains(expected), "{}", refused.err);
}
