//! Answers of an aggregator with calls, budgets and dead letters: each status of each path, each compared with `openapi.yaml`.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use serde_json::{Value, json};
use tollgate_aggregator::api;
use tollgate_bus::{Bus, LogWriter, Topic};
use tollgate_core::clock::Timestamp;
use tollgate_core::counter::DigestKey;
use tollgate_core::decision::Source;
use tollgate_core::messages::calls::{Batch, BatchName, CounterEntry, DenialCause, Home, Outcome, Row};
use tollgate_core::messages::emergency::EmergencySwitch;
use tollgate_core::messages::presence::{Presence, Role};
use tollgate_core::rules::{ENDPOINT, TIER};
use tollgate_core::window::Window;
use tollgate_servers::each_value;
use tollgate_wire::Record;

use crate::contract::{contract, operations};
use crate::regions::world::World;
use crate::support::{Answer, ask, get, listen, serve};

const RULE: &str = "per-key";
/// Units of a region that alone has a demand.
const MOST: u64 = 60;
/// Maximum number of clients of `/api/v1/events`.
const LISTENERS_MAX: usize = 50;
/// Paths whose answers do not need the event loop, so that they say `Busy` only while the process ends, or if an answer panics.
const NEVER_BUSY: [&str; 7] = [
    "/api/v1/series",
    "/api/v1/rules",
    "/api/v1/exceptions",
    "/api/v1/callers",
    "/api/v1/usage",
    "/api/v1/endpoints",
    "/api/v1/tiers",
];
/// Objects whose members are names.
const FREE: [&str; 2] = ["/floors", "/floors_of_removed"];

/// Questions, and a value that the answer has.
const FILLED: [(&str, &str); 23] = [
    ("/api/v1/status", "/degraded_agents/0"),
    ("/api/v1/status", "/refusing_agents/0"),
    ("/api/v1/series", "/points/0"),
    ("/api/v1/series?rule=per-key&caller=api_key%3Dk1&step=1m", "/points/0"),
    ("/api/v1/rules", "/rules/1/limits/0"),
    ("/api/v1/exceptions", "/exceptions/0/quota"),
    ("/api/v1/exceptions?rule=other&limit=10", "/exceptions/0/list"),
    ("/api/v1/callers", "/callers/0/first_denied_ms"),
    ("/api/v1/callers?rule=per-key&sort=calls&limit=1", "/callers/0"),
    ("/api/v1/callers?sort=near", "/callers/0/used"),
    ("/api/v1/usage?api_key=k1&endpoint=%2F&minutes=60", "/usage/0/points/0"),
    ("/api/v1/endpoints", "/endpoints/0"),
    ("/api/v1/tiers?minutes=1440&limit=1", "/tiers/0"),
    ("/api/v1/agents", "/agents/0/rules_refusal"),
    ("/api/v1/partitions", "/partitions/1"),
    ("/api/v1/regions", "/usage/rules/0/counters/0"),
    ("/regions?limit=1", "/counters/0/regions/0"),
    ("/counters", "/counters/0/admitted_ring"),
    ("/counters?rule=per-key&label=k1&limit=1&local=true", "/counters/0/emptied_at_ms"),
    ("/counters?rule=global", "/counters/0/budget"),
    ("/dead-letters", "/dead_letters/0"),
    ("/healthz", "/partitions/0"),
    ("/readyz", "/ready"),
];
/// Questions that are refused.
const REFUSED: [&str; 31] = [
    "/api/v1/series?from_ms=2&to_ms=1",
    "/api/v1/series?from_ms=0",
    "/api/v1/series?from_ms=18446744073709551615",
    "/api/v1/series?from_ms=x",
    "/api/v1/series?caller=k1",
    "/api/v1/series?rule=per-key&caller=k1&step=1s",
    "/api/v1/series?step=1h",
    "/api/v1/callers?limit=10001",
    "/api/v1/callers?offset=-1",
    "/api/v1/callers?minutes=0",
    "/api/v1/callers?sort=other",
    "/api/v1/exceptions?limit=10001",
    "/api/v1/usage",
    "/api/v1/usage?a%3Db=c",
    "/api/v1/usage?api_key=k1&minutes=x",
    "/api/v1/endpoints?minutes=1441",
    "/api/v1/tiers?limit=10001",
    "/api/v1/events?other=1",
    "/api/v1/regions?limit=10001",
    "/regions?limit=x",
    "/counters?limit=100001",
    "/counters?other=1",
    "/api/v1/openapi.yaml?other=1",
    "/api/v1/status?minutes=5",
    "/api/v1/rules?rule=per-key",
    "/api/v1/agents?other",
    "/api/v1/partitions?other=",
    "/dead-letters?limit=1",
    "/healthz?other=1",
    "/readyz?other=1",
    "/metrics?other=1",
];

