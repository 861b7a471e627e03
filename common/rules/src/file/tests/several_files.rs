//! Rules in several files: what is merged, what stands in one file only, and the places of problems.

use super::*;
use crate::{NamedText, parts_text};
use tollgate_core::messages::rules::Published;

const COMMON: &str = "version: 7
descriptors:
  user: { header: x-user, verified: true }
  tier: { of: user, map: { u_*: pro }, default: free }
tiers: { free: { quota: 1/min }, pro: { quota: 9/min } }
";
const SEARCH: &str = "owner: Team Search
defaults: { consistency: strict }
rules: [{ name: search, match: { endpoint: /search* }, per: [user], quota: 5/s }]
lists: { deny: [{ user: bad }] }
";
const PAYMENTS: &str = "descriptors: { user: { header: x-user, verified: true } }
rules:
  - { name: pay, per: [user] }
lists: { deny: [{ user: worse }] }
";

fn read(files: &[(&str, &str)]) -> Result<RuleSet, Vec<String>> {
    let part = |(name, text): &(&str, &str)| NamedText { name: (*name).to_owned(), text: (*text).to_owned() };
    let parts: Vec<NamedText> = files.iter().map(part).collect();
    let read = crate::from_parts("rules", &parts, 1);
    let texts = |error: Problems| error.problems.iter().map(ToString::to_string).collect();
    read.map_err(texts)
}

fn refused(files: &[(&str, &str)]) -> String {
    read(files).expect_err("must be refused").join("\n")
}

#[test]
fn files_are_one_set_and_defaults_are_for_their_own_file() {
    let set = read(&[("a.yaml", COMMON), ("b.yaml", SEARCH), ("c.yaml", PAYMENTS)]).expect("valid");
    let [search, pay] = &set.rules[..] else { panic!("two rules: {:?}", set.rules) };
    let consistency = |rule: &Rule| rule.policy.map(|policy| policy.consistency);
    assert_eq!((&*search.name, consistency(search)), ("search", Some(Consistency::Strict)));
    assert_eq!((&*pay.name, consistency(pay)), ("pay", Some(Consistency::Bounded)));
    assert_eq!((search.owner.as_deref(), pay.owner.as_deref()), (Some("Team Search"), None));
    assert_eq!(pay.by_tier.len(), 1, "the tiers of another file");
    assert_eq!((set.lists.deny.len(), set.generation, &*set.origin), (2, 7, "rules"));
    assert_eq!(set.warnings, []);
}

#[test]
fn a_name_in_two_files_is_refused_with_both_places() {
    let other = "descriptors: { user: { header: other } }\ntiers: { pro: { quota: 3/s } }\n\nrules: [{ name: search, per: [ip], quota: 1/s }]";
    let refusal = refused(&[("a.yaml", COMMON), ("b.yaml", SEARCH), ("c.yaml", other)]);
    let expected = [
        "c.yaml:1: `user` under `descriptors` is written in another way in a.yaml:3; write it in one of the files, or alike",
        "c.yaml:2: `pro` under `tiers` is written in another way in a.yaml:5; write it in one of the files, or alike",
        "c.yaml:4: a rule named `search` stands in b.yaml:3, too; rename one",
    ];
    assert_eq!(refusal.lines().collect::<Vec<_>>(), expected);
    let twice = "rules:\n- { name: a, per: [ip], quota: 1/s }\n- { name: a, per: [ip], quota: 1/s }";
    assert_eq!(refusal_of_one(twice), "rules.yaml:3: a rule named `a` stands in line 2, too; rename one");
}

fn refusal_of_one(yaml: &str) -> String {
    crate::from_yaml("rules.yaml", yaml, 1).expect_err("must be refused").to_string()
}

#[test]
fn keys_of_the_whole_set_stand_in_one_file_only() {
    for key in
        ["version: 3", "slot_by: ip", "regions: { eu: {}, us: {} }", "deny_status: 403", "degraded_remaining: -1"]
    {
        let (file, name) = (format!("\n{key}\nrules: []"), key.split(':').next().unwrap_or_default());
        let refusal = refused(&[("a.yaml", &file), ("b.yaml", &file)]);
        let expected = format!("b.yaml:2: `{name}` stands in a.yaml:2, too, and is one for all files;");
        assert!(refusal.starts_with(&expected) && refusal.lines().count() == 1, "{refusal}");
    }
}

/// A setting may make a policy impossible from another file than the rule's.
#[test]
fn each_problem_has_the_file_and_the_line_of_its_cause_and_the_owner() {
    let tiers = "\ntiers: { pro: { sub_windows: 7 } }\n";
    let rules =
        "owner: Team B\nrules:\n  - { name: b, per: [ip], quota: 1/s }\n  - { name: c, perr: [ip], quota: 1/s }\n";
    let refusal = refused(&[("a.yaml", tiers), ("b.yaml", rules)]);
    let lines: Vec<_> = refusal.lines().collect();
    assert!(lines[0].starts_with("a.yaml:2: ") && !lines[0].contains("owner"), "{refusal}");
    assert!(
        lines
            .iter()
            .any(|line| line.starts_with("b.yaml:4: unknown field `perr`") && line.ends_with(" (owner: Team B)")),
        "{refusal}"
    );
    let set = read(&[("a.yaml", SEARCH), ("b.yaml", "\nrules: [{ name: b, per: [usr], quota: 1/s }]")]).expect("valid");
    let warnings: Vec<_> = set.warnings.iter().map(|warning| &*warning.place).collect();
    assert_eq!(warnings, ["a.yaml:3", "a.yaml:4", "b.yaml:2"], "{:?}", set.warnings);
}

#[test]
fn a_file_that_cannot_be_read_is_the_only_problem() {
    let refusal =
        refused(&[("a.yaml", COMMON), ("b.yaml", "rules:\n  - { name: \"x }\n"), ("c.yaml", ""), ("d.yaml", PAYMENTS)]);
    let lines: Vec<_> = refusal.lines().collect();
    let [broken, empty] = lines[..] else { panic!("{refusal}") };
    assert!(broken.starts_with("b.yaml:") && broken.contains("this YAML cannot be read"), "{refusal}");
    assert_eq!(empty, "c.yaml:1: the file is empty");
    let refusal = refused(&[("a.yaml", COMMON), ("b.yaml", "owner: b")]);
    assert_eq!(refusal, "a.yaml:1: there is no `rules:`; write at least one rule under it");
}

#[test]
fn files_together_have_the_cap_of_one() {
    let half = format!("rules: []\n#{}", " ".repeat(FILE_LEN_MAX / 2));
    let refusal = refused(&[("a.yaml", &half), ("b.yaml", &half)]);
    assert!(refusal.starts_with("a.yaml:1: the files have ") && refusal.contains("at most 4194304"), "{refusal}");
}

#[test]
fn a_published_text_of_several_files_has_the_places_of_the_files() {
    let part = |name: &str, text: &str| NamedText { name: name.to_owned(), text: text.to_owned() };
    let publish = |files: &[NamedText]| crate::read_published(&Published::new("rules", parts_text(files)), 4);
    let set = publish(&[part("a.yaml", COMMON), part("b.yaml", SEARCH)]).expect("valid");
    assert_eq!((set.rules.len(), set.generation, &*set.origin), (1, 4, "rules, published"));
    let error = publish(&[part("a.yaml", COMMON), part("b.yaml", "\nrules:\n- { name: b }")]).expect_err("no `per`");
    assert!(error.to_string().starts_with("b.yaml:3: the rule has no `per`"), "{error}");
}
