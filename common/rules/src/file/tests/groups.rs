//! Groups: the narrowest rule applies, and a rule that never can is a warning.

use super::*;
use tollgate_core::call::Call;
use tollgate_core::rules::{ExplainedRule, MatchResult};

fn group(rules: &[(&str, &str)]) -> RuleSet {
    let rule = |(name, settings): &(&str, &str)| {
        format!("  - {{ name: {name}, group: g, per: [ip], quota: 1/s, consistency: strict, {settings} }}\n")
    };
    accepted(&format!("rules:\n{}", rules.iter().map(rule).collect::<String>()))
}

fn winner(set: &RuleSet, endpoint: &'static str) -> String {
    let call = Call::new().with("ip", "10.1.2.3").with("method", "GET").with("endpoint", endpoint);
    let applicable = set.applicable(&set.resolved(&call));
    assert_eq!(applicable.len(), 1, "{endpoint}");
    let winner = applicable[0].rule;
    for ExplainedRule { rule, result, .. } in set.explain(&call).rules {
        match result {
            MatchResult::Applies { .. } => assert_eq!(rule.name, winner.name),
            MatchResult::Wider { than } => assert_eq!(than.name, winner.name, "{}", rule.name),
            MatchResult::Mismatch { .. } => {}
            other => panic!("{}: {other:?}", rule.name),
        }
    }
    winner.name.to_string()
}

/// DESIGN 4: an exact value, then more literal characters, then the place in the file. `/*` once beat inner wildcards and
/// regular expressions.
#[test]
fn in_a_group_no_short_wildcard_beats_a_longer_pattern() {
    let set = group(&[
        ("any", "match: { endpoint: '*' }"),
        ("slash", "match: { endpoint: /* }"),
        ("gifs", "match: { endpoint: /shuttle/*/*.gif }"),
        ("versions", "match: { endpoint: { regex: '^/v[0-9]+/users' } }"),
        ("either", "match: { endpoint: [/list/one, /list/two*] }"),
        ("others", "match: { endpoint: { prefix: /o, not: [/ops] } }"),
        ("page", "match: { endpoint: /v1/users/page }"),
        ("again", "match: { endpoint: { regex: '^/v1/us' } }"),
    ]);
    assert_eq!(set.warnings, []);
    for (endpoint, expected) in [
        ("/shuttle/sts-1/a.gif", "gifs"),
        ("/shuttle/a.gif", "slash"),
        ("/v2/users", "versions"),
        ("/v1/users", "versions"),
        ("/v1/us", "again"),
        ("/v1/users/page", "page"),
        ("/list/two/3", "either"),
        ("/other", "others"),
        ("/ops", "slash"),
        ("relative", "any"),
    ] {
        assert_eq!(winner(&set, endpoint), expected, "{endpoint}");
    }
    let set =
        group(&[("wide", "match: { ip: { cidr: 10.0.0.0/8 } }"), ("narrow", "match: { ip: { cidr: 10.1.0.0/16 } }")]);
    assert_eq!(winner(&set, "/"), "narrow");
    let set = group(&[
        ("all", "cost: 1"),
        ("get", "match: { method: GET, endpoint: /* }"),
        ("one", "match: { endpoint: /a }"),
    ]);
    assert_eq!([winner(&set, "/a"), winner(&set, "/b"), winner(&set, "c")], ["get", "get", "all"]);
    let set = group(&[("first", "match: { endpoint: /a* }"), ("second", "match: { endpoint: '*/b' }")]);
    assert_eq!([winner(&set, "/a/b"), winner(&set, "/b")], ["first", "second"]);
}

/// A rule that never applies is reported with its line, the reason and the remedy.
#[test]
fn a_rule_that_can_never_be_the_narrowest_is_a_warning() {
    let warnings =
        |rules: &[(&str, &str)]| -> Vec<String> { group(rules).warnings.iter().map(ToString::to_string).collect() };
    assert_eq!(
        warnings(&[("all", "match: { endpoint: '*' }"), ("most", "match: { endpoint: { not: [/a] } }")]),
        [
            "rules.yaml:3: `most` never applies: `all` in line 2 matches every call that `most` matches, and is as narrow and stands above; put the rule with fewer calls first, or remove one of the two"
        ]
    );
    assert_eq!(
        warnings(&[
            ("both", "match: { ip: [10.0.0.1, 10.0.0.2], method: GET }"),
            ("one", "match: { ip: 10.0.0.1, method: [GET, HEAD*] }")
        ]),
        Vec::<String>::new()
    );
    let narrower = warnings(&[("list", "match: { method: [GET, '*'] }"), ("any", "match: { method: '*', ip: '*' }")]);
    assert!(narrower.len() == 1 && narrower[0].starts_with("rules.yaml:2: `list` never applies"), "{narrower:?}");
    assert!(narrower[0].ends_with("is narrower; take one of the two out of the group, or remove it"), "{narrower:?}");
    let silent: [&[(&str, &str)]; 4] = [
        &[("all", "match: { endpoint: '*' }"), ("numbers", "match: { endpoint: { regex: '^/[0-9]+' } }")],
        &[("users", "match: { user: '*' }"), ("rest", "cost: 1")],
        &[("secrets", "match: { api_key: '*' }"), ("keys", "match: { api_key: { not: [a] } }")],
        &[("most", "match: { endpoint: { not: [/a] } }"), ("all", "match: { endpoint: '*' }")],
    ];
    for rules in silent {
        let named = warnings(rules).into_iter().filter(|text| !text.contains("not under `descriptors`"));
        assert_eq!(named.collect::<Vec<_>>(), Vec::<String>::new(), "{rules:?}");
    }
}

#[test]
fn a_rule_that_is_always_replaced_or_contradicts_itself_is_a_warning() {
    let set = accepted(
        "rules:
  - { name: a, per: [ip], quota: 1/s, consistency: strict, match: { method: GET } }
  - { name: b, per: [ip], quota: 1/s, consistency: strict, replaces: a }
  - { name: c, per: [ip], quota: 1/s, consistency: strict, match: { endpoint: { prefix: /a, not: [/*] } } }
",
    );
    let warnings: Vec<_> = set.warnings.iter().map(ToString::to_string).collect();
    assert_eq!(
        warnings,
        [
            "rules.yaml:2: `a` never applies: `b` in line 3 matches every call that `a` matches, and replaces it; write a narrower `match` there, or remove one of the two",
            "rules.yaml:4: no value of `endpoint` meets these conditions, so this never applies; correct them, or remove it",
        ]
    );
}

/// The reason is the rule that was stronger, even if that rule was replaced in turn.
#[test]
fn a_rule_whose_group_was_won_by_a_replaced_rule_is_explained() {
    let set = accepted(
        "rules:
  - { name: wide, group: g, per: [ip], quota: 1/s }
  - { name: narrow, group: g, per: [ip], quota: 1/s, match: { method: GET } }
  - { name: partners, per: [ip], quota: 1/s, match: { endpoint: /p }, replaces: narrow }
",
    );
    let call = Call::new().with("ip", "10.0.0.1").with("method", "GET").with("endpoint", "/p");
    let results: Vec<_> = set.explain(&call).rules.into_iter().map(|explained| explained.result).collect();
    assert!(matches!(results[0], MatchResult::Wider { than } if *than.name == *"narrow"), "{results:?}");
    assert_eq!(results[1], MatchResult::Replaced { by: "partners" });
}
