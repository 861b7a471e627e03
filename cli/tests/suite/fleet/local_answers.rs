//! Local answers of an agent on a real Redis, as gateways and operators see them: in the answers, in `/explain`, and in
//! the metrics.

use serde_json::Value;
use tollgate_servers::{Redis, free_port};

use super::fleet_of_processes::Member;
use crate::support::{Client, file, wait_for};

/// The deadline is one that a busy machine keeps.
const RULES: &str = "rules: [{ name: per-key, per: [api_key], quota: 1000/min, deadline: 1s }]";
const STRICT_RULES: &str =
    "rules: [{ name: per-key, per: [api_key], quota: 1000/min, consistency: strict, deadline: 1s }]";
/// Calls by which an agent gets leases for a key.
const FIRST_CALLS: u64 = 60;
/// A call that no window has room for.
const TOO_LARGE: &str = r#"{"descriptors": {"api_key": "large"}, "cost": 1001}"#;

/// Gateway that counts its local answers.
struct Gateway {
    client: Client,
    leases: u64,
    parts: u64,
}

impl Gateway {
    /// Asks for one unit of a key. Returns the text of `by`.
    fn check(&mut self, key: &str) -> Option<String> {
        let body = self.client.check(key).json();
        let is_of_agent = ["local", "fallback"].map(Value::from).contains(&body["source"]);
        assert_eq!(body["by"].is_string(), is_of_agent, "{body}");
        let by = body["by"].as_str().map(str::to_owned);
        self.leases += u64::from(by.as_deref() == Some("lease"));
        self.parts += u64::from(by.as_deref() == Some("part"));
        by
    }

    /// Returns `by` of the only rule in the explanation of a call.
    fn explained(&mut self, call: &str) -> Value {
        self.client.send("POST", "/explain", &[], call);
        let mut explanation = self.client.receive().json();
        explanation["rules"][0]["by"].take()
    }
}

/// C4, C5: calls of a busy key are admitted by leases. While Redis is late, a call is admitted by the part of the agent.
/// Answers and `/explain` name the part that decided. The metrics of the rule count each leased unit as spent or
/// stranded.
#[test]
fn answers_explanations_and_metrics_show_the_local_answers() {
    let (redis, rules) = (Redis::start(), file("local-answers.yaml", RULES));
    let http = format!("127.0.0.1:{}", free_port());
    let args =
        ["agent", "--node", "gw-1", "--agents-expected", "1", "--redis", &redis.url(), "--http", &http, "--rules"];
    let agent = Member::start(args.iter().map(ToString::to_string).chain([rules.display().to_string()]).collect());
    agent.wait_until_ready();
    let mut gateway = Gateway { client: agent.client(), leases: 0, parts: 0 };

    // No lease is asked for at the end of a sub-window.
    let mut by_store = 0;
    wait_for("an admission by a lease", || {
        let by = gateway.check("busy");
        by_store += u64::from(by.is_none());
        (by? == "lease").then_some(())
    });
    assert!(by_store > 0, "the first calls ask Redis");

    // The agent has a part once it has learned the size of the fleet.
    let mut keys = 0;
    wait_for("an admission by the part", || {
        keys += 1;
        let key = format!("late-{keys}");
        (0..FIRST_CALLS).for_each(|_| drop(gateway.check(&key)));
        redis.pause();
        let mut by = Some("lease".to_owned());
        while by.as_deref() == Some("lease") {
            by = gateway.check(&key);
        }
        redis.resume();
        (by? == "part").then_some(())
    });

    wait_for("a decision by Redis", || {
        keys += 1;
        (gateway.client.check(&format!("back-{keys}")).json()["source"] == "store").then_some(())
    });
    let denied = [(); 2].map(|()| gateway.client.post(TOO_LARGE).json());
    assert_eq!(denied.each_ref().map(|body| body["source"].as_str()), [Some("store"), Some("local")], "{denied:?}");
    assert_eq!((&denied[0]["by"], &denied[1]["by"]), (&Value::Null, &"cached_denial".into()));
    assert_eq!(gateway.explained(TOO_LARGE), "cached_denial");

    let call = r#"{"descriptors": {"api_key": "busy"}}"#;
    assert_eq!(gateway.explained(r#"{"descriptors": {"api_key": "new"}}"#), Value::Null);
    wait_for("an unspent lease in the explanation", || {
        let is_leased = gateway.explained(call) == "lease";
        is_leased.then_some(()).or_else(|| gateway.check("busy").and(None))
    });

    let metric = |name: &str| agent.series(&format!("tollgate_{name}_total"), "rule=\"per-key\"");
    wait_for("the end of all leases", || {
        let [leased, stranded] = ["lease_units", "lease_units_stranded"].map(metric);
        (stranded > 0 && leased == gateway.leases + stranded).then_some(())
    });
    assert_eq!(metric("late_part_units"), gateway.parts);
}

/// B7: while Redis is late, a strict rule denies a call whose count it does not know. The answer says so, and names no count.
/// The call passes once Redis answers again.
#[test]
fn a_strict_rule_denies_without_a_count_while_redis_is_late() {
    let (redis, rules) = (Redis::start(), file("late-denial.yaml", STRICT_RULES));
    let http = format!("127.0.0.1:{}", free_port());
    let args = ["agent", "--node", "gw-1", "--redis", &redis.url(), "--http", &http, "--rules"];
    let agent = Member::start(args.iter().map(ToString::to_string).chain([rules.display().to_string()]).collect());
    agent.wait_until_ready();
    let mut client = agent.client();
    assert_eq!(client.check("before").json()["allowed"], true);

    redis.pause();
    let denied = client.check("late").json();
    redis.resume();
    assert_eq!((&denied["allowed"], &denied["by"]), (&false.into(), &"late".into()), "{denied}");
    assert_eq!(denied["remaining"], Value::Null, "{denied}");
    assert_eq!(agent.series("tollgate_late_denials_total", "rule=\"per-key\""), 1);
    wait_for("an admission by Redis", || (client.check("late").json()["allowed"] == true).then_some(()));
}
