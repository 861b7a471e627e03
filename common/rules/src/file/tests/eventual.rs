//! `consistency: eventual`: the levels at which it stands, and the settings that signals cannot decide.

use super::*;

fn refused(yaml: &str, reason: &str) {
    let text = refusal(yaml);
    assert!(text.contains(reason) && text.lines().count() == 1, "{yaml}\n{text}\nwanted: {reason}");
}

/// Asserts that a rule, per ip, is refused for one reason.
fn refused_rule(settings: &str, reason: &str) {
    refused(&format!("rules: [{{ name: a, per: [ip], {settings} }}]"), reason);
}

/// Signals contain counts per sub-window, and no levels, slots or instants.
#[test]
fn what_signals_cannot_decide_is_refused_under_eventual() {
    for algorithm in ["sliding_log", "token_bucket", "leaky_bucket", "concurrency"] {
        refused_rule(
            &format!("quota: 9/min, consistency: eventual, algorithm: {algorithm}"),
            "use `sliding_window` or `fixed_window`, or `consistency: bounded`",
        );
    }
    refused_rule("quota: 9/min, consistency: eventual, burst: 12", "write `burst: false` for none");
    let each = "quota: 9/min, consistency: eventual, algorithm: fixed_window, charge: each";
    refused_rule(each, "under `consistency: eventual` only admissions are counted");
    // The line of the setting, of the rule or of its defaults.
    let inherited = "defaults: { consistency: eventual }\nrules:\n- name: a\n  per: [ip]\n  quota: 9/min\n  algorithm: token_bucket";
    refused(inherited, "rules.yaml:6: signals contain the counts of windows only");
    let below = "defaults: { burst: 12 }\nrules:\n- name: a\n  per: [ip]\n  quota: 9/min\n  consistency: eventual";
    refused(below, "rules.yaml:6: signals do not tell which part of a burst is free");
}

#[test]
fn eventual_is_read_at_every_level() {
    let yaml = "
defaults: { consistency: eventual }
tiers: { free: {}, pro: { consistency: strict } }
descriptors: { tier: { of: ip, map: { a: pro }, default: free } }
rules:
- { name: a, per: [ip], quota: 9/min, keys: { k: { consistency: bounded } } }
- { name: b, per: [ip], quota: 9/min, consistency: strict, tiers: { pro: { consistency: eventual } } }
";
    let set = accepted(yaml);
    let seen = |rule: usize| set.rules[rule].all_policies().map(|policy| policy.consistency).collect::<Vec<_>>();
    assert_eq!(seen(0), [Consistency::Eventual, Consistency::Strict, Consistency::Bounded]);
    assert_eq!(seen(1), [Consistency::Strict, Consistency::Eventual]);
}
