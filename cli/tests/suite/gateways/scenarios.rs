//! Table of scenarios that all gateways pass: an agent allows, denies, hangs, is killed, stopped and restarted, and reloads its
//! rules. No call fails otherwise than the configuration of the gateway says.
//!
//! A caller under `deny` shows which part decides: each agent denies it, at any count, and a gateway without an agent lets it pass.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use super::stage::{Front, Stage};
use crate::fleet::fleet_of_processes::Member;
use crate::support::{Answer, wait_for};

type Scenario = fn(Front, &mut Stage);

const SCENARIOS: &[(&str, Scenario)] = &[
    ("calls pass up to the limit", calls_pass_up_to_the_limit),
    ("a repeated key gives no second quota", a_repeated_key_gives_no_second_quota),
    ("a client chooses neither path nor address", a_client_chooses_neither_path_nor_address),
    ("answers of the backend stay as they are", answers_of_the_backend_stay),
    ("the agent hangs", the_agent_hangs),
    ("the agent is killed", the_agent_is_killed),
    ("the agent is stopped", the_agent_is_stopped),
    ("the rules are reloaded under load", the_rules_are_reloaded),
];

/// Clients that ask while something happens to an agent.
const CALLERS: usize = 3;
/// Changes of the rules under load.
const RELOADS: u64 = 5;
/// Headers of requests by which gateways tell an agent the method, the path and the address of a client.
const FORGED: [(&str, &str); 6] = [
    ("x-original-uri", "/free"),
    ("x-original-url", "https://host/free"),
    ("x-original-method", "GET"),
    ("x-forwarded-uri", "/free"),
    ("x-forwarded-method", "GET"),
    ("x-forwarded-for", "9.9.9.9"),
];

/// Plays all scenarios of one agent. The other one is not asked.
pub(crate) fn play(front: Front, stage: &mut Stage) {
    for (name, scenario) in SCENARIOS {
        eprintln!("port {}: {name}", front.port);
        scenario(front, stage);
    }
}

/// Restarts two agents in turn while calls go on: an agent decides each call, unless the gateway sends no question twice. The second one is stopped once the gateway asks the first
/// one again.
pub(crate) fn restart_in_turn(front: Front, stage: &mut Stage) {
    let closed: &[u16] = if front.repeats_questions { &[429] } else { &[429, 200] };
    under_load(front, closed, || {
        restart(&mut stage.first);
        wait_for("the gateway", || (stage.first.metric("tollgate_decisions_total") > 0).then_some(()));
        restart(&mut stage.second);
    });
}

fn restart(agent: &mut Member) {
    agent.stop();
    agent.restart();
    agent.wait_until_ready();
}

fn calls_pass_up_to_the_limit(front: Front, _: &mut Stage) {
    let mut client = front.client();
    for remaining in ["2", "1", "0"] {
        let passed = client.get("/search?q=1", &[("x-api-key", "k1")]);
        assert_eq!((passed.status, passed.text()), (200, "upstream"));
        if front.shows_limit {
            assert_eq!((passed.header("x-ratelimit-limit"), passed.header("x-ratelimit-remaining")), ("3", remaining));
            assert!(passed.header("ratelimit-policy").contains("q=3;w=60"));
        }
        assert_eq!(passed.find("retry-after"), None);
    }
    // A client cannot choose the status of a denial.
    for path in ["/search?q=1", "/search?deny=403"] {
        assert_denied(front, &client.get(path, &[("x-api-key", "k1")]));
    }
    assert_eq!(client.get("/search", &[("x-api-key", "k2")]).status, 200, "another key has its own quota");
    // Nor does a long key, or one that is no text, pass without a limit.
    for key in ["k".repeat(2_000), "\u{ff}".to_owned()] {
        for _ in 0..3 {
            assert_eq!(client.get("/search", &[("x-api-key", &key)]).status, 200);
        }
        assert_denied(front, &client.get("/search", &[("x-api-key", &key)]));
    }
}

fn assert_denied(front: Front, denied: &Answer) {
    assert_eq!((denied.status, denied.header("x-ratelimit-remaining")), (429, "0"));
    assert!(denied.header("retry-after").parse::<u64>().unwrap() > 1);
    if front.has_body {
        assert_eq!(
            (denied.header("content-type"), &denied.json()["status"]),
            ("application/problem+json", &429.into())
        );
    }
}

