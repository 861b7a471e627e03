//! `tollgate rules show` and `diff`, and the output of `validate` for the whole language.

use crate::support::{Finished, Up, file, finish, lines, tollgate};

const RULES: &str = "\
descriptors:
  api_key: { header: x-api-key }
  tier: { jwt: tier, default: free, public: true }
slot_by: api_key
defaults: { consistency: strict }
tiers:
  free: { quota: 100/min }
  pro: { quota: 1000/min }
rules:
  - name: per-key
    per: [api_key]
    quota: tier
    keys: { sk_vip_001: { quota: 5000/min } }
  - name: search
    group: endpoint
    match: { endpoint: /search* }
    per: [api_key]
    quota: 30/min
    cost: 1
    costs: { method: { POST: 5 } }
  - name: any
    group: endpoint
    per: [api_key]
    quota: 60/min
    algorithm: token_bucket
    burst: 20
    shadow: true
lists:
  deny: [{ api_key: sk_revoked_* }]
";

fn run(name: &str, args: &[&str]) -> Finished {
    let path = file(name, RULES);
    let mut all = vec!["rules", "show", "--rules", path.to_str().unwrap()];
    all.extend(args);
    finish(&mut tollgate(&all))
}

#[test]
fn validate_shows_tiers_keys_costs_and_lists() {
    let path = file("whole.yaml", RULES);
    let said = finish(&mut tollgate(&["rules", "validate", path.to_str().unwrap()]));
    assert_eq!(said.exit, 0, "{}", said.err);
    insta::assert_snapshot!(lines(&said.out), @r"
    RULE        CALLS              LIMIT
    per-key     every call         100/min
                per api_key        sliding_window, 12 x 5 s, conservative
                                   consistency strict; on_failure share; 1 key
      tier pro                     1000/min
                                   sliding_window, 12 x 5 s, conservative
                                   consistency strict; on_failure share
    search      endpoint=/search*  30/min
                per api_key        sliding_window, 12 x 5 s, conservative
                                   consistency strict; on_failure share; group
                                   endpoint; cost 5 if method=POST, 1
    any         every call         60/min
                per api_key        token_bucket, burst 20
                                   consistency strict; on_failure share; group
                                   endpoint; shadow

    LIST  WHO
    deny  api_key=sk_revoked_*

    Calls that are denied regardless of their count get status 429.

    RULE              BOUND WHILE REDIS ANSWERS
    per-key           A counter admits at most 100 in any 1min.
      tier pro        A counter admits at most 1000 in any 1min.
      key sk_vip_001  A counter admits at most 5000 in any 1min.
    search            A counter admits at most 30 in any 1min.
    any               A counter admits at most 80 in any 1min (60 and a burst of
                      20).

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

    RULE              REDIS UP  REDIS LATE  REDIS DOWN             REDIS AND KAFKA
                                                                   DOWN
    per-key           100       100         190, and calls of 3 s  200
      tier pro        1000      1000        1900, and calls of 3   2000
                                            s
      key sk_vip_001  5000      5000        9500, and calls of 3   10000
                                            s
    search            30        30          57, and calls of 3 s   60
    any               80        80          80, and calls of 3 s   160

    Redis without Kafka: no signals, so the last column holds while Redis is down.
    Kafka without Redis: refused, because no rule is `consistency: eventual`.
    One process without servers: all rules are counted exactly, in its memory.
    ");
    let said = finish(&mut tollgate(&["rules", "validate", path.to_str().unwrap(), "--format", "json"]));
    let set: serde_json::Value = serde_json::from_str(&said.out).unwrap();
    let outage = serde_json::json!({
        "with_store": {
            "units": 100, "at_worst": 100,
            "late": { "one_agent": 100, "all_agents": 100, "all_calls_pass": false },
            "more_per_loss": 100, "more_per_fail_over": 100,
        },
        "agents": 10,
        "by_signals": 190,
        "and_calls_of_ms": 3_000,
        "alone": 200,
        "edge_units": 0,
        "and_calls_at_edge_of_ms": 3_000
    });
    assert_eq!(set["rules"][0]["outage"], outage);
    let (key, search, any) = (&set["rules"][0], &set["rules"][1], &set["rules"][2]);
    assert_eq!((&key["tiers"]["pro"]["units"], &key["keys"]), (&1_000.into(), &1.into()));
    assert_eq!((&search["costs"]["table"][0]["cost"], &search["group"]), (&5.into(), &"endpoint".into()));
    assert_eq!((&any["burst"], &any["shadow"]), (&20.into(), &true.into()));
    assert_eq!((&set["slot_by"], &set["lists"]["deny"][0]["api_key"]), (&"api_key".into(), &"sk_revoked_*".into()));
}

#[test]
fn show_lists_the_applicable_rules_and_the_reasons_against_others() {
    let call = ["api_key=sk_live_12345", "tier=pro", "endpoint=/search/x", "method=POST"];
    let said = run("show.yaml", &call);
    assert_eq!(said.exit, 0, "{}", said.err);
    insta::assert_snapshot!(lines(&said.out), @r"
    DESCRIPTOR  VALUE          STATUS
    api_key     sk_live_12345  verified
    tier        pro            verified
    endpoint    /search/x      verified
    method      POST           verified

    RULE     APPLIES  QUOTA     WHY
    per-key  yes      1000/min  of the tier pro; sliding_window, 12 x 5 s,
                                conservative; costs 1
    search   yes      30/min    the rule's own; sliding_window, 12 x 5 s,
                                conservative; costs 5
    any      no                 search, of the same group, is narrower: it has
                                more literal characters

    On no list.
    ");
    let said = run("show-json.yaml", &["api_key=sk_vip_001", "--format", "json", "--cost", "3"]);
    let told: serde_json::Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!(told["rules"][0]["origin"]["kind"], "key");
    assert_eq!((&told["rules"][0]["policy"]["units"], &told["rules"][0]["cost"]), (&5_000.into(), &3.into()));
    assert_eq!(told["rules"][1]["applies"], false);
}

/// `rules show` takes each cost that `tollgate check` takes, for a file and for an agent.
#[test]
fn a_cost_has_a_unit_or_is_0() {
    let up = Up::start(&["--limit", "2/min per api_key"]);
    for (text, cost) in [("0", 0), ("30MB", 30_000_000), ("10k", 10_000)] {
        let call = ["api_key=k", "--format", "json", "--cost", text];
        let of_file = run("show-cost.yaml", &call);
        let of_agent = finish(tollgate(&["rules", "show", "--agent", &up.url()]).args(call));
        let checked = finish(tollgate(&["check", "--agent", &up.url()]).args(call));
        // The other two cost more than the quota.
        assert_eq!(checked.exit, if cost > 2 { 3 } else { 0 }, "{text}: {}", checked.err);
        let told: serde_json::Value = serde_json::from_str(&checked.out).unwrap();
        assert_eq!(told["remaining"], 2, "{text}: nothing is charged");
        for said in [of_file, of_agent] {
            assert_eq!(said.exit, 0, "{text}: {}", said.err);
            let told: serde_json::Value = serde_json::from_str(&said.out).unwrap();
            assert_eq!(told["rules"][0]["cost"], cost, "{text}");
        }
    }
    let remedy = "such as 5, 10k or 30MB";
    let refused = run("show-cost.yaml", &["api_key=k", "--cost", "30 parsecs"]);
    assert!(refused.exit == 2 && refused.err.contains(remedy), "{}", refused.err);
}

#[test]
fn an_unverified_value_selects_no_tier() {
    let said = run("claim.yaml", &["api_key=sk_revoked_1", "--unverified", "tier=pro"]);
    assert!(said.out.contains("unverified") && said.out.contains("100/min"), "{}", said.out);
    assert!(said.out.contains("Always denied with status 429, by `lists.deny`: api_key=sk_revoked_*"), "{}", said.out);
    let path = file("denying.yaml", "rules: [{ name: old, match: { endpoint: /v1* }, deny: true }]");
    let said = finish(&mut tollgate(&["rules", "show", "--rules", path.to_str().unwrap(), "endpoint=/v1/x"]));
    assert!(said.out.contains("denied") && said.out.contains("it denies what it matches"), "{}", said.out);
    let twice = run("twice.yaml", &["tier=a", "--unverified", "tier=b"]);
    assert_eq!((twice.exit, &*twice.out), (2, ""));
}

#[test]
fn diff_lists_the_changes_of_the_enforced_rules() {
    let to = RULES
        .replace("quota: 30/min", "quota: 60/min")
        .replace("pro: { quota: 1000/min }", "pro: { quota: 900/min }")
        .replace("quota: 5000/min", "quota: 6000/min")
        .replace("    algorithm: token_bucket\n    burst: 20\n", "")
        .replace("    per: [api_key]\n    quota: 60/min\n    shadow", "    per: [ip]\n    quota: 60/min\n    shadow")
        .replace("slot_by: api_key", "slot_by: ip")
        .replace("sk_revoked_*", "sk_stolen_*")
        .replace("lists:", "  - { name: new, per: [], quota: 9/s }\nlists:");
    let (from, to) = (file("from.yaml", RULES), file("to.yaml", &to));
    let (from, to) = (from.to_str().unwrap(), to.to_str().unwrap());
    let said = finish(&mut tollgate(&["rules", "diff", from, to]));
    assert_eq!(said.exit, 0, "{}", said.err);
    insta::assert_snapshot!(lines(&said.out), @r"
    WHAT          FIELD            CHANGE                      NOTE
    rule per-key  tier pro: quota  1000/min -> 900/min         lowered
    rule per-key  key sk_vip_001:  5000/min -> 6000/min        raised
                  quota
    rule search   quota            30/min -> 60/min            raised
    rule any      per              api_key -> ip               counters start anew
    rule any      algorithm        token_bucket ->             counts start high
                                   sliding_window, 12 x 5 s,
                                   conservative
    rule any      burst            20 -> (none)
    rule new                       (none) -> 9/s               added
    file          slot_by          api_key -> ip               counters start anew
    lists.deny                     api_key=sk_revoked_* ->     removed
                                   (none)
    lists.deny                     (none) ->                   added
                                   api_key=sk_stolen_*
    ");
    let same = finish(&mut tollgate(&["rules", "diff", from, from]));
    assert_eq!((same.exit, same.out.trim_end()), (0, "Both enforce the same."));
    let json = finish(&mut tollgate(&["rules", "diff", from, to, "--format", "json"]));
    let told: serde_json::Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!(told["same"], false);
    assert!(told["changes"].as_array().unwrap().iter().any(|change| change["note"] == "lowered"));
    assert_eq!(finish(&mut tollgate(&["rules", "diff", from, "/nowhere.yaml"])).exit, 2);
}

/// Without a file, the command shows the rules that an agent has in force. The agent cuts secrets, which a file shows.
#[test]
fn show_requests_the_rules_in_force_from_an_agent() {
    let path = file("show-agent.yaml", RULES);
    let up = Up::start(&["--rules", path.to_str().unwrap()]);
    let said = finish(&mut tollgate(&[
        "rules",
        "show",
        "--agent",
        &up.url(),
        "api_key=sk_live_1",
        "--unverified",
        "tier=pro",
    ]));
    assert_eq!(said.exit, 0, "{}", said.err);
    assert!(said.out.contains("100/min") && !said.out.contains("sk_live_1"), "{}", said.out);
    let same = run("show-agent.yaml", &["api_key=sk_live_1", "--unverified", "tier=pro"]);
    let digest = said.out.split_whitespace().find(|word| word.contains('…')).expect("a secret that is cut");
    let spaced = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(spaced(&said.out.replace(digest, "sk_live_1")), spaced(&same.out));
    let named = finish(tollgate(&["rules", "show"]).arg(&path).args(["api_key=sk_live_1", "--unverified", "tier=pro"]));
    assert_eq!(named.out, same.out, "{}", named.err);
    let neither = finish(&mut tollgate(&["rules", "show", "nowhere.yaml", "api_key=k"]));
    assert!(neither.exit == 2 && neither.err.contains("or the name of a rules file"), "{}", neither.err);
    drop(up);
    let nobody = finish(&mut tollgate(&["rules", "show", "--agent", "http://127.0.0.1:1", "api_key=k"]));
    assert_eq!((nobody.exit, &*nobody.out), (4, ""));
    assert!(nobody.err.contains("no agent answers at http://127.0.0.1:1"), "{}", nobody.err);
}

/// Units that one agent has leased when Redis fails may be admitted by the others, too.
#[test]
fn the_bound_of_an_outage_contains_leased_units() {
    for (leases, bound) in [("on", "190 (290), and"), ("off", "100 (200), and")] {
        let rules = format!("rules: [{{ name: a, per: [ip], quota: 100/min, leases: {leases} }}]");
        let rules = file(&format!("leases-{leases}.yaml"), &rules);
        let said = finish(&mut tollgate(&["rules", "validate", rules.to_str().unwrap()]));
        assert_eq!((said.exit, said.out.contains(bound)), (0, true), "{}", said.out);
    }
}

/// Bounds of keys are shown as far as they differ, at most ten of them as text; the JSON has all.
#[test]
fn the_bounds_of_keys_are_shown_as_far_as_they_differ() {
    let keys: Vec<String> = (0..12).map(|key| format!("sk_live_{key:02}: {{ quota: {}/min }}", 500 + key)).collect();
    let keys = format!("{}, sk_live_12: {{ quota: 100/min }}", keys.join(", "));
    let rules = format!("rules: [{{ name: a, per: [api_key], quota: 100/min, keys: {{ {keys} }} }}]");
    let path = file("bounds-of-keys.yaml", &rules);
    let said = finish(&mut tollgate(&["rules", "validate", path.to_str().unwrap()]));
    let words = said.out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(said.exit, 0, "{}", said.err);
    assert!(words.contains("A counter admits at most 500 in any 1min by its estimate"), "{}", said.out);
    assert_eq!(words.matches("A counter admits").count(), 11, "{}", said.out);
    assert!(words.contains("2 more keys shown by --format json"), "{}", said.out);
    let said = finish(&mut tollgate(&["rules", "validate", path.to_str().unwrap(), "--format", "json"]));
    let set: serde_json::Value = serde_json::from_str(&said.out).unwrap();
    let bounds = set["rules"][0]["bounds"].as_array().unwrap();
    assert_eq!((bounds.len(), &bounds[0]["of"]), (13, &serde_json::Value::Null));
    assert_eq!(bounds[1]["of"], "key sk_live_00", "{}", said.out);
}

/// Keys have bounds of their own during an outage, too, as far as they differ from the rule: by the quota or by other
/// settings.
#[test]
fn the_bounds_of_an_outage_are_shown_for_keys_that_differ() {
    let keys = "10.0.0.1: { quota: 110/min }, 10.0.0.2: { quota: 100/min, leases: off }, \
                10.0.0.3: { quota: 100/min }, 10.0.0.4: { quota: 100/min, consistency: strict }";
    let rules = format!("rules: [{{ name: a, per: [ip], quota: 100/min, keys: {{ {keys} }} }}]");
    let path = file("outage-of-keys.yaml", &rules);
    let said = finish(&mut tollgate(&["rules", "validate", path.to_str().unwrap()]));
    let (_, outage) = said.out.split_once("REDIS LATE  ").expect("the table of outages");
    let words = outage.split_whitespace().collect::<Vec<_>>().join(" ");
    for row in ["key 10.0.0.1 110 (220)", "key 10.0.0.2 100 (200)", "key 10.0.0.4 100 100 190, and calls of 3 s 200"] {
        assert!(words.contains(row), "{row}: {}", said.out);
    }
    assert!(!words.contains("key 10.0.0.3"), "its bounds are those of the rule: {}", said.out);
    let said = finish(&mut tollgate(&["rules", "validate", path.to_str().unwrap(), "--format", "json"]));
    let set: serde_json::Value = serde_json::from_str(&said.out).unwrap();
    let shown = set["rules"][0]["outage_exceptions"].as_array().unwrap().iter();
    let shown: Vec<_> = shown.map(|of| (of["of"].as_str().unwrap(), of["outage"]["alone"].as_u64().unwrap())).collect();
    assert_eq!(shown, [("key 10.0.0.1", 220), ("key 10.0.0.2", 200), ("key 10.0.0.4", 200)]);
}

/// A file and an agent explain the values that a request has: the path with `{id}`, the method in upper case, the client of an
/// address.
#[test]
fn show_takes_values_as_the_agent_takes_them_of_a_request() {
    let rules = "rules:
  - { name: user, match: { endpoint: /users/123 }, per: [], quota: 1/min }
  - { name: users, match: { endpoint: '/users/{id}', method: GET, ip: '2001:db8::/64' }, per: [], quota: 1/min }
";
    let path = file("requests.yaml", rules);
    let up = Up::start(&["--rules", path.to_str().unwrap()]);
    let call = ["endpoint=/users/123?page=2", "method=get", "ip=2001:db8::7"];
    let of_file = finish(tollgate(&["rules", "show", path.to_str().unwrap()]).args(call));
    let of_agent = finish(tollgate(&["rules", "show", "--agent", &up.url()]).args(call));
    let sorted = |out: &str| {
        let mut lines: Vec<String> = out.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    assert_eq!((of_agent.exit, sorted(&of_agent.out)), (0, sorted(&of_file.out)));
    let words: Vec<Vec<&str>> = of_file.out.lines().map(|line| line.split_whitespace().take(2).collect()).collect();
    for line in
        [["endpoint", "/users/{id}"], ["method", "GET"], ["ip", "2001:db8::/64"], ["user", "no"], ["users", "yes"]]
    {
        assert!(words.contains(&line.to_vec()), "{line:?}: {}", of_file.out);
    }
    let decided = finish(tollgate(&["check", "--agent", &up.url()]).args(call));
    assert!(decided.out.contains("rule         users"), "{}", decided.out);
}

/// The schema for editors is JSON on stdout.
#[test]
fn the_schema_of_rules_files_is_printed() {
    let printed = finish(&mut tollgate(&["rules", "schema"]));
    assert_eq!((printed.exit, printed.err.as_str()), (0, ""));
    let schema: serde_json::Value = serde_json::from_str(&printed.out).unwrap();
    assert_eq!(schema, tollgate_rules::json_schema());
}
