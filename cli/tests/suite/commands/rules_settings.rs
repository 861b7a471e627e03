//! Single settings of a rules file in the output of `rules validate`, `show` and `diff`, and of `check`: the status of
//! denials, slots, and groups.

use crate::support::{Up, file, finish, lines, tollgate};

/// The commands show the status that the file sets, and a status without sense is refused.
#[test]
fn the_status_of_denials_is_read_and_shown() {
    let rules = "deny_status: 403
rules: [{ name: old, match: { endpoint: /v1* }, deny: true }]
lists: { deny: [{ api_key: sk_revoked_* }] }
";
    let path = file("forbidden.yaml", rules);
    let path = path.to_str().unwrap();
    let said = finish(&mut tollgate(&["rules", "validate", path]));
    assert!(said.out.contains("Calls that are denied regardless of their count get status 403."), "{}", said.out);
    let said = finish(&mut tollgate(&["rules", "validate", path, "--format", "json"]));
    let set: serde_json::Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!(set["deny_status"], 403);
    let said = finish(&mut tollgate(&["rules", "show", path, "endpoint=/v1/x", "api_key=sk_revoked_1"]));
    assert!(said.out.contains("it denies what it matches, with status 403"), "{}", said.out);
    assert!(said.out.contains("Always denied with status 403, by `lists.deny`"), "{}", said.out);
    let before = file("too-many.yaml", &rules.replace("403", "429"));
    let said = finish(&mut tollgate(&["rules", "diff", before.to_str().unwrap(), path]));
    assert!(said.out.contains("deny_status") && said.out.contains("429 -> 403"), "{}", said.out);
    let up = Up::start(&["--rules", path]);
    let said = finish(&mut tollgate(&["check", "--agent", &up.url(), "endpoint=/v1/x"]));
    assert_eq!(said.exit, 3, "{}", said.err);
    let shown: Vec<&str> = said.out.lines().take(4).collect();
    insta::assert_snapshot!(shown.join("\n"), @r"
    denied
    rule         old
    reason       old denies this call regardless of its count
    source       local
    ");
    let hidden = file("hidden.yaml", &rules.replace("deny_status: 403", "degraded_remaining: -1"));
    let said = finish(tollgate(&["rules", "validate", "--format", "json"]).arg(&hidden));
    let set: serde_json::Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!(set["degraded_remaining"], "-1");
    let wrong = file("shown.yaml", &rules.replace("deny_status: 403", "degraded_remaining: 0"));
    let said = finish(tollgate(&["rules", "validate"]).arg(&wrong));
    assert!(
        said.exit == 2 && said.err.contains("shown.yaml:1: `degraded_remaining` is `0`; write estimate or -1"),
        "{}",
        said.err
    );
    let wrong = file("teapot.yaml", &rules.replace("403", "418"));
    let said = finish(tollgate(&["rules", "validate"]).arg(&wrong));
    assert!(
        said.exit == 2 && said.err.contains("teapot.yaml:1: `deny_status` is `418`; write 429 or 403"),
        "{}",
        said.err
    );
}

/// `validate`, `show` and `check` speak of slots under `concurrency`.
#[test]
fn concurrency_is_shown_in_slots() {
    let rules = "rules: [{ name: exports, per: [user], quota: 2/10min, algorithm: concurrency, consistency: strict }]";
    let path = file("slots.yaml", rules);
    let path = path.to_str().unwrap();
    let said = finish(&mut tollgate(&["rules", "validate", path]));
    insta::assert_snapshot!(lines(&said.out), @r"
    RULE     CALLS       LIMIT
    exports  every call  2 slots, each 10min at most
             per user    concurrency
                         consistency strict; on_failure share

    RULE     BOUND WHILE REDIS ANSWERS
    exports  A counter holds at most 2 slots at once.

    The table shows the most units in a window, and in parentheses those of many
    calls around the edge of a sub-window or of a fixed window. The other bounds
    are for a fleet of 10 (--agents). REDIS LATE: Redis answers one agent after the
    deadline, or all of them. An agent that restarts meanwhile adds its part again.
    REDIS DOWN: the units that Redis admitted or leased before are contained. The
    signals of two agents can differ by 3 s, in which further calls pass: once
    in a window, and twice around an edge. Each time that Redis loses its data, a
    window may hold the units of REDIS UP once more: twice after one loss, six times
    after five. With Kafka, agents enter most of the lost units again.
    REDIS FAILS OVER (Sentinel, Cluster): what the replica lacked is such a loss. A
    primary that is cut off and still takes writes is the same one: set
    min-replicas-to-write 1.

    RULE     REDIS UP  REDIS LATE  REDIS DOWN           REDIS AND KAFKA DOWN
    exports  2         2           2, and calls of 3 s  4

    Redis without Kafka: no signals, so the last column holds while Redis is down.
    Kafka without Redis: refused, because no rule is `consistency: eventual`.
    One process without servers: all rules are counted exactly, in its memory.
    ");
    let said = finish(&mut tollgate(&["rules", "show", path, "user=u", "--cost", "2"]));
    insta::assert_snapshot!(lines(&said.out), @r"
    DESCRIPTOR  VALUE  STATUS
    user        u      verified

    RULE     APPLIES  QUOTA                        WHY
    exports  yes      2 slots, each 10min at most  the rule's own; concurrency;
                                                   slots taken: 2

    On no list.
    ");
    let up = Up::start(&["--rules", path]);
    let check = || finish(&mut tollgate(&["check", "--agent", &up.url(), "user=u"]));
    assert!(check().out.contains("\nfree slots   1 of 2\n"));
    check();
    let denied = check();
    assert!(
        denied.exit == 3 && denied.out.contains("\nreason       rule exports has 2 slots, 2 in use; "),
        "{}",
        denied.out
    );
}

/// The narrowest rule applies, and a rule that never does is reported.
#[test]
fn in_a_group_a_wildcard_beats_no_longer_pattern_and_a_rule_without_effect_is_reported() {
    let rules = "rules:
  - { name: any, group: g, match: { endpoint: /* }, per: [ip], quota: 200/min, consistency: strict }
  - { name: gifs, group: g, match: { endpoint: /shuttle/*/*.gif }, per: [ip], quota: 1/min, consistency: strict }
  - { name: short, group: g, match: { endpoint: '/?*' }, per: [ip], quota: 5/min, consistency: strict }
";
    let path = file("group.yaml", rules);
    let path = path.to_str().unwrap();
    let said = finish(&mut tollgate(&["rules", "validate", path]));
    insta::assert_snapshot!(said.err.replace(path, "group.yaml"), @r"
    warning: group.yaml:4: `short` never applies: `any` in line 2 matches every call that `short` matches, and is as narrow and stands above; put the rule with fewer calls first, or remove one of the two
    group.yaml: valid, 3 rules, 1 warning
    ");
    let up = Up::start(&["--rules", path]);
    let check = || finish(&mut tollgate(&["check", "--agent", &up.url(), "ip=10.0.0.1", "endpoint=/shuttle/a/b.gif"]));
    assert!(check().out.contains("rule         gifs"));
    assert_eq!(check().exit, 3);
    let said = finish(&mut tollgate(&["rules", "show", path, "ip=10.0.0.1", "endpoint=/shuttle/a/b.gif"]));
    let words: Vec<_> = said.out.split_whitespace().collect();
    let reason = "gifs, of the same group, is narrower: it has more literal characters";
    assert!(words.join(" ").contains(reason), "{}", said.out);
}

/// The bounds of rules that no Redis decides, and the servers that a fleet may do without.
#[test]
fn eventual_is_shown_with_its_bound_and_its_deployments() {
    let rule = "{ name: key, per: [api_key], quota: 100/min, on_failure: closed, consistency: eventual }";
    let other = "{ name: all, per: [], quota: 900/s, consistency: strict }";
    for (rules, without_redis) in [
        (rule.to_owned(), "works, because all rules are `consistency: eventual`."),
        (format!("{rule}, {other}"), "refused; rules that are not `eventual`: 1."),
    ] {
        let path = file("eventual-shown.yaml", &format!("rules: [{rules}]"));
        let said = finish(&mut tollgate(&["rules", "validate", path.to_str().unwrap()]));
        assert_eq!(said.exit, 0, "{}", said.err);
        assert!(said.out.contains("key   not asked  not asked   100 (200), and calls of "), "{}", said.out);
        assert!(said.out.contains(&format!("Kafka without Redis: {without_redis}\n")), "{}", said.out);
        assert!(said.out.contains("never ask Redis: their bounds hold at all"), "{}", said.out);
        assert!(said.out.lines().all(|line| line.chars().count() <= 80), "{}", said.out);
    }
}
