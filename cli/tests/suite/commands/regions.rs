//! Regions in the rules: `rules validate`, `show`, `diff`, `docs/rules.md`, and agents in and outside of the regions.

use serde_json::{Value, json};
use tollgate_servers::Redis;

use crate::support::{Up, file, finish, lines, tollgate, wait_for};

const RULES: &str = "\
regions:
  eu: { floor: 20% }
  us: { floor: 10% }
  ap: {}
rules:
  - name: per-key
    per: [api_key]
    quota: 1000/min
    scope: global
  - name: per-ip
    per: [ip]
    quota: 50/min
";
const DOCUMENT: &str = include_str!("../../../../docs/rules.md");

/// J2: the exposure of a regional limit is the limit times the regions. J3: a global rule is one quota over all regions.
#[test]
fn quotas_over_all_regions_are_shown_for_the_three_forms() {
    let path = file("regions.yaml", RULES);
    let said = finish(tollgate(&["rules", "validate", "--agents", "4"]).arg(&path));
    assert_eq!(said.exit, 0, "{}", said.err);
    let (_, over_regions) = said.out.split_once("ALL REGIONS is").expect("a part about regions");
    insta::assert_snapshot!(lines(&format!("ALL REGIONS is{over_regions}")), @r"
    ALL REGIONS is the quota of a caller that uses all regions. A rule with
    `scope: global` has one quota, in budgets that follow the calls; a region
    without its ledger has its floor. In parentheses: the most units of all
    regions in a window while the Redis of that region is down, for a fleet of
    4 there (--agents). With `scope: regional`, each region has the whole quota.
    The global view needs aggregators with --ledger; `tollgate regions` shows it.

    RULE              SCOPE            ALL REGIONS            ONE REGION
    per-key           global           1000/min               eu: 20% = 200 (1200)
                                                              us: 10% = 100 (1100)
                                                              ap: 1% = 10 (1008)
    per-ip            regional         50/min x 3 = 150/min   50/min
    (regional rules)  regional, and a  the same; the sum is   the same
                      global view for  seen, not limited
                      analytics only
    ");
    assert!(!said.out.contains("\nper-key  1000"), "its bound is not that of one region alone: {}", said.out);
    let said = finish(tollgate(&["rules", "validate", "--agents", "4", "--format", "json"]).arg(&path));
    let set: Value = serde_json::from_str(&said.out).unwrap();
    let names =
        [("eu", "20%"), ("us", "10%"), ("ap", "1%")].map(|(name, floor)| json!({ "name": name, "floor": floor }));
    assert_eq!(set["regions"], json!(names));
    let [global, regional] = [0, 1].map(|rule| &set["rules"][rule]);
    assert_eq!((&global["scope"], &regional["scope"]), (&"global".into(), &"regional".into()));
    assert_eq!((&global["consistency"], &global["estimate"]), (&"strict".into(), &"conservative".into()));
    assert_eq!(global["over_regions"]["units"], 1_000);
    let outage = json!({ "agents": 4, "by_signals": 1_006, "alone": 1_008 });
    assert_eq!(global["over_regions"]["floors"][2], json!({ "region": "ap", "units": 10, "outage": outage }));
    assert_eq!((&regional["over_regions"], global["outage"].is_null()), (&json!({ "units": 150 }), true));
}

/// Regions of the longest names, and quotas without a bound.
#[test]
fn the_table_of_regions_fits_80_columns() {
    let names = (10..40).map(|number| format!("region-{}-{number}: {{ floor: 1.2345% }}", "x".repeat(54)));
    let rules = RULES.replace("  eu:", &format!("  {}\n  eu:", names.collect::<Vec<_>>().join("\n  ")));
    let rules = rules.replace("scope: global", "scope: global\n    on_failure: open");
    let path = file("many-regions.yaml", &rules.replace("per-ip", "a-name-of-64-letters-from-deep-levels"));
    let said = finish(tollgate(&["rules", "validate"]).arg(&path));
    assert_eq!(said.exit, 0, "{}", said.err);
    let widest = said.out.lines().map(|line| line.chars().count()).max();
    assert!(widest.is_some_and(|columns| columns <= 80), "{widest:?}: {}", said.out);
    assert!(said.out.lines().count() > 60, "{}", said.out);
}

#[test]
fn a_changed_scope_and_changed_floors_are_compared_and_explained() {
    let path = file("scope-new.yaml", RULES);
    let before = file("scope-old.yaml", &RULES.replace("20%", "5%").replace("    scope: global\n", ""));
    let said = finish(tollgate(&["rules", "diff", "--format", "json"]).args([&before, &path]));
    let diff: Value = serde_json::from_str(&said.out).unwrap();
    let change = |field: &str| diff["changes"].as_array().unwrap().iter().find(|change| change["field"] == field);
    let scope = change("scope").expect("the scope differs");
    assert_eq!((&scope["from"], &scope["to"]), (&"regional".into(), &"global".into()));
    let regions = change("regions").expect("the floors differ");
    assert_eq!((&regions["from"], &regions["to"]), (&"eu 5%, us 10%, ap 1%".into(), &"eu 20%, us 10%, ap 1%".into()));
    let said = finish(tollgate(&["rules", "show"]).arg(&path).arg("api_key=k1"));
    let words = said.out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("floors: eu 200, us 100, ap 10"), "{}", said.out);
}

