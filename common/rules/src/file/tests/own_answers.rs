//! The block `answer`: its merge with the defaults, its refusals and its warnings.

use tollgate_core::own_answer::{DenialBody, ErrorStatus, FieldValue, OwnAnswer};

use super::*;

fn answers(yaml: &str) -> Vec<Option<OwnAnswer>> {
    accepted(yaml).rules.iter().map(|rule| rule.own_answer.as_deref().cloned()).collect()
}

fn status(answer: Option<&OwnAnswer>) -> Option<u16> {
    answer?.status.map(ErrorStatus::code)
}

/// H3: each key of a rule replaces that of the defaults, also in a rule that denies, and the lists have the defaults.
#[test]
fn a_rule_has_the_answer_of_the_defaults_except_for_its_own_keys() {
    let yaml = r#"
defaults: { answer: { status: 420, body: nested, message: wait, fields: { docs: "https://a.example", plan: 7 } } }
rules:
  - { name: a, per: [ip], quota: 1/s }
  - { name: b, per: [ip], quota: 1/s, answer: { body: problem, title: Slow down, fields: {}, hide: RateLimit-Policy } }
  - { name: c, match: { ip: 10.* }, deny: true, answer: { status: 451 } }
"#;
    let set = accepted(yaml);
    let [a, b, c] = &answers(yaml)[..] else { panic!("three rules") };
    let (a, b, c) = (a.as_ref().unwrap(), b.as_ref().unwrap(), c.as_ref().unwrap());
    assert_eq!(set.own_answer.as_deref(), Some(a));
    assert_eq!((status(Some(a)), a.body, a.message.as_deref()), (Some(420), DenialBody::Nested, Some("wait")));
    let docs = FieldValue::Text("https://a.example".into());
    assert_eq!(a.fields, [("docs".into(), docs), ("plan".into(), FieldValue::Whole(7))]);
    assert_eq!((b.body, b.title.as_deref(), status(Some(b))), (DenialBody::Problem, Some("Slow down"), Some(420)));
    assert!(b.fields.is_empty() && b.hide == ["ratelimit-policy"] && b.message == a.message);
    assert_eq!((status(Some(c)), c.body), (Some(451), DenialBody::Nested));
}

/// H3: a value has in JSON the type that it has in YAML.
#[test]
fn fields_are_text_whole_numbers_and_truth_values() {
    let yaml = r#"rules: [{ name: a, per: [ip], quota: 1/s, answer: { fields: { a: 7, b: "7", c: true, d: "true", e: x, f: "null" } } }]"#;
    let fields = answers(yaml).remove(0).unwrap().fields;
    let values: Vec<_> = fields.into_iter().map(|(_, value)| value).collect();
    let text = |text: &str| FieldValue::Text(text.into());
    assert_eq!(
        values,
        [FieldValue::Whole(7), text("7"), FieldValue::Flag(true), text("true"), text("x"), text("null")]
    );
}

/// A block that changes nothing costs nothing.
#[test]
fn an_answer_that_is_as_all_others_is_none() {
    let rule = |answer| format!("rules: [{{ name: a, per: [ip], quota: 1/s, answer: {answer} }}]");
    for answer in ["{}", "{ body: problem }", "{ fields: {}, hide: [] }", ""] {
        assert_eq!(answers(&rule(answer)), [None], "{answer}");
    }
}

/// H3: each refusal has its line, the reason and a remedy.
#[test]
fn a_bad_answer_is_refused_with_its_place_and_a_remedy() {
    let long = "x".repeat(1_025);
    let fields: Vec<String> = (0..17).map(|number| format!("f{number}: 1")).collect();
    for (answer, told) in [
        ("{ status: 200 }", "rules.yaml:3: `status` is `200`; write a status of an error, 400 to 599"),
        ("{ status: 600 }", "rules.yaml:3: `status` is `600`; write a status of an error, 400 to 599"),
        ("{ status: [429] }", "rules.yaml:3: `status` must be a single value"),
        ("{ body: flat }", "rules.yaml:3: unknown body `flat`; known are problem, nested"),
        ("{ statsu: 429 }", "rules.yaml:3: unknown field `statsu` in `answer`; did you mean `status`?"),
        ("{ fields: { limit: 1 } }", "rules.yaml:3: `limit` is a member of every body; give the field another name"),
        ("{ fields: { error: 1 } }", "rules.yaml:3: `error` is a member of every body; give the field another name"),
        ("{ fields: { a: 1.5 } }", "rules.yaml:3: field `a` is `1.5`; write a whole number, or the number in quotes"),
        (
            "{ fields: { a: null } }",
            "rules.yaml:3: field `a` is `null`, which is no value; leave it out, or write the text in quotes",
        ),
        ("{ fields: { a: ~ } }", "rules.yaml:3: field `a` must be a single value"),
        ("{ fields: { a: [1] } }", "rules.yaml:3: field `a` must be a single value"),
        ("{ fields: text }", "rules.yaml:3: `fields` must be a mapping (`name: value` lines)"),
        (
            &format!("{{ fields: {{ {} }} }}", fields.join(", ")),
            "rules.yaml:3: there are 17 `fields`; write at most 16",
        ),
        (
            &format!("{{ fields: {{ {}: 1 }} }}", &long[..65]),
            "rules.yaml:3: the name of a field has 65 bytes; write one of 1 to 64 bytes",
        ),
        (&format!("{{ message: {long} }}"), "rules.yaml:3: `message` has 1025 bytes; shorten it to 1024"),
        (&format!("{{ fields: {{ a: {long} }} }}"), "rules.yaml:3: field `a` has 1025 bytes; shorten it to 1024"),
        (
            "{ title: a, body: nested }",
            "rules.yaml:3: a nested body has no `title`; remove it, write `message`, or write `body: problem`",
        ),
        (
            "{ hide: [X-RateLimit-Limits] }",
            "rules.yaml:3: `hide` names `X-RateLimit-Limits`, which is no header of a limit; did you mean `x-ratelimit-limit`?",
        ),
        (
            "{ hide: [X-Gateway-Node] }",
            "rules.yaml:3: `hide` cannot name `X-Gateway-Node`, which every answer of an agent has; let the gateway remove it",
        ),
    ] {
        let yaml = format!("rules:\n  - {{ name: a, per: [ip], quota: 1/s,\n      answer: {answer} }}\n");
        assert_eq!(refusal(&yaml), told);
    }
}

/// Gateways take some statuses for a failure of the agent, and clients without a time retry at once.
#[test]
fn an_answer_that_lets_denied_calls_come_again_is_a_warning() {
    for (answer, told) in [
        ("{ status: 503 }", "take the status 503 for a failed agent"),
        ("{ hide: [Retry-After] }", "without `Retry-After`"),
    ] {
        let set = accepted(&format!("rules: [{{ name: a, per: [ip], quota: 1/s, answer: {answer} }}]"));
        assert!(set.warnings.len() == 1 && set.warnings[0].text.contains(told), "{:?}", set.warnings);
    }
}