/// Questions to one aggregator, and the statuses of the answers by path.
struct Questions {
    address: SocketAddr,
    answered: BTreeSet<(String, u16)>,
}

impl Questions {
    fn get(&mut self, path: &str) -> Answer {
        let answer = ask(self.address, "GET", path);
        self.note(path, &answer);
        answer
    }

    fn note(&mut self, path: &str, answer: &Answer) {
        let name = contract().path(path).unwrap_or_else(|| panic!("{path} is not described"));
        self.answered.insert((name.to_owned(), answer.status));
    }

    fn expect(&mut self, status: u16, paths: &[&str]) {
        for path in paths {
            let answer = self.get(path);
            assert_eq!(answer.status, status, "{path}: {}", answer.body);
        }
    }
}

/// Returns a batch with an admitted and a denied call of one caller, a reset, and an endpoint and a tier.
fn batch(now: Timestamp, generation: u64) -> Batch {
    let (id, window) = (DigestKey::default().counter(RULE, ["k1"]), Window::new(3_600_000, 1).expect("a window"));
    let row = |call, outcome, home| Row {
        call,
        counter: Some(0),
        at: now,
        sub_window: window.sub_window(now),
        cost: (outcome != Outcome::Reset).into(),
        outcome,
        shadow_denied: false,
        source: Source::Store,
        home,
    };
    let home =
        |denied| Some(Home { descriptors: 0, decider: Some(4), shadow_denied: false, denied, remaining: Some(1) });
    let cause = DenialCause::Count;
    Batch {
        traces: Vec::new(),
        name: BatchName { agent: "gw-2".into(), epoch: 1, partition: id.partition(2), sequence: generation },
        region: "eu".into(),
        complete_through: now,
        counters: vec![CounterEntry {
            id,
            rule: RULE.into(),
            label: "api_key=k1".into(),
            generation,
            quota: 1,
            window,
        }],
        texts: [ENDPOINT, "/orders", TIER, "gold", RULE].into_iter().collect(),
        descriptor_sets: vec![[(0, 1), (2, 3)].into_iter().collect()],
        rows: vec![
            row(0, Outcome::Reset, None),
            row(1, Outcome::Admitted, home(None)),
            row(2, Outcome::Denied(cause), home(Some(cause))),
        ],
    }
}

/// Returns a heartbeat of an agent whose store is down, with the emergency switch on.
fn heartbeat(now: Timestamp) -> Presence {
    Presence {
        id: "gw-2".into(),
        epoch: 1,
        region: "eu".into(),
        role: Role::Agent,
        generation: 1,
        clock: now,
        open_breakers: vec!["redis".into()],
        dropped_rows: 3,
        leaving: false,
        http: "".into(),
        partitions: Vec::new(),
        coordinates: false,
        emergency: Some(EmergencySwitch { quota: "10/s".parse().ok(), changed_at: now }),
        resets: Vec::new(),
        rules_refusal: "an unknown setting".into(),
        rules_published: true,
    }
}

/// Checks that an answer with a member more, or with one less, does not fit its description.
fn assert_closed(path: &str, answer: &Answer) {
    let body = answer.json();
    each_value(&body, "", &mut |pointer, value| {
        let Value::Object(members) = value else { return };
        if FREE.iter().any(|free| pointer.ends_with(free)) {
            return;
        }
        let mut more = members.clone();
        more.insert("unknown".to_owned(), json!(1));
        let less = members.keys().map(|name| {
            let mut less = members.clone();
            less.remove(name);
            (name.as_str(), less)
        });
        for (name, changed) in less.chain([("unknown", more)]) {
            let mut other = body.clone();
            *other.pointer_mut(pointer).expect("it is there") = Value::Object(changed);
            let other = Answer { body: other.to_string(), ..answer.clone() };
            let fault = contract().check("GET", path, &other.described());
            assert!(fault.is_err(), "{path}: `{name}` at `{pointer}` may be there or not");
        }
    });
}

/// Publishes calls of a rule that changes, heartbeats of an agent and a dead letter, and waits until they are shown.
fn fill(world: &mut World, http: SocketAddr) {
    let eu = 0;
    let bus = world.regions[eu].bus.clone();
    let (mut calls, mut presence) = (bus.writer(Topic::Calls), bus.writer(Topic::Presence));
    let mut publish = |now, generation| {
        let batch = batch(now, generation);
        calls.append(batch.name.partition, batch.encode(), 0).expect("there is room");
        presence.append(0, heartbeat(now).encode(), 0).expect("there is room");
    };
    publish(world.clock.now(), 1);
    let of_rule = "/api/v1/callers?rule=per-key";
    world.call_until(eu, "the rule is known", |_| ask(http, "GET", of_rule).status == 200);
    publish(world.clock.now(), 2);
    world.call_until(eu, "the rules have changed", |_| get(http, "/api/v1/status")["rules_changed_ms"].is_u64());
    bus.writer(Topic::Calls).append(0, b"no batch".to_vec(), 0).expect("there is room");
    world.call_until(eu, "a dead letter", |_| get(http, "/dead-letters")["dead_letters"][0].is_object());
    world.call_until(eu, "a full limit", |_| get(http, "/api/v1/callers?sort=near")["callers"][0]["used"].is_u64());
}