/// The region's floor without a ledger is printed at the start; a region without a part of the quota does not start.
#[test]
fn an_agent_names_the_floor_of_its_region_and_refuses_an_unknown_one() {
    let path = file("region-start.yaml", RULES);
    let path = path.to_str().unwrap();
    let mut up = Up::start(&["--rules", path, "--region", "us"]);
    let floor = "without a ledger this region admits at most 100 per window of rule `per-key`";
    let line = up.log().find(|line| line.contains("without a ledger")).expect("the floor is logged");
    assert!(line.contains(floor) && line.contains("region=us"), "{line}");
    let refusal = "error: rule `per-key` has `scope: global`, and the region `mars` of this agent is not under `regions`: name one of eu, us, ap with --region NAME, or write `mars` under `regions`\n";
    for command in ["up", "agent"] {
        let said = finish(&mut tollgate(&[command, "--rules", path, "--region", "mars", "--http", "127.0.0.1:0"]));
        assert_eq!((said.exit, &*said.out), (2, ""), "{command}: {}", said.err);
        assert!(said.err.ends_with(refusal), "{command}: {}", said.err);
    }
    let regional = file("region-regional.yaml", &RULES.replace("    scope: global\n", ""));
    let mut up = Up::start(&["--rules", regional.to_str().unwrap(), "--region", "mars"]);
    let warning =
        "the region `mars` of this agent is not under `regions`, which has eu, us, ap; no rule has `scope: global`";
    assert!(up.log().any(|line| line.contains("WARN") && line.contains(warning)));
}

/// J3: an agent with another digest key would spend the region's budget once more under other counters. It says so, and denies.
#[test]
fn an_agent_with_another_digest_key_than_its_region_denies_and_names_the_remedy() {
    // Parallel tests make Redis slow.
    let patient = RULES.replace("scope: global", "scope: global\n    deadline: 1s");
    let (redis, rules) = (Redis::start(), file("other-key.yaml", &patient));
    let key = file("other-key.key", "00112233445566778899aabbccddeeff\n");
    let (url, rules, key) = (redis.url(), rules.to_str().unwrap(), key.to_str().unwrap());
    let start = |node: &str, more: &[&str]| {
        let args =
            ["agent", "--http", "127.0.0.1:0", "--node", node, "--region", "us", "--rules", rules, "--redis", &url];
        let agent = Up::of(tollgate(&args).args(more));
        wait_for("the store", || (agent.client().get("/readyz", &[]).status == 200).then_some(()));
        agent
    };
    let (own, mut other) = (start("own", &[]), start("other", &["--digest-key-file", key]));
    let mut log = other.log();
    wait_for("a call of the own key", || (own.client().check("k").status == 200).then_some(()));
    assert_eq!(other.client().check("k").status, 429);
    let line = log.find(|line| line.contains("another digest key holds this region")).expect("it is logged");
    assert!(line.contains("ERROR") && line.contains("the same --digest-key-file"), "{line}");
    let (_, del) = line.split_once(" or DEL ").expect("the remedy names the record");
    let record = del.split_whitespace().next().expect("its key");
    assert_eq!(redis.command(&format!("DEL {record}")), ":1");
    wait_for("a call of the other key", || (other.client().check("k").status == 200).then_some(()));
    assert_eq!(own.client().check("k2").status, 429, "the key that came first holds the region");
}

/// The name of the mirrored usage is derived from that of the mirrored ledger.
#[test]
fn a_mirror_without_a_name_for_the_usage_is_refused() {
    let servers = ["--kafka", "127.0.0.1:1", "--redis", "redis://127.0.0.1:1", "--ledger", "127.0.0.1:1"];
    let args = [&["aggregator", "--http", "127.0.0.1:0", "--ledger-topic", "book"], &servers[..]].concat();
    let said = finish(&mut tollgate(&args));
    assert_eq!(said.exit, 2, "{}", said.err);
    assert!(said.err.contains("--ledger-topic book does not contain `ledger`"), "{}", said.err);
}

/// F3, last-good: a file without the agent's region does not replace the rules in force.
#[test]
fn a_reload_without_the_own_region_is_refused() {
    let path = file("region-reload.yaml", RULES);
    let mut up = Up::start(&["--rules", path.to_str().unwrap(), "--region", "us"]);
    let (mut client, mut log) = (up.client(), up.log());
    let mut generation = || client.get("/healthz", &[]).json()["generation"].as_u64().unwrap();
    let first = generation();
    file("region-reload.yaml", &RULES.replace("  us: { floor: 10% }\n", ""));
    let line = log.find(|line| line.contains("rule `per-key` has `scope: global`")).expect("the refusal is logged");
    assert!(line.contains("the region `us` of this agent is not under `regions`: name one of eu, ap"), "{line}");
    assert_eq!(generation(), first);
    file("region-reload.yaml", &RULES.replace("floor: 10%", "floor: 30%"));
    let floor = "without a ledger this region admits at most 300 per window of rule `per-key`";
    assert!(log.any(|line| line.contains(floor)), "the new floor is logged");
    wait_for("the new rules", || (generation() > first).then_some(()));
}

/// The example of the document is valid, and has the numbers that the document names.
#[test]
fn the_example_of_the_document_is_valid() {
    let (_, section) = DOCUMENT.split_once("\n## Regions\n").expect("a section about regions");
    let (_, yaml) = section.split_once("```yaml\n").expect("an example");
    let path = file("regions-document.yaml", yaml.split_once("```").expect("an end").0);
    let said = finish(tollgate(&["rules", "validate"]).arg(&path));
    assert_eq!(said.exit, 0, "{}", said.err);
    assert!(said.err.ends_with("valid, 2 rules, 0 warnings\n"), "{}", said.err);
    for number in ["eu: 10% = 100 (1100)", "us: 1% = 10 (1010)", "100/min x 2 = 200/min"] {
        assert!(said.out.contains(number), "{number}: {}", said.out);
    }
}
