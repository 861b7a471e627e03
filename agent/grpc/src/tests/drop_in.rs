//! Features of envoyproxy/ratelimit, by the names that its README gives them: a gateway that asked it asks the agent instead.

use prost_types::value::Kind;

use super::*;

/// Configuration of domain `web` with the descriptors under it.
fn config(descriptors: &str) -> String {
    format!("domain: web\ndescriptors:\n{descriptors}")
}

fn router_of(descriptors: &str) -> Router {
    router_with(descriptors, EnvoySettings::default())
}

fn router_with(descriptors: &str, settings: EnvoySettings) -> Router {
    crate::router(builder(&config(descriptors), settings).start().unwrap())
}

/// Returns the overall code, and the code and the rest of each descriptor.
async fn codes(router: &Router, descriptors: &[&[(&str, &str)]]) -> (Code, Vec<(Code, u32)>) {
    let asked = request(descriptors.iter().map(|entries| descriptor(entries)).collect());
    let response = limit(router, &asked).await.unwrap();
    let statuses = response.statuses.iter().map(|status| (status.code(), status.limit_remaining));
    (response.overall_code(), statuses.collect())
}

/// Returns the overall code of a request with one descriptor.
async fn code(router: &Router, entries: &[(&str, &str)]) -> Code {
    codes(router, &[entries]).await.0
}

/// P1: a descriptor is limited at the depth of its entries, and values have counters of their own.
#[tokio::test]
async fn nested_descriptors() {
    let router = router_of(
        "  - key: user
    rate_limit: { unit: hour, requests_per_unit: 2 }
    descriptors:
      - { key: path, value: /slow, rate_limit: { unit: hour, requests_per_unit: 1 } }
",
    );
    let slow: &[_] = &[("user", "u1"), ("path", "/slow")];
    let expected = [
        (slow, Code::Ok),
        (slow, Code::OverLimit),
        (&[("user", "u1")], Code::Ok),
        (&[("user", "u2"), ("path", "/slow")], Code::Ok),
    ];
    for (entries, expected) in expected {
        assert_eq!(code(&router, entries).await, expected, "{entries:?}");
    }
}

/// P1: a `*` stands for any text at any place of a value; an exact value wins.
#[tokio::test]
async fn wildcards_anywhere_in_a_value() {
    let router = router_of(
        "  - { key: path, value: /api/*/list*, rate_limit: { unit: hour, requests_per_unit: 1 } }
  - { key: path, value: /api/free/list, rate_limit: { unlimited: true } }
",
    );
    for (path, expected) in [
        ("/api/v1/list", Code::Ok),
        ("/api/v1/list", Code::OverLimit),
        ("/api/v1/lists", Code::Ok),
        ("/api/free/list", Code::Ok),
        ("/api/free/list", Code::Ok),
        ("/other", Code::Ok),
    ] {
        assert_eq!(code(&router, &[("path", path)]).await, expected, "{path}");
    }
}

/// P1: values that one wildcard matches share a counter on request.
#[tokio::test]
async fn share_threshold() {
    let router = router_of(
        "  - { key: file, value: 'a*', share_threshold: true, rate_limit: { unit: hour, requests_per_unit: 2 } }\n",
    );
    let asked = [("a1", Code::Ok), ("a2", Code::Ok), ("a3", Code::OverLimit)];
    for (file, expected) in asked {
        assert_eq!(code(&router, &[("file", file)]).await, expected, "{file}");
    }
}

/// P1: a limit that another descriptor of the request replaces does not apply to that request.
#[tokio::test]
async fn replaces_by_name() {
    let router = router_of(
        "  - { key: user, rate_limit: { name: per-user, unit: hour, requests_per_unit: 1 } }
  - { key: plan, value: paid, rate_limit: { unit: hour, requests_per_unit: 9, replaces: [{ name: per-user }] } }
",
    );
    let both: &[&[_]] = &[&[("user", "u1")], &[("plan", "paid")]];
    assert_eq!(codes(&router, both).await, (Code::Ok, vec![(Code::Ok, 0), (Code::Ok, 8)]));
    assert_eq!(codes(&router, &both[..1]).await, (Code::Ok, vec![(Code::Ok, 0)]), "alone, the user has one request");
    assert_eq!(code(&router, both[0]).await, Code::OverLimit);
    assert_eq!(codes(&router, both).await.0, Code::Ok);
}

