//! `tollgate-lab live`: the form of its report. Its figures depend on the machine.
//!
//! `.config/nextest.toml` runs the measurements one after another and alone: beside other tests, a fleet under load gets too
//! little of the machine to keep any bound.

use serde_json::{Value, json};
use tollgate_lab::live::failure::ServerFault;
use tollgate_servers::{Kafka, Redis, finish, is_full};

use crate::support::lab;

const LAG: [&str; 2] = ["live", "lag"];
const ACCURACY: [&str; 2] = ["live", "accuracy"];
const FAILURE: [&str; 2] = ["live", "failure"];
const RLS: [&str; 2] = ["live", "rls"];
/// Folder in which `scripts/servers` installs Kafka.
const KAFKA_DIR: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../target/servers/kafka");

/// Latency above which the machine has stalled, in ms. Then only the printed bounds hold.
const STALLED_MS: f64 = 1_000.0;

/// N3, N6: every call at one agent is signalled to the other, each proven by a signal of its own counter. The first leg is the time
/// until the decision.
#[test]
fn the_lag_of_every_call_is_measured_over_real_servers() {
    let (redis, kafka) = (Redis::start(), Kafka::start());
    let (url, brokers) = (redis.url(), kafka.brokers());
    let small = ["--agents", "2", "--rate", "500", "--seconds", "3", "--warm-up", "1"];
    let lag = |format| {
        let servers = ["--redis", &url, "--kafka", &brokers, "--format", format];
        let done = finish(lab(&LAG).args(servers).args(small));
        assert_eq!((done.exit, &*done.err), (0, ""), "{}", done.out);
        done.out
    };
    let report: Value = serde_json::from_str(&lag("json")).expect("one JSON object");
    let named = [&report["name"], &report["version"], &report["seeds"]];
    assert_eq!(named, [&json!("live-lag"), &json!(env!("CARGO_PKG_VERSION")), &json!([1])]);
    let run = &report["runs"][0];
    assert_eq!((&run["agents"], &run["calls"]), (&2.into(), &1_500.into()), "{run}");
    // Only calls whose answers are late on a busy machine may be denied.
    let late = run["decided"].as_array().and_then(|by| by.iter().find(|by| by["source"] == "fallback"));
    assert!(run["denied"].as_u64() <= late.and_then(|late| late["calls"].as_u64()), "{run}");
    for lag in [&run["another"], &run["slowest"]] {
        assert_eq!(lag["never"], 0, "{run}");
        assert!(lag["max_ms"].as_f64() >= lag["p50_ms"].as_f64() && lag["p50_ms"].as_f64() > Some(0.0), "{run}");
    }
    let decided = run["decided"].as_array().expect("one per source").iter();
    assert_eq!(decided.filter_map(|by| by["calls"].as_u64()).sum::<u64>(), 1_500, "{run}");
    assert_eq!(run["legs"].as_array().map(Vec::len), Some(4));
    let simulated = &run["simulated"];
    assert_eq!((&simulated["another"]["never"], &simulated["slowest"]["never"]), (&0.into(), &0.into()), "{run}");
    assert!(
        simulated["another"]["p99_ms"].as_f64() < Some(20.0) && simulated["legs"][0]["p50_ms"].is_number(),
        "{run}"
    );
    assert!(run["legs"][0]["name"] == "call to decision" && run["legs"][0]["p99_ms"].is_number(), "{run}");
    assert!(report["aim"]["met"].is_boolean(), "{report}");

    let text = lag("text");
    for expected in
        ["known to", "p99.9", "another", "as simulated", "1,500", "decision to the log of calls", "aim: p99 < 20 ms"]
    {
        assert!(text.contains(expected), "{expected}: {text}");
    }
}

