//! Output for people fits into 80 columns, also with long names.

use crate::support::{file, finish, tollgate};

const RULES: &str = "\
rules:
  - name: a-name-of-64-letters-that-somebody-generated-from-deep-levels-xx
    match: { endpoint: /a/long/path/with/many/segments/that/programs/generate/and/nobody/would/write/*, method: POST }
    per: [tenant_of_the_caller, endpoint, api_key, ip]
    quota: 1/15min
    on_failure: limit 1/15min
    tiers: { a-tier-with-quite-a-long-name-that-its-operators-like: { quota: 1234567890/15min } }
  - { name: s, per: [ip], quota: 20/min, costs: { endpoint: { /search*: 5, /report/*: 20 } }, group: g, shadow: true }
  - { name: none, per: [another_descriptor_that_no_call_has], quota: 20/min }
lists:
  deny: [{ api_key: sk_revoked_abcdefghijklmnopqrstuvwxyz_abcdefghijklmnopqrstuvwxyz_abcdefghijklmnopqrstuvwxyz* }]
";
const CALL: &str = r#"{"time": 1000, "descriptors": {"ip": "2001:db8:1234:5678::", "method": "POST", "endpoint": "/a/long/path/with/many/segments/that/programs/generate/and/nobody/would/write/1", "api_key": "k", "tenant_of_the_caller": "a-long-name-of-a-tenant-without-any-space-in-between-0123456789"}}"#;

/// Checks every line of standard output. Returns the number of lines.
fn assert_fits(args: &[&str]) -> usize {
    let said = finish(&mut tollgate(args));
    assert_eq!(said.exit, 0, "{}", said.err);
    for line in said.out.lines() {
        assert!(line.chars().count() <= 80, "{} characters: {line}", line.chars().count());
    }
    said.out.lines().count()
}

#[test]
fn rules_validate_fits_80_columns() {
    let path = file("width.yaml", RULES);
    assert!(assert_fits(&["rules", "validate", path.to_str().unwrap()]) > 10);
    assert!(assert_fits(&["rules", "validate", "../rules.yaml"]) > 3);
    assert!(assert_fits(&["rules", "show", path.to_str().unwrap(), "api_key=k", "ip=10.0.0.1"]) > 10);
    assert!(assert_fits(&["rules", "diff", "../rules.yaml", path.to_str().unwrap()]) > 10);
}

#[test]
fn replay_fits_80_columns() {
    let rules = file("width.yaml", RULES);
    let nonsense = "nonsense\n".repeat(2);
    let calls: String = (1000..1040).map(|time| CALL.replace("1000", &time.to_string()) + "\n").collect();
    let log = calls + &nonsense;
    let log = file("a-folder-with-a-long-name-for-the-logs-of-all-gateways-of-all-regions/width.jsonl", &log);
    assert!(assert_fits(&["replay", log.to_str().unwrap(), "--rules", rules.to_str().unwrap()]) > 20);
    let trace = "../experiments/traces/apache_combined_10k.log.gz";
    assert!(assert_fits(&["replay", trace, "--limit", "60/min per ip", "--limit", "9/min per ip, user_agent"]) > 20);
}

#[test]
fn the_demo_fits_80_columns() {
    assert!(assert_fits(&["demo"]) > 20);
}
