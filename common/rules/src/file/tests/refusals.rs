//! Refusals, each with reason and remedy.

use super::*;

fn refused(yaml: &str, reason: &str) {
    let text = refusal(yaml);
    assert!(text.contains(reason) && text.lines().count() == 1, "{yaml}\n{text}\nwanted: {reason}");
}

/// Asserts that a rule, per ip, is refused for one reason.
fn rule(settings: &str, reason: &str) {
    refused(&format!("rules: [{{ name: a, per: [ip], {settings} }}]"), reason);
}

/// F6: a rule that would deny every call is refused with the reason.
#[test]
fn a_rule_that_would_deny_every_call_is_refused() {
    rule("quota: 0/min", "a quota of 0 would deny every call");
    rule("quota: 5/0s", "a window is between 1 ms and 366 days wide");
    rule("quota: 5/min, burst: 0", "a burst of 0 would deny every call");
    rule("quota: 5/min, burst_multiplier: 0", "write a number above 0");
    rule("quota: 5/min, on_failure: limit 0/min", "a quota of 0 would deny every call");
    rule("quota: 5/min, cost: 6", "a call costs 6, and at most 5 pass at once, so every call would be denied");
    rule("quota: 600/min, algorithm: token_bucket, burst: 9, cost: 10", "at most 9 pass at once");
    rule("quota: 5/min, costs: { endpoint: { /a: 6, /b*: 7 } }", "every entry costs more than the 5");
    rule("quota: 5/min, cost: 8, costs: { endpoint: { /a: 6 } }", "a call costs 8");
    rule("quota: 5/min, keys: { k: { quota: 0/s } }", "a quota of 0");
    rule("quota: 5/min, tiers: { k: { quota: 0/s } }", "a quota of 0");
    rule("quota: { from: limit, default: 0/s }, match: { method: GET }", "a quota of 0");
    for entry in ["{}", "{ ip: '*' }", "{ ip: ['*', a] }", "{ ip: { regex: '.*' } }", "{ ip: '**', method: '*' }"] {
        let yaml = format!("rules: [{{ name: a, per: [ip], quota: 1/s }}]\nlists: {{ deny: [{entry}] }}");
        refused(&yaml, "rules.yaml:2: this entry denies every call");
    }
    let yaml = "rules: [{ name: a, per: [ip], quota: 1/s }]\nlists: { allow: [{}] }";
    refused(yaml, "rules.yaml:2: an empty entry allows every call");
    let burst = "rules: [{ name: a, per: [ip], quota: 5/min, burst: 6, cost: 6 }]";
    assert_eq!(accepted(burst).rules[0].cost, Some(6), "the burst lets it pass");
}

#[test]
fn policies_that_cannot_be_enforced_are_refused() {
    rule("quota: 10001/min, algorithm: sliding_log", "keeps every call, 10000 at most");
    rule("quota: 10001/min, algorithm: concurrency", "`concurrency` has at most 10000 slots; 10001 is more");
    rule("quota: 10/25d, algorithm: sliding_log", "remembers 24 days at most");
    rule("quota: 10/25d, algorithm: concurrency", "24 days at most");
    rule("quota: 100/min, burst: 99", "a burst of 99 is below 100/min");
    rule("quota: 100/min, burst_multiplier: 0.5", "a burst of 50 is below 100/min");
    rule("quota: 100/min, burst: true, consistency: strict", "`consistency: strict` promises that nothing does");
    rule("quota: 1000G/d, burst_multiplier: 1000", "cannot be counted exactly");
    rule("quota: 1/365d, algorithm: token_bucket, burst: 1G", "cannot be counted exactly");
    for algorithm in ["token_bucket", "leaky_bucket"] {
        let burst = |units: u64| format!("quota: 100000/s, algorithm: {algorithm}, burst: {units}");
        rule(&burst(99), "a burst of 99 admits at most 99000/s of 100000/s; write a burst of at least 100");
        let least = format!("rules: [{{ name: a, per: [ip], {} }}]", burst(100));
        assert!(accepted(&least).warnings.is_empty(), "the remedy");
    }
    rule("quota: 100/min, burst: 50MB", "a burst of 50MB is of another unit than 100/min");
    rule("quota: 100/min, burst: lots", "write a number of units, such as 200 or 50MB");
    rule("quota: 100/min, burst: 200, burst_multiplier: 2", "say the same thing");
    for word in ["1.2.3", "-1", "1e3", ".5", "2.", "1.2345678", "99999999999999999999"] {
        rule(&format!("quota: 100/min, burst_multiplier: {word}"), "write a number above 0, such as 1.2");
    }
}