/// P1, F11: a limit in shadow counts and never denies; with the flag of the agent, none does.
#[tokio::test]
async fn shadow_mode_and_its_global_form() {
    let limits = "  - { key: user, shadow_mode: true, rate_limit: { unit: hour, requests_per_unit: 1 } }
  - { key: plan, rate_limit: { unit: hour, requests_per_unit: 1 } }
";
    let asked: &[&[_]] = &[&[("user", "u1")], &[("plan", "free")]];
    for (shadow, last) in [(false, Code::OverLimit), (true, Code::Ok)] {
        let builder = builder(&config(limits), EnvoySettings::default());
        let agent = if shadow { builder.shadow() } else { builder }.start().unwrap();
        let router = crate::router(agent.clone());
        assert_eq!(codes(&router, asked).await.0, Code::Ok);
        let (overall, statuses) = codes(&router, asked).await;
        assert_eq!((overall, statuses[0].0, statuses[1].0), (last, Code::Ok, last), "--shadow {shadow}");
        let rules = agent.engine().metrics().rules();
        let denials: u64 = rules.iter().map(|(_, counts)| counts.shadow_denials.get()).sum();
        assert_eq!(denials, if shadow { 2 } else { 1 });
    }
}

/// P1: a request is denied only if all its limits in quota mode are over, and its answer names those that are.
#[tokio::test]
async fn quota_mode_and_its_global_form() {
    let limits = |mode: &str| {
        format!(
            "  - {{ key: model, value: large,{mode} rate_limit: {{ name: large, unit: hour, requests_per_unit: 1 }} }}
  - {{ key: model, value: small,{mode} rate_limit: {{ name: small, unit: hour, requests_per_unit: 2 }} }}
"
        )
    };
    let asked: &[&[_]] = &[&[("model", "large")], &[("model", "small")]];
    for (mode, quota_mode) in [(" quota_mode: true,", false), ("", true)] {
        let router = router_with(&limits(mode), EnvoySettings { quota_mode, ..EnvoySettings::default() });
        assert_eq!(codes(&router, asked).await, (Code::Ok, vec![(Code::Ok, 0), (Code::Ok, 1)]));
        let both = request(asked.iter().map(|entries| descriptor(entries)).collect());
        let over = limit(&router, &both).await.unwrap();
        let shown = (over.overall_code(), over.statuses[0].code(), over.statuses[1].code());
        assert_eq!(shown, (Code::Ok, Code::OverLimit, Code::Ok));
        let metadata = over.dynamic_metadata.unwrap().fields;
        let Some(Kind::ListValue(names)) = &metadata["over_quota"].kind else { panic!("{metadata:?}") };
        let names: Vec<_> = names.values.iter().map(|name| name.kind.clone()).collect();
        assert_eq!(names, [Some(Kind::StringValue("web/model:large".to_owned()))]);
        assert!(over.response_headers_to_add.iter().all(|header| header.key != "retry-after"));
        assert_eq!(codes(&router, asked).await.0, Code::OverLimit, "both are over");
        assert_eq!(code(&router, asked[0]).await, Code::OverLimit, "a request with one limit in quota mode");
    }
}

/// P1: a limit that is not in quota mode denies the request by itself.
#[tokio::test]
async fn a_limit_beside_those_in_quota_mode_denies() {
    let router = router_of(
        "  - { key: model, value: large, quota_mode: true, rate_limit: { unit: hour, requests_per_unit: 9 } }
  - { key: user, rate_limit: { unit: hour, requests_per_unit: 1 } }
",
    );
    let asked: &[&[_]] = &[&[("model", "large")], &[("user", "u1")]];
    assert_eq!(codes(&router, asked).await.0, Code::Ok);
    assert_eq!(codes(&router, asked).await, (Code::OverLimit, vec![(Code::Ok, 7), (Code::OverLimit, 0)]));
}

