//! The rules of the random world: every algorithm and setting, in three generations.

use tollgate::RuleSet;
use tollgate_core::counter::DigestKey;
use tollgate_core::messages::ledger::Terms;
use tollgate_core::rules::Generation;

/// Generation in force at the start of each agent, and the newest one.
pub(crate) const FIRST: Generation = 5;
pub(crate) const NEWEST: Generation = 7;

const RULES: &str = "
version: 5
defaults: { consistency: strict }
rules:
  - { name: key, match: { endpoint: { not: [/hot, /count] } }, per: [api_key], quota: 20/2s }
  - { name: log, match: { endpoint: /login }, per: [ip], quota: 6/3s, algorithm: sliding_log }
  - { name: fine, match: { endpoint: /search* }, per: [api_key], quota: 9/1s, sub_windows: 4, on_failure: limit 3/1s, leases: off }
  - { name: about, match: { endpoint: /about }, per: [], quota: 40/1500ms, estimate: interpolated, consistency: bounded, deadline: 9ms }
  - { name: bucket, match: { endpoint: /search* }, per: [ip], quota: 12/2s, algorithm: token_bucket, burst: 7 }
  - { name: fixed, match: { endpoint: /other }, per: [ip], quota: 9/1s, algorithm: fixed_window, leases: off }
  - { name: queue, match: { endpoint: /other }, per: [api_key], quota: 30/1s, algorithm: leaky_bucket, burst: 12 }
  - { name: burst, group: g, match: { endpoint: /about }, per: [api_key], quota: 12/2s, burst: 18, consistency: bounded }
  - { name: narrower, group: g, match: { endpoint: /about, ip: { cidr: 10.0.0.4/30 } }, per: [api_key], quota: 8/1s }
  - { name: slots, match: { endpoint: /login }, per: [api_key], quota: 4/2s, algorithm: concurrency }
  - { name: each, match: { endpoint: /other }, per: [api_key], quota: 11/1s, algorithm: fixed_window, charge: each }
  - { name: shade, match: { endpoint: /login }, per: [ip], quota: 3/1s, shadow: true }
  - { name: stream, match: { endpoint: /search* }, per: [ip], quota: 9/1s, consistency: eventual }
  - { name: hot, match: { endpoint: /hot }, per: [], quota: 150/3s, sub_windows: 3, consistency: bounded, estimate: conservative }
  - { name: warm, match: { endpoint: /hot, ip: { cidr: 10.0.0.0/30 } }, per: [], quota: 90/1500ms, algorithm: fixed_window }
  - { name: flat, match: { endpoint: /other }, per: [ip], quota: 12/4s, sub_windows: 4, cost: 2 }
  - { name: tiered, match: { endpoint: { not: [/hot, /count] } }, per: [user], quota: tier, keys: { user-1: { quota: 25/1s } } }
  - { name: count, match: { endpoint: /count }, per: [ip], quota: 10/1s, algorithm: fixed_window, charge: each }
lists: { allow: [{ ip: 10.0.0.7 }], deny: [{ ip: 10.0.0.9 }] }
tiers: { free: { quota: 9/1s }, pro: { quota: 14/1s }, free-for-all: { quota: unlimited } }
descriptors:
  tier: { of: ip, map: { 10.0.0.2: pro, 10.0.0.3: free-for-all }, default: free }
  user: { of: ip, map: { 10.0.0.1: user-1, 10.0.0.2: user-2, 10.0.0.3: user-3 } }
";

/// The changes of each newer generation: a quota that rises or falls, a window that becomes wider, narrower or finer, an algorithm.
/// `key` and `hot` change while agents hold leases of them.
const CHANGES: [&[(&str, &str)]; 2] = [
    &[
        ("version: 5", "version: 6"),
        ("quota: 20/2s }", "quota: 24/2s, sub_windows: 4 }"),
        ("quota: 150/3s, sub_windows: 3", "quota: 170/3s, sub_windows: 6"),
        ("quota: 9/1s, algorithm", "quota: 7/1s, algorithm"),
        ("quota: 12/4s, sub_windows: 4, cost: 2", "quota: 16/4s, sub_windows: 4"),
    ],
    &[
        ("version: 5", "version: 7"),
        ("quota: 20/2s }", "quota: 16/3s }"),
        ("quota: 150/3s, sub_windows: 3", "quota: 110/2s, sub_windows: 5"),
        ("sub_windows: 4, on_failure", "sub_windows: 8, on_failure"),
        ("quota: 11/1s", "quota: 15/2s"),
        ("quota: 6/3s, algorithm: sliding_log", "quota: 6/3s"),
        ("quota: 12/4s, sub_windows: 4, cost: 2", "quota: 24/4s, sub_windows: 4, costs: { endpoint: { /other: 3 } }"),
    ],
];