/// A backend may take the first of two values, so a second one that changes with each call must not choose another counter.
fn a_repeated_key_gives_no_second_quota(front: Front, _: &mut Stage) {
    let mut client = front.client();
    let mut ask = |number: &str| client.get("/search", &[("x-api-key", "twice"), ("x-api-key", number)]);
    for number in ["1", "2", "3"] {
        assert_eq!(ask(number).status, 200);
    }
    assert_denied(front, &ask("4"));
}

fn a_client_chooses_neither_path_nor_address(front: Front, _: &mut Stage) {
    let mut client = front.client();
    if !front.has_request {
        return;
    }
    for path in ["/users/7?page=1", "/users/8"] {
        client.send("POST", path, &[], "body");
        assert_eq!(client.receive().text(), "upstream");
    }
    for headers in [&[][..], &FORGED] {
        client.send("POST", "/users/9", headers, "body");
        assert_denied(front, &client.receive());
    }
    for (method, path) in [("GET", "/users/9"), ("DELETE", "/"), ("OPTIONS", "/%ff//x"), ("PUT", "/search?deny=no")] {
        client.send(method, path, &[], "");
        assert_eq!(client.receive().status, 200, "{method} {path}");
    }
}

fn answers_of_the_backend_stay(front: Front, _: &mut Stage) {
    let mut client = front.client();
    for (path, status, body) in [("/private", 403, "not yours"), ("/broken", 500, "broken")] {
        let answer = client.get(path, &[]);
        assert_eq!((answer.status, answer.text(), answer.find("retry-after")), (status, body, None), "{path}");
    }
}

fn the_agent_hangs(front: Front, stage: &mut Stage) {
    wait_until_limited(front);
    stage.first.signal("STOP");
    wait_for("the agent to hang", || (closed(front) == 200).then_some(()));
    assert_passes(front);
    stage.first.signal("CONT");
    wait_until_limited(front);
}

fn the_agent_is_killed(front: Front, stage: &mut Stage) {
    stage.first.kill();
    assert_passes(front);
    stage.first.restart();
    wait_until_limited(front);
}

fn the_agent_is_stopped(front: Front, stage: &mut Stage) {
    stage.first.stop();
    assert_passes(front);
    stage.first.restart();
    wait_until_limited(front);
}

fn the_rules_are_reloaded(front: Front, stage: &mut Stage) {
    under_load(front, &[429], || {
        for number in 0..RELOADS {
            stage.add_rules(&format!("  - {{ name: more-{}-{number}, per: [tenant], quota: 1/min }}\n", front.port));
        }
    });
}

/// Status of a call of the caller that each agent denies.
fn closed(front: Front) -> u16 {
    front.client().get("/search", &[("x-api-key", "closed")]).status
}

/// Waits until the gateway has found its agent again.
fn wait_until_limited(front: Front) {
    wait_for("the limits", || (closed(front) == 429).then_some(()));
}

/// Calls pass without an agent, with or without a body.
fn assert_passes(front: Front) {
    let mut client = front.client();
    for method in ["GET", "POST"] {
        client.send(method, "/search", &[("x-api-key", "closed")], "body");
        let passed = client.receive();
        assert_eq!((passed.status, passed.text(), passed.find("x-ratelimit-limit")), (200, "upstream", None));
    }
}

/// Clients ask while something happens. The caller that an agent denies has one of these statuses, and the others pass.
fn under_load(front: Front, closed: &[u16], happens: impl FnOnce()) {
    wait_until_limited(front);
    let done = AtomicBool::new(false);
    let ask = &|caller: usize| {
        let (mut client, mut calls) = (front.client(), 0);
        while !done.load(Ordering::Relaxed) {
            for (key, statuses) in [(&*format!("open-{caller}-{calls}"), &[200][..]), ("closed", closed)] {
                let answer = client.get("/", &[("x-api-key", key)]);
                assert!(statuses.contains(&answer.status), "{key}: {} {}", answer.status, answer.text());
                // nginx ends a connection after 1,000 requests.
                if answer.find("connection").is_some_and(|connection| connection.eq_ignore_ascii_case("close")) {
                    client = front.client();
                }
            }
            calls += 1;
        }
        calls
    };
    thread::scope(|scope| {
        let callers: Vec<_> = (0..CALLERS).map(|caller| scope.spawn(move || ask(caller))).collect();
        happens();
        done.store(true, Ordering::Relaxed);
        for caller in callers {
            assert!(caller.join().expect("no call fails") > 0);
        }
    });
}