/// N4, N5: callers at real servers get the answers that the simulation predicts, as far as the machine answers in time; with one and
/// with two rules on each call.
#[test]
fn accuracy_is_measured_beside_its_prediction() {
    let (redis, kafka) = (Redis::start(), Kafka::start());
    let (url, brokers) = (redis.url(), kafka.brokers());
    let run = |args: &[&str]| {
        let servers = ["--redis", &url, "--kafka", &brokers, "--seconds", "5"];
        let done = finish(lab(&ACCURACY).args(servers).args(args));
        assert_eq!((done.exit, &*done.err), (0, ""), "{}", done.out);
        done.out
    };
    is_accurate(&run(&["--format", "json"]), false);
    is_accurate(&run(&["--format", "json", "--tenant"]), true);

    let text = run(&["--tenant"]);
    println!("{text}");
    for expected in [
        "simulated",
        "fullest window, % of quota",
        "eventual",
        "of 12 numbers are as simulated",
        "Each call counts under a rule of",
    ] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
}

fn is_accurate(report: &str, has_tenant: bool) {
    let report: Value = serde_json::from_str(report).expect("one JSON object");
    assert_eq!((&report["name"], &report["seeds"]), (&json!("live-accuracy"), &json!([0, 1, 2, 3, 4])));
    assert_eq!(report["has_tenant"], has_tenant);
    let rows = report["rows"].as_array().expect("rows");
    assert_eq!(rows.len(), 12, "{report}");
    let row = |consistency: &str, name: &str| {
        let row = rows.iter().find(|row| row["consistency"] == consistency && row["name"] == name).expect("a row");
        let number = |value: &Value| value.as_f64().expect("a number");
        (number(&row["measured"]), number(&row["predicted"][0])..=number(&row["predicted"][1]))
    };
    let number = |consistency, name| row(consistency, name).0;
    if report["answered_max_ms"].as_f64() < Some(15.0) {
        // An answer reaches its caller later than its charge: that much later, calls may have left the window.
        assert!(number("strict", "fullest window, % of quota") <= 103.0, "{report}");
        assert!(number("bounded", "fullest window, % of quota") <= 108.0, "{report}");
    }
    for consistency in ["strict", "bounded", "eventual"] {
        let (admitted, predicted) = row(consistency, "admitted, % of calls");
        assert!((predicted.start() - 5.0..=predicted.end() + 5.0).contains(&admitted), "{consistency}: {report}");
    }
}

#[test]
fn a_plan_that_cannot_be_measured_is_refused_with_a_reason() {
    let servers = ["--redis", "redis://127.0.0.1:1", "--kafka", "127.0.0.1:1"];
    for (args, exit, said) in [
        (vec![], 2, "name them with --redis URL and --kafka BROKERS"),
        (servers[..2].to_vec(), 2, "name them with --redis URL and --kafka BROKERS"),
        ([&servers[..], &["--agents", "1"]].concat(), 2, "give at least 2"),
        ([&servers[..], &["--seconds", "9999999"]].concat(), 2, "at most 20 million calls"),
        (vec!["--redis", "redis://:pw@h"], 2, "holds a password, which everyone on this machine can read"),
        (vec!["--rate", "0"], 2, "a whole number from 1"),
        (vec!["--agents", "2,0"], 2, "a whole number from 1"),
        (servers.to_vec(), 1, "Redis at redis://127.0.0.1:1 does not answer"),
    ] {
        let done = finish(lab(&LAG).args(&args));
        let told = done.exit == exit && done.err.contains(said) && done.out.is_empty();
        assert!(told, "{args:?}: {} {}", done.exit, done.err);
    }
}

/// N7, I1: a server that fails denies few calls of honest callers, until the breakers are open. The exit code tells whether a bound is broken;
/// limits of time belong to the experiment, so this test does not assert them.
#[test]
fn faults_are_measured_over_servers_of_its_own() {
    let faults = ["pause", "late-20ms", "aggregator-kill"];
    let report = failure_report(&faults, &["--redis", "single"]);
    let rows = report["rows"].as_array().expect("rows");
    let named = rows.iter().map(|row| (row["fault"].as_str().expect("a name"), row["kafka"] == true));
    let expected =
        [("pause", true), ("pause", false), ("late-20ms", true), ("late-20ms", false), ("aggregator-kill", true)];
    assert!(named.eq(expected), "{report:#}");
    keeps_the_bounds(rows);
    // Breakers open when Redis is silent. On a busy machine, one of the two may be open already.
    assert!(rows[..2].iter().all(|row| row["openings"].as_u64() >= Some(1)), "{report:#}");
    // The same with two rules on each call.
    let report = failure_report(&faults[..1], &["--redis", "single", "--tenant"]);
    assert_eq!(report["has_tenant"], true, "{report:#}");
    keeps_the_bounds(report["rows"].as_array().expect("rows"));
}

