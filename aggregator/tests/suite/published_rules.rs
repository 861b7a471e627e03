//! Published rules in the answers of an aggregator: which agents enforce them, and their exceptions with an end.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tollgate_aggregator::rule_mirror::RuleCopier;
use tollgate_aggregator::{Aggregator, NewestRules, ReplayWindow, WorkerSettings, api};
use tollgate_bus::embedded::EmbeddedBus;
use tollgate_bus::{Bus, LogWriter, Topic};
use tollgate_core::clock::{Clock, Stopwatch, SystemClock, Timestamp};
use tollgate_core::messages::presence::{Presence, Role};
use tollgate_core::messages::rules::Published;
use tollgate_rules::display;
use tollgate_wire::Record;

use crate::embedded::batch;
use crate::support::{get, serve};

const PATIENCE: Duration = Duration::from_secs(10);
const TEXT: &str = "
rules:
  - name: per-key
    per: [api_key]
    quota: 10/min
    tiers: { gold: { quota: 50/min }, free: { quota: 5/min } }
  - { name: other, per: [ip], quota: 10/min }
";

fn heartbeat(id: &str, generation: u64, rules_refusal: &str, clock: Timestamp) -> Presence {
    Presence {
        id: id.into(),
        epoch: 1,
        region: "eu".into(),
        role: Role::Agent,
        generation,
        clock,
        open_breakers: Vec::new(),
        dropped_rows: 0,
        leaving: false,
        http: "".into(),
        partitions: Vec::new(),
        coordinates: false,
        emergency: None,
        resets: Vec::new(),
        rules_refusal: rules_refusal.into(),
        rules_published: id != "own",
    }
}

/// Returns the overrides of the published rules; one of them has ended.
fn overrides(now: Timestamp) -> String {
    let (ended, ends) = (display::utc(now.minus_ms(1)), display::utc(now.plus_ms(3_600_000)));
    format!(
        "
- {{ rule: per-key, tier: gold, quota: 90/min, until: {ends}, reason: launch }}
- {{ rule: per-key, tier: free, quota: 80/min, until: {ended} }}
- {{ rule: per-key, key: secret-key, quota: unlimited, until: {ends} }}
- {{ rule: other, key: 10.0.0.1, quota: x2, until: {ends} }}
- {{ deny: {{ api_key: leaked-key }}, until: {ends}, reason: leaked }}
- {{ allow: {{ api_key: friend }}, until: {ended} }}
"
    )
}

/// Returns an answer with a condition.
fn awaited(what: &str, ask: impl Fn() -> Value, holds: impl Fn(&Value) -> bool) -> Value {
    let waited = Stopwatch::start();
    loop {
        let answer = ask();
        if holds(&answer) {
            return answer;
        }
        assert!(waited.elapsed() < PATIENCE, "{what}: {answer}");
        std::thread::park_timeout(Duration::from_millis(10));
    }
}

/// F7, G2, G5, G9, H6: of each agent, whether it has the newest published rules, and of each exception, its end.
#[tokio::test(flavor = "multi_thread")]
async fn agents_that_lag_and_exceptions_until_their_end_are_told() {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::start());
    let bus = EmbeddedBus::new(clock.clone(), 2);
    let now = clock.now();
    let mut rules = bus.writer(Topic::Rules);
    for published in [
        Published::new("rules.yaml", TEXT),
        Published { overrides: overrides(now), ..Published::new("rules.yaml", TEXT) },
    ] {
        rules.append(0, published.encode(), 0).expect("there is room");
    }
    let shown = NewestRules::default();
    let _copier = RuleCopier::start(&bus, None, None, &ReplayWindow::default(), None, &shown).expect("a thread");
    let aggregator = Aggregator::start(&bus, WorkerSettings::new("a"), None, clock.clone()).expect("threads");
    let analytics = aggregator.analytics().with_rules(shown.known());
    let http =
        serve(api::router("a".into(), (aggregator.queries(), analytics), None, aggregator.metrics(), None)).await;

    bus.writer(Topic::Calls).append(1, batch(&*clock, 1).encode(), 0).expect("there is room");
    let used = awaited("a used rule", || get(http, "/api/v1/rules"), |told| told["rules"][0].is_object());
    let limit = used["rules"][0]["text"]["limit"].as_str().expect("a text");
    assert!(limit.contains("tier gold: 90/min") && limit.contains("tier free: 5/min"), "as they are now: {limit}");

    let mut presence = bus.writer(Topic::Presence);
    let agents = [("behind", 0, ""), ("newest", 1, ""), ("own", 7, ""), ("refusing", 0, "`quota` has an unknown unit")];
    for (id, generation, refusal) in agents {
        presence.append(0, heartbeat(id, generation, refusal, now).encode(), 0).expect("there is room");
    }
    let heard = awaited("agents", || get(http, "/api/v1/agents"), |told| told["agents"][3].is_object());
    assert_eq!(heard["newest_generation"], 1);
    for (agent, (id, generation, refusal)) in heard["agents"].as_array().expect("agents").iter().zip(agents) {
        let (state, refusal) = if refusal.is_empty() { (id, Value::Null) } else { ("refused", refusal.into()) };
        let told = ["agent", "generation", "rules_state", "rules_refusal"].map(|field| &agent[field]);
        assert_eq!(told, [&id.into(), &json!(generation), &state.into(), &refusal]);
    }

    assert_eq!(get(http, "/api/v1/status")["refusing_agents"], json!(["refusing"]));

    let of_rule = get(http, "/api/v1/exceptions?rule=per-key");
    assert_eq!((&of_rule["generation"], &of_rule["matched"]), (&json!(1), &json!(3)), "{of_rule}");
    let until_ms = now.plus_ms(3_600_000).as_ms();
    let exception = |rule: Option<&str>, list: Option<&str>, callers: &str, quota: Option<&str>, reason: &str| json!({ "rule": rule, "list": list, "callers": callers, "quota": quota, "until_ms": until_ms, "reason": reason });
    let secret = of_rule["exceptions"][1]["callers"].as_str().expect("callers");
    assert!(secret.starts_with("api_key=secr…"), "{secret}");
    let denied = of_rule["exceptions"][2]["callers"].as_str().expect("callers");
    assert_eq!(
        of_rule["exceptions"],
        json!([
            exception(Some("per-key"), None, "tier=gold", Some("90/min"), "launch"),
            exception(Some("per-key"), None, secret, Some("unlimited"), ""),
            exception(None, Some("deny"), denied, None, "leaked"),
        ])
    );
    let page = get(http, "/api/v1/exceptions?limit=1&offset=2");
    assert_eq!((&page["matched"], &page["exceptions"][0]["rule"]), (&json!(4), &"other".into()), "{page}");
}