pub(crate) fn generation(generation: Generation) -> RuleSet {
    tollgate_rules::from_yaml("rules.yaml", &text(generation), 1).expect("valid rules")
}

fn text(generation: Generation) -> String {
    let changes = generation.checked_sub(FIRST + 1).and_then(|index| CHANGES.get(usize::try_from(index).ok()?));
    changes.copied().unwrap_or_default().iter().fold(RULES.to_owned(), |text, (from, to)| {
        assert!(text.contains(from), "{from}");
        text.replace(from, to)
    })
}

/// Rule with one quota over all regions, and its quotas in the three generations.
pub(crate) const GLOBAL: &str = "planet";
const GLOBAL_QUOTAS: [&str; 3] = ["24/2s", "36/3s", "12/1500ms"];
/// Floor of each region, in percent of a quota.
const FLOOR_PERCENT: u32 = 10;

/// Rule with a global scope of a world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GlobalRule {
    /// True if its quota and its window differ between generations.
    pub(crate) changes: bool,
    /// True if its sub-windows are so long that agents lease units.
    pub(crate) leases: bool,
    /// Number of regions that share it in each generation.
    pub(crate) sharing: [usize; 3],
}

/// Returns the rules of all regions: beside the others, one with a global scope.
pub(crate) fn of_regions(names: &[&str], number: Generation, global: GlobalRule) -> RuleSet {
    let generation = usize::try_from(number - FIRST).unwrap_or_default();
    let (place, names) = (if global.changes { generation } else { 0 }, names.iter().take(global.sharing[generation]));
    let (quota, sub_windows) = (GLOBAL_QUOTAS[place], if global.leases { ", sub_windows: 5" } else { "" });
    let rule = format!(
        "  - {{ name: {GLOBAL}, scope: global, match: {{ endpoint: /planet }}, per: [ip], quota: {quota}, cost: 1{sub_windows} }}\n"
    );
    let floors: Vec<_> = names.map(|name| format!("{name}: {{ floor: {FLOOR_PERCENT}% }}")).collect();
    let text = text(number).replace("lists:", &format!("{rule}regions: {{ {} }}\nlists:", floors.join(", ")));
    tollgate_rules::from_yaml("rules.yaml", &text, 1).expect("valid rules")
}

/// Returns the terms that the rules of all regions mean.
pub(crate) fn terms_of(rules: &RuleSet) -> Terms {
    let rule = rules.rules.iter().find(|rule| &*rule.name == GLOBAL).expect("a rule with a global scope");
    let policy = rule.policy.as_ref().expect("a rule with a policy");
    let (quota, window_ms) = (policy.units_over_regions(), policy.window.width_ms());
    Terms {
        rule: rule.name.clone(),
        generation: rules.generation,
        quota,
        window_ms,
        term_ms: window_ms * 3 / 2,
        key_fingerprint: DigestKey::default().fingerprint(),
        floors: rules.regions.iter().map(|part| (part.region.clone(), part.units_of(quota))).collect(),
    }
}

/// Returns the rules of all generations.
pub(crate) fn all() -> Vec<RuleSet> {
    (FIRST..=NEWEST).map(generation).collect()
}

pub(crate) fn older() -> RuleSet {
    tollgate_rules::from_yaml("rules.yaml", &RULES.replace("version: 5", "version: 4"), 9).expect("valid, but old")
}

/// Returns the text of rules that are broken.
pub(crate) fn broken() -> String {
    RULES.replace("quota: 20/2s", "quota: 0/2s").replace("version: 5", "version: 9")
}