fn failure_report(faults: &[&str], more: &[&str]) -> Value {
    let args = ["--fault", &faults.join(","), "--kafka-dir", KAFKA_DIR, "--format", "json"];
    let done = finish(lab(&FAILURE).args(args).args(more));
    let report: Value = serde_json::from_str(&done.out).unwrap_or_else(|error| panic!("{error}: {}", done.err));
    let of_fail_overs = report["fail_overs"].as_array().expect("reports").iter().map(|of_redis| &of_redis["broken"]);
    let broken = of_fail_overs.chain([&report["broken"]]).filter_map(Value::as_array).map(Vec::len).sum::<usize>();
    assert_eq!(done.exit, i32::from(broken > 0), "{report:#}");
    report
}

/// D6, I8, N8: three agents on a cluster with TLS get 1,000 calls/s, and 3,000 in the full run. No window exceeds the bounds of one Redis, by one
/// quota more if a replica takes over, and callers get decisions of Redis within 5 s of the election.
#[test]
fn a_fail_over_of_a_cluster_keeps_the_bounds_of_one_redis_and_one_quota_more() {
    fails_over("cluster");
}

/// Sentinels with TLS in place of a cluster: the same bounds hold.
#[test]
fn a_fail_over_behind_sentinels_keeps_the_bounds_of_one_redis_and_one_quota_more() {
    fails_over("sentinel");
}

fn fails_over(redis: &str) {
    let rate = if is_full() { "3000" } else { "1000" };
    let report = failure_report(&["none", "kill"], &["--redis", redis, "--rate", rate]);
    let [of_redis] = &report["fail_overs"].as_array().expect("one report")[..] else { panic!("{report:#}") };
    let rows = of_redis["rows"].as_array().expect("rows");
    let named = rows.iter().map(|row| (row["fault"].as_str().expect("a name"), row["kafka"] == true));
    assert!(named.eq([("none", true), ("none", false), ("kill", true), ("kill", false)]), "{report:#}");
    for row in rows {
        let number = |value: &Value| value.as_f64().unwrap_or_else(|| panic!("a number: {row}"));
        for rule in ["strict", "bounded", "strict_shared", "bounded_shared"] {
            let [units, bound, quota] = ["units", "bound", "quota"].map(|name| number(&row[rule][name]));
            assert!(units <= bound && units >= quota / 2.0, "{rule}: {row}");
            let more = if row["fault"] == "kill" { quota } else { 0.0 };
            assert!(bound <= quota * 1.1 + more, "{rule}: {row}");
        }
        assert_eq!(row["elected_s"].is_number(), row["fault"] == "kill", "{row}");
        assert!(number(&row["recovery_s"]) <= 5.0 && number(&row["calls"]) > 1_000.0, "{row}");
    }
    // Agents lose a primary, and those without one that answers decide by themselves.
    assert!(rows[2..].iter().all(|row| row["openings"].as_u64() >= Some(1)), "{report:#}");
}

fn keeps_the_bounds(rows: &[Value]) {
    for row in rows {
        let number = |name: &str| row[name].as_f64().unwrap_or_else(|| panic!("{name}: {row}"));
        assert!(number("worst_ms") >= number("p99_ms") && number("p99_ms") > 0.0, "{row}");
        // Abusers keep their windows full, as far as the machine can send their calls; a fallback never admits nothing.
        assert!(number("strict") >= 50.0 && number("bounded") >= 50.0, "{row}");
        // Beside an outage, a breaker opens only if the machine is too busy to read answers in time.
        let extra = if number("openings") > 0.0 { 10.0 } else { 0.0 };
        for rule in ["strict", "bounded"] {
            let bound = number(&format!("{rule}_bound")) + extra;
            let printed = row[format!("{rule}_printed")].as_f64().filter(|_| number("worst_ms") > STALLED_MS);
            assert!(number(rule) <= bound.max(printed.unwrap_or_default()), "{row}");
        }
        let most = number("denied_bound");
        assert!(number("strict_denied") <= most && number("bounded_denied") <= most, "{row}");
        for rule in ["strict", "bounded"] {
            let simulated = row["simulated"][rule][1].as_f64().expect("a range");
            assert!((90.0..=number(&format!("{rule}_bound"))).contains(&simulated), "{row}");
        }
        assert!(number("recovery_s") >= 0.0, "{row}");
    }
}