#[test]
fn settings_that_an_algorithm_lacks_are_refused() {
    for algorithm in ["sliding_log", "fixed_window", "token_bucket", "leaky_bucket", "concurrency"] {
        rule(&format!("quota: 1/s, algorithm: {algorithm}, sub_windows: 2"), "has no `sub_windows`");
        rule(&format!("quota: 1/s, algorithm: {algorithm}, estimate: interpolated"), "takes no `estimate`");
    }
    for algorithm in ["sliding_log", "fixed_window", "concurrency"] {
        rule(&format!("quota: 1/s, algorithm: {algorithm}, burst: 2"), "takes no burst");
    }
    rule("quota: 1/s, algorithm: sliding_windows", "did you mean `sliding_window`?");
    rule("quota: 1/s, charge: both", "unknown charge `both`");
    rule("quota: 1/s, shadow: maybe", "write true or false");
    rule("quota: 1/s, scope: region", "did you mean `regional`?");
}

#[test]
fn a_quota_must_come_from_somewhere() {
    let tail = "rules:\n  - name: a\n    per: [ip]\n";
    refused(tail, "rules.yaml:2: the rule has no `quota`; write one, such as `quota: 100/min`, here");
    refused(&format!("{tail}    quota: tier\n"), "rules.yaml:4: `quota: tier`, but no tier has a quota");
    refused(&format!("tiers: {{ free: {{ burst: true }} }}\n{tail}    quota: tier\n"), "no tier has a quota");
    let tiers = "tiers: { free: { quota: 1/s }, pro: { quota: 9/s } }\n";
    refused(&format!("{tiers}{tail}"), "callers without a known tier would not be limited by this rule");
    let unknown = "descriptors: { tier: { jwt: tier, default: basic } }\n";
    refused(&format!("{unknown}{tiers}{tail}"), "such as `default: free`");
    let (known, half) =
        ("descriptors: { tier: { jwt: tier, default: free } }\n", "tiers: { free: { quota: 1/s }, pro: {} }\n");
    refused(&format!("{known}{half}{tail}"), "tier `pro` has no quota under this rule");
    refused("tiers: { free: { quota: tier } }\nrules: [{ name: a, per: [ip], quota: 1/s }]", "for rules alone");
    rule("quota: { from: limit }", "needs both");
    rule("quota: { default: 1/s }", "needs both");
    rule("quota: { from: limit, default: tier }", "is not a quota");
}

#[test]
fn exceptions_name_known_tiers_and_whole_keys() {
    let tiers = "tiers: { free: { quota: 1/s }, pro: { quota: 9/s } }\n";
    let wrong = "rules: [{ name: a, per: [ip], quota: 1/s, tiers: { prod: { quota: 2/s } } }]";
    refused(&format!("{tiers}{wrong}"), "add `prod: {}` there; did you mean `pro`?");
    rule("quota: 1/s, keys: { sk_*: { quota: 2/s } }", "a key is one whole value, not a pattern");
    rule("quota: 1/s, keys: { sk_1: { quta: 2/s } }", "did you mean `quota`?");
    refused("rules: [{ name: a, per: [], quota: 1/s, keys: { a: { quota: 2/s } } }]", "and there is none; write `per`");
    rule("quota: 1/s, tiers: { pro: { quota: 2/s } }, keys: { a: { deadline: 9ms } }", "write its `quota` here");
    rule("quota: 100/min, tiers: { pro: { burst: 7 } }", "tier `pro`: a burst of 7 is below 100/min");
}

#[test]
fn descriptors_are_refused_with_a_remedy() {
    for (descriptor, reason) in [
        ("{}", "comes from nowhere; write one of header, query"),
        ("header", "`header` is no source by itself"),
        ("{ header: a, cookie: b }", "comes from `header` and from `cookie`"),
        ("{ headr: a }", "did you mean `header`?"),
        ("{ header: 'a b' }", "is no name of a header"),
        ("{ jwt: a..b }", "write a claim"),
        ("{ path: full }", "write normalized or raw"),
        ("{ client_ip: { ipv6_prefix: 0 } }", "write 1 to 128"),
        ("{ jwt: a, verified: true }", "only of a header, query or cookie"),
        ("{ header: a, verified: 1 }", "write true or false"),
        ("{ map: { a: b } }", "a `map` needs `of`"),
        ("{ header: a, map: { a: b } }", "`map` needs `of`, a descriptor"),
        ("{ of: ip }", "`of` needs a `map`"),
        ("{ of: ip, map: {} }", "a `map` without entries"),
        ("{ of: api_kye, map: { a: b } }", "did you mean `api_key`?"),
        ("{ of: it, map: { a: b } }", "`it` is of `it`, which is not taken from a request"),
        ("{ of: ip, map: { a: b }, public: true }", "remove `public`"),
    ] {
        let yaml = format!("descriptors: {{ it: {descriptor} }}\nrules: [{{ name: a, per: [ip], quota: 1/s }}]");
        let text = refusal(&yaml);
        assert!(text.lines().any(|line| line.starts_with("rules.yaml:1: ") && line.contains(reason)), "{yaml}\n{text}");
    }
}

