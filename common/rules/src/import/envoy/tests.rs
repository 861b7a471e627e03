//! Output, warnings and refusals of the import of an Envoy configuration.

use super::super::Foreign;
use super::{EnvoySettings, from_envoy};
use tollgate_core::call::Call;
use tollgate_core::rules::problem::Problem;
use tollgate_core::rules::{Index, MatchScope, Positions, RULES_LEN_MAX};

fn envoy(text: &str) -> String {
    imported(&[text], &EnvoySettings::default()).unwrap_or_else(|problems| panic!("{problems}")).0
}

fn refusal(text: &str) -> String {
    imported(&[text], &EnvoySettings::default()).expect_err("must be refused")
}

fn imported(texts: &[&str], settings: &EnvoySettings) -> Result<(String, String), String> {
    let names: Vec<String> = (1..=texts.len()).map(|i| format!("{i}.yaml")).collect();
    let files: Vec<Foreign<'_>> = names.iter().zip(texts).map(|(name, text)| Foreign { name, text }).collect();
    let imported = from_envoy(&files, settings).map_err(|problems| problems.to_string())?;
    Ok((imported.text, lines(&imported.warnings)))
}

fn lines(problems: &[Problem]) -> String {
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_tree_becomes_rules_that_exclude_the_values_of_siblings() {
    let text = envoy(
        "domain: rl
descriptors:
  - key: foo
    rate_limit: { unit: minute, requests_per_unit: 2 }
    descriptors:
      - { key: bar, value: a?*z, rate_limit: { unit: MONTH, requests_per_unit: 7 }, shadow_mode: true }
  - { key: foo, value: x, rate_limit: { unit: week, requests_per_unit: 0, name: n } }
  - { key: foo, value: x*, share_threshold: true, rate_limit: { unit: day, requests_per_unit: 1, replaces: [{ name: n }] } }
",
    );
    let rules = "rules:
  # 1.yaml:3
  - name: rl/foo
    match:
      domain: { exact: rl }
      foo: { not: [x, \"x*\"] }
    exact_match: true
    per: [foo]
    quota: 2/min
    algorithm: fixed_window
    charge: each
  # 1.yaml:6
  - name: \"rl/foo/bar:a--z.DIGEST\"
    match:
      domain: { exact: rl }
      foo: { not: [x, \"x*\"] }
      bar: { regex: \"(?s)^a\\\\?.*z$\" }
    exact_match: true
    per: [foo, bar]
    quota: 7/30d
    algorithm: fixed_window
    charge: each
    shadow: true
  # 1.yaml:7
  - name: \"rl/foo:x\"
    match:
      domain: { exact: rl }
      foo: { exact: x }
    exact_match: true
    deny: true
  # 1.yaml:8
  - name: \"rl/foo:x-.DIGEST\"
    match:
      domain: { exact: rl }
      foo: { prefix: x, not: [x] }
    exact_match: true
    per: []
    quota: 1/d
    algorithm: fixed_window
    charge: each
    replaces: [\"rl/foo:x\"]
";
    assert_eq!(without_digests(text.split_once("rules:").map_or("", |(_, rules)| rules)), rules["rules:".len()..]);
}

fn without_digests(text: &str) -> String {
    let line = |line: &str| match line.split_once("- name: ").and_then(|(_, name)| name.rsplit_once('.')) {
        Some((name, digest)) if digest.len() == 9 => format!("  - name: {name}.DIGEST\"\n"),
        _ => format!("{line}\n"),
    };
    text.lines().map(line).collect()
}

#[test]
fn a_rule_name_is_short_unique_and_decided_by_its_own_path() {
    let long = "v".repeat(90);
    let text = format!(
        "domain: d
descriptors:
  - {{ key: a, value: {long}1, rate_limit: {{ unit: day, requests_per_unit: 1 }} }}
  - {{ key: a, value: {long}2, rate_limit: {{ unit: day, requests_per_unit: 1 }} }}
  - {{ key: a, value: x/b, rate_limit: {{ unit: day, requests_per_unit: 1 }} }}
  - {{ key: a, value: x, descriptors: [{{ key: b, rate_limit: {{ unit: day, requests_per_unit: 1 }} }}] }}
"
    );
    let names = |text: &str| -> Vec<String> {
        envoy(text).lines().filter_map(|line| line.trim().strip_prefix("- name: ").map(str::to_owned)).collect()
    };
    let all = names(&text);
    assert!(all.iter().all(|name| name.trim_matches('"').len() <= 64), "{all:?}");
    assert_eq!(all.iter().collect::<std::collections::BTreeSet<_>>().len(), 4);
    let alone: Vec<&str> = text.lines().filter(|line| !line.contains("2,")).collect();
    assert_eq!(names(&alone.join("\n"))[0], all[0], "a sibling changes no name");
}

/// Names of rules are public; they once contained the values of keys and tokens.
#[test]
fn a_rule_name_shows_no_secret() {
    let name = |key: &str, value: &str| {
        let limit = "rate_limit: { unit: day, requests_per_unit: 1 }";
        let text = envoy(&format!("domain: d\ndescriptors:\n  - {{ key: {key}, value: {value}, {limit} }}\n"));
        text.lines().find_map(|line| line.trim().strip_prefix("- name: ").map(str::to_owned)).expect("a name")
    };
    for key in ["api_key", "X-Auth", "sessionid", "AccessToken"] {
        let (one, other) = (name(key, "sk_live_one"), name(key, "sk_live_two"));
        assert!(one.starts_with(&format!("\"d/{key}:sk_l.")) && !one.contains("live") && one != other, "{one} {other}");
    }
    assert_eq!(name("generic_key", "slowpath"), "\"d/generic_key:slowpath\"");
    assert_eq!(name("user", "somebody"), "\"d/user:somebody\"");
}

#[test]
fn a_repeated_key_is_numbered() {
    let text = envoy(
        "domain: d
descriptors:
  - key: files
    descriptors:
      - key: files
        descriptors: [{ key: domain, rate_limit: { unit: day, requests_per_unit: 1 } }]
",
    );
    assert!(text.contains("per: [files, \"files#2\", \"domain#2\"]"), "{text}");
}

#[test]
fn settings_that_change_no_limit_are_dropped_with_a_warning() {
    let (text, warnings) = imported(
        &["domain: d
descriptors:
  - { key: a, value: '*', rate_limit: { unit: day, requests_per_unit: 1, replaces: [{ name: nobody }] } }
  - { key: a, rate_limit: { unit: day, requests_per_unit: 2 } }
  - { key: a_b, detailed_metric: true, value_to_metric: yes, metadata: { x: 1.5 }, shadow_mode: true }
  - { key: q, quota_mode: on, rate_limit: { unlimited: true, requests_per_unit: 3 } }
"],
        &EnvoySettings { all_or_none: vec!["d".into()], ..EnvoySettings::default() },
    )
    .unwrap_or_else(|problems| panic!("{problems}"));
    assert!(text.contains("charge: all_or_none") && !text.contains("quota: 2/d") && text.contains("quota: unlimited"));
    for part in [
        "1.yaml:5: `shadow_mode` and `quota_mode` do nothing without a `rate_limit`",
        "1.yaml:5: `detailed_metric` is dropped",
        "1.yaml:5: `value_to_metric` is dropped",
        "1.yaml:5: `metadata` is dropped",
        "1.yaml:6: `requests_per_unit` does nothing beside `unlimited`",
        "1.yaml:5: envoyproxy/ratelimit takes `a` with value `b` for this descriptor, too",
        "1.yaml:4: is never reached",
        "1.yaml:3: no limit of domain `d` is named `nobody` and can be replaced",
    ] {
        assert!(warnings.contains(part), "{part}\n{warnings}");
    }
}

#[test]
fn all_problems_are_reported_at_once_with_places_and_remedies() {
    let text = refusal(
        "domain: d
descriptors:
  - { key: a, ratelimit: {} }
  - { value: b }
  - { key: c, value: c, share_threshold: true }
  - { key: k, rate_limit: { unit: fortnight, requests_per_unit: 010 } }
  - { key: u, rate_limit: { unit: day, unlimited: true } }
  - { key: n }
  - { key: n }
  - { key: s, rate_limit: { unit: day, requests_per_unit: 1, name: s, replaces: [{ name: s }, { name: }] } }
  - { key: m, rate_limit: { shadow_mode: perhaps } }
  - plain
  - { key: 'w*' }
",
    );
    for part in [
        "1.yaml:3: unknown field `ratelimit` in a descriptor; did you mean `rate_limit`?",
        "1.yaml:4: the descriptor has no `key`",
        "1.yaml:5: `share_threshold` needs a `value` with a `*`",
        "1.yaml:6: unknown unit `fortnight`",
        "1.yaml:6: `requests_per_unit` is `010`",
        "1.yaml:7: an `unlimited` limit has no `unit`",
        "1.yaml:9: a descriptor with this key and value (`n`) stands at 1.yaml:8 too",
        "1.yaml:10: a limit cannot replace itself",
        "1.yaml:10: an item of `replaces` has no `name`",
        "1.yaml:11: there is no `unit`",
        "1.yaml:12: a descriptor must be a mapping",
        "1.yaml:13: a `*` in a key is not supported",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
}

#[test]
fn a_domain_in_two_files_is_refused_unless_they_are_to_be_merged() {
    let files =
        ["domain: d\ndescriptors: [{ key: a, rate_limit: { unit: day, requests_per_unit: 1 } }]\n", "domain: d\n"];
    let refused = imported(&files, &EnvoySettings::default()).expect_err("must be refused");
    assert_eq!(
        refused,
        "2.yaml:1: domain `d` stands in 1.yaml too; put both into one file, or ask for domains to be merged"
    );
    let merge = EnvoySettings { merge_domains: true, ..EnvoySettings::default() };
    assert!(imported(&files, &merge).is_ok());
    let twice = imported(&[files[0], files[0]], &merge).expect_err("must be refused");
    assert!(
        twice.starts_with("2.yaml:2: a descriptor with this key and value (`a`) stands at 1.yaml:2 too"),
        "{twice}"
    );
}

/// Writes a domain with this number of limits from line 3 on; the last one matches any value.
fn of_many(limits: usize, value: impl Fn(usize) -> String) -> String {
    let limit = "rate_limit: { unit: day, requests_per_unit: 1 }";
    let limits_with_values = (1..limits).map(|i| format!("  - {{ key: k, value: {}, {limit} }}\n", value(i)));
    let last = format!("  - {{ key: k, {limit} }}\n");
    std::iter::once("domain: d\ndescriptors:\n".to_owned()).chain(limits_with_values).chain([last]).collect()
}

#[test]
fn the_largest_set_is_read_and_has_few_candidates() {
    let text = envoy(&of_many(RULES_LEN_MAX, |i| format!("v{i}")));
    let set = crate::from_yaml("imported", &text, 1).unwrap_or_else(|problems| panic!("{problems}"));
    assert_eq!(set.rules.len(), RULES_LEN_MAX);
    let index = Index::new(&set.rules);
    let last = RULES_LEN_MAX - 1;
    for (value, place) in [("v1", 0), ("v9999", last - 1), ("v10000", last), ("", last)] {
        let call = Call::new().with("domain", "d").with("k", value);
        let scope = MatchScope { ordered_entries: true, ..MatchScope::default() };
        let resolved = set.resolved_within(&call, scope);
        let mut positions = Positions::new();
        let candidates = index.candidates(&resolved, &mut positions);
        assert!(candidates.len() <= 2, "{candidates:?}");
        let applicable = set.applicable_among(&resolved, candidates.iter().copied());
        assert_eq!(applicable.iter().map(|applicable| applicable.index).collect::<Vec<_>>(), [place], "{value}");
    }
}

#[test]
fn more_than_a_rules_file_may_hold_is_refused_with_the_place_of_the_limit() {
    let refused = refusal(&of_many(RULES_LEN_MAX + 3, |i| format!("v{i}")));
    assert_eq!(
        refused,
        "1.yaml:10003: with this limit there are more than 10000, and no more are enforced; remove some"
    );
    let long = "x".repeat(60);
    let refused = refusal(&of_many(1_000, |i| format!("'{long}*{i}*'")));
    assert!(refused.starts_with("1.yaml:") && refused.contains(": with this limit the rules are longer than"));
    assert_eq!(refused.lines().count(), 1, "{refused}");
}

/// Projects for Kubernetes keep the configuration in the manifest of a `ConfigMap`: each of its keys is a file.
#[test]
fn a_manifest_of_a_config_map_stands_for_its_files() {
    let manifest = "apiVersion: v1
kind: ConfigMap
metadata:
  name: ratelimit-config
data:
  one.yaml: |
    domain: one
    descriptors:
      - key: generic_key
        value: foo
        rate_limit: { unit: minute, requests_per_unit: 1 }
  two.yaml: |
    domain: two
    descriptors:
      - key: remote_address
        rate_limit: { unit: minute, requests_per_unit: 3 }
";
    let text = envoy(manifest);
    assert!(text.contains("one/generic_key:foo") && text.contains("two/remote_address"), "{text}");
    let broken = manifest.replace("unit: minute, requests_per_unit: 3", "unit: minute");
    assert!(
        refusal(&broken).starts_with("1.yaml, two.yaml:4: there is no `requests_per_unit`"),
        "{}",
        refusal(&broken)
    );
}

/// A key of a manifest that is left out is a limit that is not enforced.
#[test]
fn each_part_of_a_manifest_that_is_no_file_is_named() {
    let manifest = |data: &str| format!("apiVersion: v1\nkind: ConfigMap\n{data}\n");
    let limit = "rate_limit: { unit: day, requests_per_unit: 1 }";
    let good = format!("one: |\n    domain: one\n    descriptors: [{{ key: k, {limit} }}]");
    let refused = refusal(&manifest(&format!("data:\n  {good}\n  two.yaml:\n    domain: two\n    descriptors: []")));
    assert!(refused.starts_with("1.yaml:7: `two.yaml` of `data` is no text; write `two.yaml: |`"), "{refused}");
    assert_eq!(refused.lines().count(), 1, "{refused}");
    let refused = refusal(&manifest(&format!("data:\n  {good}\nbinaryData:\n  three.yaml: ZG9tYWluOiBk")));
    assert!(refused.starts_with("1.yaml:8: `three.yaml` is under `binaryData`, which is not read"), "{refused}");
    for empty in ["data: {}", "data:", "data: null", "metadata: { name: x }"] {
        let (_, warned) = imported(&[&manifest(empty)], &EnvoySettings::default()).expect(empty);
        assert!(warned.contains("`data` of the manifest is empty, so it limits nothing; write"), "{empty}: {warned}");
    }
    let broken = refusal("kind: ConfigMap\ndata: [\n");
    assert_eq!(broken.lines().count(), 1, "{broken}");
}

/// envoyproxy/ratelimit reads the first document of a file only.
#[test]
fn several_documents_of_a_file_are_refused_with_a_remedy() {
    let document = |domain: &str| {
        format!("domain: {domain}\ndescriptors:\n- {{ key: k, rate_limit: {{ unit: hour, requests_per_unit: 1 }} }}\n")
    };
    let (one, two) = (document("one"), document("two"));
    let said = refusal(&format!("{one}---\n{two}"));
    assert!(said.contains("write each one into a file of its own"), "{said}");
    assert!(imported(&[&one, &two], &EnvoySettings::default()).is_ok());
}

/// Go expands merges of YAML, so a configuration means the same with and without them.
#[test]
fn merges_are_expanded() {
    let merged = "domain: d
descriptors:
  - &user
    key: user
    rate_limit: &hour { unit: hour, requests_per_unit: 5 }
  - { <<: *user, value: root, rate_limit: { <<: *hour, requests_per_unit: 9 } }
  - key: plan
    descriptors: [{ <<: [*user], value: x, shadow_mode: true }]
";
    let written = "domain: d
descriptors:
  - key: user

    rate_limit: { unit: hour, requests_per_unit: 5 }
  - { key: user, value: root, rate_limit: { unit: hour, requests_per_unit: 9 } }
  - key: plan
    descriptors: [{ key: user, value: x, shadow_mode: true, rate_limit: { unit: hour, requests_per_unit: 5 } }]
";
    assert_eq!(envoy(merged).replace("1.yaml:4", "1.yaml:3"), envoy(written));
    let refused = refusal("domain: d\ndescriptors:\n  - { key: user, <<: text }\n");
    assert!(refused.starts_with("1.yaml:3: `<<` merges the keys of other mappings"), "{refused}");
}

/// Rules match an entry of that project by its text, also where its name is that of a part of a request.
#[test]
fn entries_with_the_names_of_parts_of_a_request_keep_their_values() {
    let limit = "rate_limit: { unit: day, requests_per_unit: 1 }";
    let text = envoy(&format!(
        "domain: d\ndescriptors:\n  - {{ key: method, value: get, {limit} }}\n  - {{ key: user, descriptors: [{{ key: ip, {limit} }}] }}\n"
    ));
    assert!(text.contains("descriptors:\n  ip: { header: ip }\n  method: { header: method }\nrules:\n"), "{text}");
    let set = crate::from_yaml("rules.yaml", &text, 1).expect("rules");
    assert!(!lines(&set.warnings).contains("never matches"), "{}", lines(&set.warnings));
    let call = set.as_requested(Call::new().with("domain", "d").with("method", "get"));
    assert_eq!(set.applicable(&set.resolved(&call)).len(), 1);
    assert!(!envoy(&format!("domain: d\ndescriptors: [{{ key: user, {limit} }}]\n")).contains("header"));
}