#[test]
fn the_help_names_every_fault_and_the_bounds() {
    let done = finish(lab(&FAILURE).arg("--help"));
    let names = ServerFault::all().iter().map(|fault| fault.name());
    for expected in names.chain([
        "with 1 if a\nbound is not kept",
        "`retry_after_ms`",
        "--fault <NAME>",
        "--redis <KIND>",
        "sentinel ",
    ]) {
        assert!(done.out.contains(expected), "{expected}: {}", done.out);
    }
    assert!(done.exit == 0 && done.out.lines().all(|line| line.len() <= 100), "{}", done.out);
}

/// P1: each call of Envoy's filter gets an answer, whatever Redis does. The exit code tells if the slowest ones came in time.
#[test]
fn the_rate_limit_service_is_measured_beside_an_echo() {
    let small = ["--rate", "200", "--seconds", "2", "--format", "json"];
    let done = finish(lab(&RLS).args(small));
    let report: Value = serde_json::from_str(&done.out).unwrap_or_else(|error| panic!("{error}: {}", done.err));
    let states = report["states"].as_array().expect("states of Redis");
    let names: Vec<_> = states.iter().map(|state| state["redis"].as_str().expect("a name")).collect();
    assert_eq!(names, ["running", "stopped", "killed"]);
    let mut are_kept = true;
    for state in states {
        let (agent, echo) = (&state["agent"], &state["echo"]);
        let number = |name: &str| agent[name].as_f64().unwrap_or_else(|| panic!("{name}: {agent}"));
        assert!(agent["calls"] == echo["calls"] && number("calls") > 200.0, "{state}");
        assert_eq!((&agent["failed"], &echo["failed"]), (&0.into(), &0.into()), "{state}");
        assert!(number("p50_ms") <= number("p999_ms") && number("p999_ms") <= number("max_ms"), "{state}");
        are_kept &= number("p999_ms") <= state["bound_ms"].as_f64().expect("a time");
    }
    assert_eq!(done.exit, i32::from(!are_kept), "{report:#}");
    let missing = finish(lab(&RLS).args(["--redis-server", "/nowhere/redis"]));
    assert!(missing.exit == 1 && missing.err.contains("apt-get install redis-server"), "{}", missing.err);
}

#[test]
fn a_missing_server_is_named_with_its_remedy() {
    for (args, exit, said) in [
        (["--redis-server", "/nowhere/redis"], 1, "apt-get install redis-server"),
        (["--kafka-dir", "/nowhere"], 1, "/nowhere has no folder `libs`; run scripts/servers"),
        (["--fault", "earthquake"], 2, "the faults are none, replica-kill, pause, pause-8s, kill,"),
        (["--redis", "pair"], 2, "the kinds are single, cluster, sentinel"),
    ] {
        let done = finish(lab(&FAILURE).args(args));
        assert!(done.exit == exit && done.err.contains(said), "{args:?}: {} {}", done.exit, done.err);
    }
    for kind in ["cluster", "sentinel"] {
        let done = finish(lab(&FAILURE).args(["--redis", kind, "--redis-server", "/nowhere/redis"]));
        assert!(done.exit == 1 && done.err.contains("apt-get install redis-server"), "{kind}: {}", done.err);
    }
    let done = finish(lab(&FAILURE).args(["--redis", "single", "--fault", "replica-kill"]));
    assert!(done.exit == 2 && done.err.contains("--help lists the faults of each"), "{}", done.err);
}
