//! The emergency switch over HTTP: who may set it, what it shows, and what callers see.

use http::StatusCode;
use tollgate::{Agent, Rule};

use crate::support::{Answer, CALL, Client, Sidecar};

async fn switch(client: &mut Client, body: &str) -> Answer {
    client.ask("POST", "/emergency", &[], body.to_owned()).await
}

/// I5, H4: while the switch is on, the 11th call in a second of an IP is denied, although the rules would admit it.
/// Every answer is visibly degraded. When it is off, the rules limit again, with the counts that they had.
#[tokio::test]
async fn the_switch_limits_each_caller_until_it_is_off() {
    let rule = Rule::per("pair", &["api_key"], "100/h".parse().unwrap());
    let agent = Agent::builder().node("gw-1").rule(rule).start().unwrap();
    let mut client = Sidecar::of(agent).await.client().await;
    let state = client.get("/emergency", &[]).await.json();
    assert_eq!((&state["on"], &state["quota"], &state["changed_at_ms"]), (&false.into(), &().into(), &().into()));
    for _ in 0..2 {
        assert_eq!(client.post(CALL).await.json()["rule"], "pair", "a call that the agent knows");
    }

    let state = switch(&mut client, r#"{"on": true}"#).await.json();
    assert_eq!((&state["on"], &state["quota"], &state["per"]), (&true.into(), &"10/s".into(), &"ip".into()));
    assert_eq!(state["agents"], "this agent only, because it has no bus; send the request to each agent");
    let state = switch(&mut client, r#"{"on": true, "quota": "10/h"}"#).await.json();
    assert_eq!(state["quota"], "10/h");
    assert_eq!(client.get("/emergency", &[]).await.json(), state);
    let call = |ip| format!(r#"{{"descriptors": {{"ip": "{ip}", "api_key": "k1"}}}}"#);
    for number in 1..=11 {
        let answer = client.post(call("1.2.3.4")).await;
        let expected = if number <= 10 { StatusCode::OK } else { StatusCode::TOO_MANY_REQUESTS };
        assert_eq!((number, answer.status), (number, expected));
        assert_eq!(answer.header("x-ratelimit-policy"), "degraded");
        let body = answer.json();
        assert_eq!(
            (&body["rule"], &body["source"], &body["limit"]),
            (&"emergency".into(), &"fallback".into(), &10.into())
        );
    }
    assert_eq!(client.post(call("1.2.3.5")).await.status, StatusCode::OK, "another caller");
    let by_values = client.post(CALL).await.json();
    assert_eq!((&by_values["rule"], &by_values["remaining"]), (&"emergency".into(), &9.into()), "a call without ip");
    assert_eq!(client.get("/healthz", &[]).await.json()["emergency"], true);
    let metrics = client.get("/metrics", &[]).await;
    let text = String::from_utf8(metrics.body.to_vec()).unwrap();
    assert!(text.contains("\ntollgate_emergency 1\n"), "{text}");
    let denied = r#"tollgate_decisions_total{rule="emergency",outcome="denied",source="fallback"} 1"#;
    assert!(text.contains(denied), "{text}");

    assert_eq!(switch(&mut client, r#"{"on": false}"#).await.json()["on"], false);
    let body = client.post(CALL).await.json();
    assert_eq!((&body["rule"], &body["remaining"], &body["source"]), (&"pair".into(), &97.into(), &"store".into()));
}

/// I5, G8: the switch is for every caller, and the explanation of a call says that it is on.
#[tokio::test]
async fn the_switch_limits_callers_of_the_allow_list_and_is_explained() {
    let rules = "rules: [{ name: r, per: [api_key], quota: 1/h }]\nlists: { allow: [{ user: ours }] }";
    let rules = tollgate_rules::from_yaml("rules.yaml", rules, 1).unwrap();
    let mut client = Sidecar::of(Agent::builder().rules(rules).start().unwrap()).await.client().await;
    let call = r#"{"descriptors": {"api_key": "k", "user": "ours"}}"#;
    for (quota, denied, emergency) in [(None, 0, ().into()), (Some("2/h"), 1, "2/h".into()), (None, 0, ().into())] {
        let body = quota.map_or(r#"{"on": false}"#.into(), |quota| format!(r#"{{"on": true, "quota": "{quota}"}}"#));
        assert_eq!(switch(&mut client, &body).await.status, StatusCode::OK);
        let mut seen = 0;
        for _ in 0..3 {
            seen += usize::from(client.post(call).await.status == StatusCode::TOO_MANY_REQUESTS);
        }
        let explained = client.ask("POST", "/explain", &[], call).await.json();
        assert_eq!((seen, &explained["emergency"], &explained["list"]), (denied, &emergency, &"allow".into()));
    }
}

#[tokio::test]
async fn a_body_that_is_not_understood_changes_nothing() {
    let mut client = Sidecar::start(&["api_key"]).await.client().await;
    for (body, reason) in [
        ("", "EOF"),
        ("[]", "expected an object with `on` and `quota`"),
        (r#""on""#, "expected an object with `on` and `quota`"),
        (r#"{"on": "yes"}"#, "expected a boolean"),
        (r#"{"quota": "10/s"}"#, "missing field `on`"),
        (r#"{"on": true, "qouta": "10/s"}"#, "unknown field `qouta`"),
        (r#"{"on": true, "on": false}"#, "duplicate field `on`"),
        (r#"{"on": true, "quota": "ten"}"#, "`quota`: "),
        (r#"{"on": true, "quota": "10/d"}"#, "longer than an hour"),
    ] {
        let detail = switch(&mut client, body).await.problem(400);
        assert!(
            detail.contains(reason) && detail.ends_with(r#"send {"on": true, "quota": "10/s"} or {"on": false}"#),
            "{detail}"
        );
        assert_eq!(client.get("/emergency", &[]).await.json()["on"], false);
    }
}

/// A page in a browser on the agent's machine, and a client of a proxy on it, must not change the limits of the fleet.
#[tokio::test]
async fn neither_a_browser_nor_a_proxy_may_set_it() {
    let mut client = Sidecar::start(&["api_key"]).await.client().await;
    for header in [("origin", "http://evil.example"), ("x-forwarded-for", "192.0.2.1"), ("forwarded", "for=192.0.2.1")]
    {
        let answer = client.ask("POST", "/emergency", &[header], r#"{"on": true}"#).await;
        assert!(answer.problem(403).contains("from the agent's own machine, not through a proxy or a browser"));
        assert_eq!(client.get("/emergency", &[]).await.json()["on"], false);
    }
    assert_eq!(switch(&mut client, r#"{"on": true}"#).await.json()["on"], true, "on the same connection");
}