#[tokio::test(flavor = "multi_thread")]
async fn every_status_of_every_path_is_as_described() {
    let (mut world, eu) = (World::new(1_000), 0);
    world.regions[eu].bus_link.set_cut(true);
    let member = world.start(eu, "eu-a", 71, true).await;
    let http = member.http;
    let mut questions = Questions { address: http, answered: BTreeSet::new() };
    world.call_until(eu, "the bus is missed", |_| get(http, "/healthz")["status"] == "degraded");
    let unready = questions.get("/readyz");
    assert_eq!((unready.status, &unready.json()["ready"]), (503, &json!(false)));
    for path in ["/healthz", "/api/v1/status"] {
        let answer = questions.get(path);
        let problem = &answer.json()["problems"][0];
        assert!(problem["part"] == "kafka" && problem["since_ms"].as_u64() > Some(0), "{path}: {problem}");
        assert_closed(path, &answer);
    }
    world.regions[eu].bus_link.set_cut(false);
    world.call_until(eu, "eu has most units", |world| world.limit(eu) >= MOST);

    fill(&mut world, http);
    // The agent is heard until all questions are answered.
    let mut presence = world.regions[eu].bus.writer(Topic::Presence);
    for (path, filled) in FILLED {
        presence.append(0, heartbeat(world.clock.now()).encode(), 0).expect("there is room");
        let answer = questions.get(path);
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
        let is_filled = answer.json().pointer(filled).is_some_and(|value| !value.is_null());
        assert!(is_filled, "{path} has no {filled}: {}", answer.body);
        assert_closed(path, &answer);
    }
    questions
        .expect(200, &["/", "/page/app.js", "/page/style.css", "/page/icon.svg", "/page/uPlot.js", "/page/uPlot.css"]);
    questions.expect(200, &["/api/v1/openapi.yaml", "/metrics"]);

    let day_ago = world.clock.now().as_ms() - 25 * 3_600_000;
    questions.expect(404, &["/page/other.js", "/page/%ff"]);
    questions.expect(404, &["/api/v1/series?rule=other", "/api/v1/callers?rule=other"]);
    questions.expect(400, &REFUSED);
    questions.expect(400, &[&format!("/api/v1/series?step=1m&from_ms={day_ago}")]);
    questions.expect(200, &["/api/v1/callers?offset=18446744073709551615", "/api/v1/callers?limit=0"]);

    world.call_until(eu, "a new point", |world| {
        let from_ms = world.clock.now().minus_ms(4_000).as_ms();
        get(http, &format!("/api/v1/series?rule=global&from_ms={from_ms}"))["points"][0].is_array()
    });
    let (answer, first) = listen(http, "/api/v1/events?rule=global", 2);
    let events = answer.events();
    assert_eq!(events.len(), 2, "{}", answer.body);
    assert!(events.iter().all(|event| event["points"][0].is_array()), "{}", answer.body);
    questions.note("/api/v1/events", &answer);
    let clients: Vec<_> = (1..LISTENERS_MAX).map(|_| listen(http, "/api/v1/events", 1)).collect();
    questions.expect(503, &["/api/v1/events"]);
    drop((first, clients));

    let handles = (member.aggregator.queries(), member.aggregator.analytics());
    questions.address = serve(api::router("eu-a".into(), handles, None, member.aggregator.metrics(), None)).await;
    questions.expect(404, &["/regions", "/api/v1/regions"]);

    world.call_until(eu, "eu holds units", |_| get(http, "/regions")["counters"][0].is_object());
    // The routes outlive the aggregator.
    drop(member);
    let (answer, _) = listen(questions.address, "/api/v1/events", 1);
    assert_eq!(answer.events()[0]["status"], Value::Null);
    questions.address = http;
    questions.expect(503, &["/healthz", "/readyz", "/dead-letters", "/counters"]);
    questions.expect(503, &["/api/v1/status", "/api/v1/agents", "/api/v1/partitions"]);
    assert_eq!(questions.get("/regions").json()["counters"][0]["label"], Value::Null);

    for (path, operation) in operations() {
        for status in operation["responses"].as_object().expect("statuses").keys() {
            let is_answered = questions.answered.contains(&(path.to_owned(), status.parse().expect("a number")));
            assert!(is_answered || *status == "503" && NEVER_BUSY.contains(&path), "no answer of {path} has {status}");
        }
    }
}