/// B8: negative hits give back what was charged, in domains that allow it, and no more.
#[tokio::test]
async fn negative_hits_give_back_units() {
    let settings = EnvoySettings { refunds: vec!["web".to_owned()], ..EnvoySettings::default() };
    let router = router_with("  - { key: user, rate_limit: { unit: hour, requests_per_unit: 10 } }\n", settings);
    let hits = |hits: u64, is_negative_hits| {
        let user = descriptor(&[("user", "u1")]);
        request(vec![RateLimitDescriptor { hits_addend: Some(hits), is_negative_hits, ..user }])
    };
    let remaining = async |asked| {
        let response = limit(&router, &asked).await.unwrap();
        (response.overall_code(), response.statuses[0].limit_remaining)
    };
    assert_eq!(remaining(hits(8, false)).await, (Code::Ok, 2));
    assert_eq!(remaining(hits(5, true)).await, (Code::Ok, 7));
    assert_eq!(remaining(hits(500, true)).await, (Code::Ok, 10), "no more than was charged");
    assert_eq!(remaining(hits(10, false)).await, (Code::Ok, 0));
    assert_eq!(remaining(hits(1, false)).await.0, Code::OverLimit);
    assert_eq!(remaining(hits(2, true)).await, (Code::Ok, 1), "a denied hit was counted, too");
    assert_eq!(remaining(hits(1, false)).await, (Code::Ok, 0), "what was given back passes at once");
}

/// P1: a descriptor with negative hits stands among others; statuses keep their order.
#[tokio::test]
async fn negative_hits_beside_others() {
    let settings = EnvoySettings { refunds: vec!["web".to_owned()], ..EnvoySettings::default() };
    let router = router_with(
        "  - { key: user, rate_limit: { unit: hour, requests_per_unit: 10 } }
  - { key: plan, rate_limit: { unit: day, requests_per_unit: 20 } }
",
        settings,
    );
    let user = |hits, is_negative_hits| RateLimitDescriptor {
        hits_addend: Some(hits),
        is_negative_hits,
        ..descriptor(&[("user", "u1")])
    };
    limit(&router, &request(vec![user(4, false)])).await.unwrap();
    let mixed = request(vec![user(2, true), descriptor(&[("plan", "free")]), user(1, true)]);
    let response = limit(&router, &mixed).await.unwrap();
    let units =
        response.statuses.iter().map(|status| (status.current_limit.as_ref().unwrap().unit(), status.limit_remaining));
    assert_eq!(units.collect::<Vec<_>>(), [(Unit::Hour, 8), (Unit::Day, 19), (Unit::Hour, 9)]);
}

/// F16: a rule takes the limit that the request brings, if it says so.
#[tokio::test]
async fn a_limit_of_the_request() {
    let rules = "rules:
  - { name: per-user, match: { domain: web }, per: [user], quota: { from: limit, default: 2/h } }
";
    let rules = tollgate_rules::from_yaml("rules.yaml", rules, 1).unwrap();
    let router = crate::router(Agent::builder().rules(rules).start().unwrap());
    let brought = RateLimitOverride { requests_per_unit: 5, unit: RateLimitUnit::Hour.into() };
    let with_limit = RateLimitDescriptor { limit: Some(brought), ..descriptor(&[("user", "u1")]) };
    let response = limit(&router, &request(vec![with_limit])).await.unwrap();
    let status = &response.statuses[0];
    let current = status.current_limit.as_ref().unwrap();
    assert_eq!((current.requests_per_unit, current.unit(), status.limit_remaining), (5, Unit::Hour, 4));
    let response = limit(&router, &request(vec![descriptor(&[("user", "u2")])])).await.unwrap();
    assert_eq!(response.statuses[0].limit_remaining, 1, "the default of the rule");
}

