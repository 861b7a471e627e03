//! `tollgate demo`.

use tollgate_servers::{Kafka, Redis};

use crate::support::{finish, tollgate};

/// The demo without a terminal prints plain lines, the outage and the summary, and exits with 0.
#[test]
fn the_demo_prints_plain_lines_without_a_terminal() {
    let done = finish(&mut tollgate(&["demo"]));
    assert_eq!((done.exit, &*done.err), (0, ""), "{}", done.err);
    assert!(!done.out.contains('\x1b'), "no escape codes without a terminal");
    for expected in [
        "the store becomes unavailable",
        "the store recovers, with its old counts",
        "calls/s",
        "top abuser",
        " store ",
        " signal ",
        "over-admitted",
        "denials had room in an exact window: units are",
        "calls\n                that its quota allows in 10 s",
        "signal lag      p50",
    ] {
        assert!(done.out.contains(expected), "{expected}: {}", done.out);
    }
}

/// The demo over real servers uses names of its own and deletes them afterwards.
#[test]
fn the_demo_prints_the_same_events_over_real_servers() {
    let (redis, kafka) = (Redis::start(), Kafka::start());
    let (url, brokers) = (redis.url(), kafka.brokers());
    let done = finish(&mut tollgate(&["demo", "--redis", &url, "--kafka", &brokers]));
    assert_eq!((done.exit, &*done.err), (0, ""), "{}", done.err);
    for expected in [
        &format!("They run over {url} and Kafka at {brokers},\nunder names of this run only."),
        "the servers run on",
        "the store becomes unavailable",
        "the store recovers, with its old counts",
        " store ",
        " signal ",
        "over-admitted",
        "signal lag      p50",
    ] {
        assert!(done.out.contains(expected), "{expected}: {}", done.out);
    }
    let in_one_line = done.out.split_whitespace().collect::<Vec<_>>().join(" ");
    for expected in ["had room in an exact window: units are counted", "calls that its quota allows in 10 s"] {
        assert!(in_one_line.contains(expected), "{expected}: {}", done.out);
    }
    let heard = done.out.rsplit_once("its signal (").and_then(|(_, tail)| tail.split(')').next());
    assert!(heard.is_some_and(|signals| signals != "0"), "{}", done.out);
}

#[test]
fn the_demo_names_the_server_that_does_not_answer() {
    let done = finish(&mut tollgate(&["demo", "--redis", "redis://127.0.0.1:1"]));
    assert_eq!((done.exit, &*done.out), (1, ""));
    assert!(done.err.contains("Redis at redis://127.0.0.1:1 does not answer"), "{}", done.err);
}

/// J3, J4: the demo of regions prints its story and a summary, and no window holds more than the quota.
#[test]
fn the_demo_of_regions_tells_its_story() {
    let done = finish(&mut tollgate(&["demo", "--regions"]));
    assert_eq!((done.exit, &*done.err), (0, ""), "{}", done.err);
    for expected in
        ["it is day in eu", "the load moves to us", "us is cut off", "us is back", "units over all regions: never over"]
    {
        assert!(done.out.contains(expected), "{expected}: {}", done.out);
    }
    let has_most = |region: &str| {
        let units =
            done.out.split(region).skip(1).filter_map(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
        units.max() >= Some(200)
    };
    assert!(has_most(" eu ") && has_most(" us ") && has_most(" ap "), "{}", done.out);
    assert!(done.out.lines().all(|line| line.chars().count() <= 80), "{}", done.out);
}