#[test]
fn patterns_are_refused_with_a_remedy() {
    for (pattern, reason) in [
        ("{ regex: 'a(' }", "`a(` is no regular expression: unclosed group"),
        ("{ regex: '(a{999}){999}' }", "is no regular expression: Compiled regex exceeds size limit"),
        ("{ cidr: 10.0.0/8 }", "is no network; write one such as 10.0.0.0/8"),
        ("{ cidr: 10.0.0.1/8 }", "write 10.0.0.0/8, or 10.0.0.1 for it alone"),
        ("{ not: { cidr: '2001:db8::1/32' } }", "write 2001:db8::/32, or 2001:db8::1 for it alone"),
        ("{ prefx: a }", "did you mean `prefix`?"),
        ("{}", "says nothing; write one of exact"),
        ("[]", "an empty list"),
        ("{ not: [] }", "an empty list"),
        ("{ exact: [a, b] }", "must be a single value"),
        ("", "must be a single value"),
    ] {
        let text =
            refusal(&format!("rules:\n  - name: a\n    per: [ip]\n    quota: 1/s\n    match:\n      ip: {pattern}\n"));
        assert!(text.starts_with("rules.yaml:") && text.contains(reason), "{pattern}\n{text}");
    }
    let broken = "rules:\n  - name: a\n    per: [ip]\n    quota: 1/s\n    match:\n      ip: { regex: 'a(' }\n";
    assert!(refusal(broken).starts_with("rules.yaml:6: "));
}

/// A broken expression was once quoted completely in the log and in `/healthz`, with all keys in it.
#[test]
fn problems_quote_only_the_beginning_of_secret_values() {
    let rule = |rest: &str| format!("rules: [{{ name: a, per: [api_key], quota: 1/s, {rest} }}]");
    for broken in [
        "match: { api_key: { regex: '^(sk_live_abcdef' } }",
        "match: { api_key: { sk_live_abcdef: 1 } }",
        "match: { ip: { cidr: sk_live_abcdef } }",
        "match: { api_key: sk_live_abcdef, api_key: sk_live_abcdef }",
        "keys: { sk_live_abcdef*: { quota: 1/s } }",
        "keys: { sk_live_abcdef: { quota: 1/s }, sk_live_abcdef: { quota: 1/s } }",
        "keys: { sk_live_abcdef: { burst: 7, algorithm: sliding_log } }",
        "sk_live_abcdef: { quota: 1/s }",
    ] {
        let text = refusal(&rule(broken));
        assert!(!text.contains("sk_live_a"), "{broken}: {text}");
    }
    assert!(refusal(&rule("match: { api_key: { regex: '^(sk_live_abcdef' } }")).contains("`^(sk_liv…` is no regular"));
    assert!(
        refusal(&rule("burst_multiplierr: 2")).contains("unknown field `burst_multiplierr`"),
        "a slip is quoted whole"
    );
    let dear = accepted(&rule("costs: { api_key: { sk_live_abcdef: 9, other: 1 } }"));
    assert!(dear.warnings.iter().any(|warning| warning.text.starts_with("`sk_live_…` costs 9")), "{:?}", dear.warnings);
}

#[test]
fn an_unlimited_rule_takes_no_settings_of_counting() {
    for settings in ["algorithm: token_bucket", "burst: 7", "burst_multiplier: 2"] {
        let field = if settings.starts_with('a') { "algorithm" } else { "burst" };
        let reason = format!("`quota: unlimited` counts nothing and takes no {field}");
        rule(&format!("quota: unlimited, {settings}"), &reason);
        rule(&format!("quota: 1/s, keys: {{ k: {{ quota: unlimited, {settings} }} }}"), &reason);
        rule(&format!("quota: 1/s, tiers: {{ pro: {{ quota: unlimited, {settings} }} }}"), &reason);
    }
    for fine in [
        "quota: unlimited, algorithm: token_bucket, keys: { k: { quota: 1/s } }",
        "quota: 1/s, algorithm: token_bucket, burst: 7, tiers: { pro: { quota: unlimited } }",
        "quota: unlimited, burst: false, deadline: 9ms",
    ] {
        accepted(&format!("defaults: {{ algorithm: leaky_bucket }}\nrules: [{{ name: a, per: [ip], {fine} }}]"));
    }
}