/// F16: a limit of a request in another unit than that of the rule is refused, because it would drop what is counted. So are negative
/// hits with a limit, and an entry that is named `limit` chooses no quota.
#[tokio::test]
async fn a_limit_of_the_request_clears_nothing() {
    let rules =
        "rules: [{ name: per-user, match: { domain: web }, per: [user], quota: { from: limit, default: 2/h } }]";
    let rules = tollgate_rules::from_yaml("rules.yaml", rules, 1).unwrap();
    let router = crate::router(Agent::builder().rules(rules).start().unwrap());
    let brought = |requests_per_unit, unit: RateLimitUnit, is_negative_hits| RateLimitDescriptor {
        limit: Some(RateLimitOverride { requests_per_unit, unit: unit.into() }),
        is_negative_hits,
        ..descriptor(&[("user", "u1")])
    };
    let ask = async |descriptor| limit(&router, &request(vec![descriptor])).await;
    for expected in [Code::Ok, Code::Ok, Code::Ok, Code::OverLimit] {
        assert_eq!(ask(brought(3, RateLimitUnit::Hour, false)).await.unwrap().overall_code(), expected);
    }
    let (_, text) = ask(brought(100, RateLimitUnit::Second, false)).await.unwrap_err();
    assert!(text.contains("per SECOND, and rule `per-user` counts in another unit"), "{text}");
    let (_, text) = ask(brought(3, RateLimitUnit::Hour, true)).await.unwrap_err();
    assert!(text.contains("negative hits and brings a `limit`"), "{text}");
    let forged = descriptor(&[("user", "u1"), ("limit", "1000/h")]);
    assert_eq!(ask(forged).await.unwrap().overall_code(), Code::OverLimit);
}

/// P1: a refund takes nothing from a limit that another descriptor of the request replaces.
#[tokio::test]
async fn negative_hits_take_nothing_from_a_replaced_limit() {
    let settings = EnvoySettings { refunds: vec!["web".to_owned()], ..EnvoySettings::default() };
    let router = router_with(
        "  - { key: user, rate_limit: { name: per-user, unit: hour, requests_per_unit: 2 } }
  - { key: plan, rate_limit: { unit: hour, requests_per_unit: 9, replaces: [{ name: per-user }] } }
",
        settings,
    );
    let user: &[_] = &[("user", "u1")];
    assert_eq!([code(&router, user).await, code(&router, user).await], [Code::Ok; 2]);
    let back = |entries| RateLimitDescriptor { is_negative_hits: true, ..descriptor(entries) };
    let both = request(vec![back(user), back(&[("plan", "paid")])]);
    assert_eq!(limit(&router, &both).await.unwrap().overall_code(), Code::Ok);
    assert_eq!(code(&router, user).await, Code::OverLimit);
}

/// P1: settings of metrics change no decision.
#[tokio::test]
async fn value_to_metric_and_detailed_metric() {
    let router = router_of(
        "  - { key: user, value_to_metric: true, detailed_metric: true, rate_limit: { unit: hour, requests_per_unit: 1 } }\n",
    );
    assert_eq!(code(&router, &[("user", "u1")]).await, Code::Ok);
    assert_eq!(code(&router, &[("user", "u1")]).await, Code::OverLimit);
}

/// P1: each unit has its window.
#[tokio::test]
async fn units_from_second_to_year() {
    let units = ["second", "minute", "hour", "day", "week", "month", "year"];
    let limits =
        units.map(|unit| format!("  - {{ key: {unit}, rate_limit: {{ unit: {unit}, requests_per_unit: 5 }} }}\n"));
    let router = router_of(&limits.concat());
    let all = request(units.iter().map(|unit| descriptor(&[(unit, "x")])).collect());
    let response = limit(&router, &all).await.unwrap();
    let shown = response.statuses.iter().map(|status| status.current_limit.as_ref().unwrap().unit());
    let expected = [Unit::Second, Unit::Minute, Unit::Hour, Unit::Day, Unit::Week, Unit::Month, Unit::Year];
    assert_eq!(shown.collect::<Vec<_>>(), expected);
}