/// Tiers of a rule were once accepted without a warning although no call could be in one.
#[test]
fn tiers_and_costs_without_effect_are_warnings() {
    let warnings = |yaml: &str| -> Vec<String> {
        accepted(yaml)
            .warnings
            .iter()
            .map(|warning| warning.text.clone())
            .filter(|text| !text.contains("bounded"))
            .collect()
    };
    let rule = "rules: [{ name: a, per: [ip], quota: 1/s, tiers: { pro: { quota: 2/s } } }]";
    let none = warnings(rule);
    assert!(none.len() == 1 && none[0].starts_with("there is no descriptor `tier`"), "{none:?}");
    let both = warnings(&format!("tiers: {{ free: {{}}, pro: {{}} }}\n{rule}"));
    assert_eq!(both.len(), 1, "reported once: {both:?}");
    let claim = warnings(&format!("descriptors: {{ tier: {{ header: x-tier }} }}\n{rule}"));
    assert!(claim.len() == 1 && claim[0].starts_with("`tier` rests on the header x-tier"), "{claim:?}");
    assert!(warnings(&format!("descriptors: {{ tier: {{ jwt: tier }} }}\n{rule}")).is_empty());
    let costs = warnings("rules: [{ name: a, per: [ip], quota: 1/s, costs: { endpoint: {} } }]");
    assert!(costs.len() == 1 && costs[0].starts_with("`costs` by `endpoint` are empty"), "{costs:?}");
}

/// An address is no secret; a key in the wrong place is cut.
#[test]
fn an_invalid_network_is_shown_whole() {
    for network in ["10.0.0.0/40", "10.0.0.256/8", "2001:db8:0:0::/129"] {
        rule(&format!("quota: 1/s, match: {{ ip: {{ cidr: '{network}' }} }}"), &format!("`{network}` is no network"));
    }
    rule("quota: 1/s, match: { ip: { cidr: deadbeefdeadbeef } }", "`deadbeef…` is no network");
}

#[test]
fn rules_that_name_others_find_them() {
    rule("quota: 1/s, replaces: b", "`replaces` names `b`, and no rule has that name");
    rule("quota: 1/s, replaces: a", "`a` replaces itself");
    let circle = "rules:
  - { name: a, per: [ip], quota: 1/s, replaces: b }
  - { name: b, per: [ip], quota: 1/s, replaces: a }
";
    let warnings = accepted(circle).warnings;
    assert_eq!(
        warnings.iter().filter(|warning| warning.text.contains("so where both apply neither limits")).count(),
        2
    );
    refused("rules: [{ name: lists.deny, per: [ip], quota: 1/s }]", "rename the rule");
    refused(
        "rules: [{ name: a, per: [ip], quota: 1/s }]\nlists: { deny: { ip: 1.2.3.4 } }",
        "must be a list of entries",
    );
    refused("rules: [{ name: a, per: [ip], quota: 1/s }]\nlists: { denied: [] }", "known are allow, deny");
    rule("quota: 1/s, costs: { endpoint: { /a: 1 }, method: { GET: 1 } }", "go by one descriptor");
    rule("quota: 1/s, costs: {}", "go by one descriptor");
    rule("quota: 1/s, cost: dear", "write a number of units");
}

#[test]
fn problems_are_reported_in_the_order_of_the_file() {
    let text = refusal(
        "rules:
  - name: a
    per: [ip]
    quota: 1/s
    keys:
      sk_*: { quota: 2/s }
    on_failure: limit 0/s
  - { name: b, per: [ip], quota: 1/s, replaces: c }
lists: { deny: [{}] }
tiers: { free: { quota: no } }
",
    );
    let lines: Vec<usize> = text.lines().map(|line| line.split(':').nth(1).unwrap().parse().unwrap()).collect();
    assert_eq!(lines, [6, 7, 9, 10], "{text}");
}

/// A request that passes over its limit is counted, and units of unknown calls are given back only where calls are not known.
#[test]
fn quota_mode_and_refunds_are_refused_where_they_cannot_hold() {
    let each = "quota: 5/min, quota_mode: true, algorithm: fixed_window";
    rule(each, "the rule must count all calls; add `charge: each` and `algorithm: fixed_window`");
    assert!(accepted(&format!("rules: [{{ name: a, per: [ip], {each}, charge: each }}]")).rules[0].quota_mode);
    for algorithm in ["sliding_log", "concurrency"] {
        rule(&format!("quota: 5/min, refunds: true, algorithm: {algorithm}"), "refund with the `id` of the call");
    }
    let yaml = "rules: [{ name: a, per: [ip], quota: 5/min, refunds: true, cost: 2 }]";
    assert!(accepted(yaml).warnings[0].text.contains("`refunds` does nothing in a rule with a `cost` of its own"));
}
