//! The table of all settings of a rule, in the order in which they are applied and shown. The order matters in one place:
//! `algorithm` and `consistency` stand before the settings whose defaults depend on them.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use tollgate_core::algorithm::Algorithm::{self, FixedWindow, LeakyBucket, SlidingLog, SlidingWindow, TokenBucket};
use tollgate_core::rules::{Charging, Scope, show_units};
use tollgate_core::window::SUB_WINDOWS_MAX;

use super::burst::{multiplier_form, read_burst, read_multiplier};
use super::costs::{cost_text, costs_form, costs_json, read_costs, read_units};
use super::own_answer::{form, read_own_answer, show_own_answer};
use super::policy_values::{
    ALGORITHMS, CONSISTENCIES, ESTIMATES, LEASES, ON_FAILURES, algorithm_name, algorithm_text, estimate_text,
    on_failure_text, quota_over_regions, quota_text, read_algorithm, read_consistency, read_deadline, read_estimate,
    read_leases, read_on_failure, read_sub_windows, word_of,
};
use super::setting::ValueParser::{Policy, PolicyAlias, Rule as RuleValue};
use super::setting::{Level, Setting};
use super::show::{ALGORITHM_COLUMN, MORE_COLUMN, QUOTA_COLUMN, Shown};
use crate::display;
use crate::rule_name;
use crate::schema::{
    flag, list_of, map_of, pattern, quota_or_unlimited, reference, text, units, whole, words, words_or_limit,
};
use crate::yaml::{Fields, Node, YamlReader};

/// Levels of a setting that every rule may have.
const EVERYWHERE: &[Level] = &[Level::Defaults, Level::Exception, Level::Rule, Level::DenyingRule, Level::Unlimited];
/// Levels of a setting that has no effect in a rule which denies.
const LIMITING: &[Level] = &[Level::Defaults, Level::Exception, Level::Rule, Level::Unlimited];
/// Levels of a setting that has no effect without a quota.
const COUNTING: &[Level] = &[Level::Defaults, Level::Exception, Level::Rule];
/// Levels of a part of every rule.
const ANY_RULE: &[Level] = &[Level::Rule, Level::DenyingRule];
/// Levels of a part of every rule that may also be a default.
const ANY_RULE_BY_DEFAULT: &[Level] = &[Level::Defaults, Level::Rule, Level::DenyingRule];
/// Levels of a part of a rule that limits, which may also be a default.
const LIMITING_RULE_BY_DEFAULT: &[Level] = &[Level::Defaults, Level::Rule];
/// Levels of a part of a rule that limits.
const LIMITING_RULE: &[Level] = &[Level::Rule];

const CHARGES: [(&str, Charging); 2] = [("all_or_none", Charging::AllOrNone), ("each", Charging::Each)];
const LOWERS: [(&str, bool); 2] = [("now", false), ("next-window", true)];
const SCOPES: [(&str, Scope); 2] = [("regional", Scope::Regional), ("global", Scope::Global)];

pub(super) static TABLE: [Setting; 30] = [
    Setting::new("name", ANY_RULE).schema("Name of the rule in answers, metrics and logs.", rule_name::form).of_rule(
        |rule, shown| {
            shown.json("name", &*rule.name);
            shown.text("name", Some(rule.name.to_string()));
        },
    ),
    Setting::new("match", ANY_RULE)
        .schema("Patterns for descriptors; a call matches all. Default: every call.", || reference("matches"))
        .of_rule(|rule, shown| {
            shown.json("match", display::matches_json(&rule.matches));
            shown.text("match", Some(display::matches(&rule.matches)));
        }),
    Setting::new("exact_match", ANY_RULE)
        .schema("True: only for calls without descriptors beside those of `match` and `per`.", flag)
        .parser(RuleValue(|reader, node, _, rule| {
            rule.exact_match = reader.parse(node, "`exact_match`", "true or false").unwrap_or_default();
        }))
        .of_rule(|rule, shown| {
            shown.json("exact_match", rule.exact_match);
            shown.add_cell(MORE_COLUMN, rule.exact_match.then(|| "exact match".to_owned()));
        }),
    Setting::new("per", LIMITING_RULE)
        .schema("Descriptors that select the counter; [] is one counter for all calls.", || list_of(&text()))
        .of_rule(|rule, shown| {
            shown.json("per", names_json(&rule.per));
            shown.text("per", Some(display::per(rule)));
        }),
    Setting::new("quota", COUNTING)
        .schema("Units in a window, such as 100/min, 5/15min or 10MB/s, or `unlimited`.", quota_or_unlimited)
        .of_rule(|rule, shown| {
            let from = rule.quota_from.as_deref();
            shown.json("quota_from", from);
            shown.text("quota.from", from.map(str::to_owned));
            shown.add_cell(MORE_COLUMN, from.map(|name| format!("quota from {name}")));
        })
        .of_policy(|policy, shown| {
            let quota = quota_over_regions(policy);
            let floor = policy.global_quota.map(|_| policy.quota.units());
            shown.json("quota", quota.to_string());
            shown.json("units", quota.units());
            shown.json("window_ms", quota.width_ms());
            shown.json("floor", floor);
            shown.text("quota", Some(quota.to_string()));
            shown.add_cell(QUOTA_COLUMN, Some(quota_text(policy)));
            shown.named(QUOTA_COLUMN, "floor", floor.map(|floor| show_units(floor, quota.unit())));
        }),
    Setting::new("tiers", LIMITING_RULE)
        .schema("Other settings for callers in a tier.", || map_of(&reference("exception")))
        .of_rule(|rule, shown| {
            let tiers = rule.by_tier.iter().map(|(tier, policy)| (tier, Shown::of_policy(rule, policy.as_ref()).json));
            shown.json("tiers", tiers.map(|(tier, json)| (tier.to_string(), json.into())).collect::<Map<_, _>>());
        }),
    Setting::new("keys", LIMITING_RULE)
        .schema("Other settings by the value of the first descriptor of `per`.", || map_of(&reference("exception")))
        .of_rule(|rule, shown| {
            let count = rule.by_key.len();
            shown.json("keys", count);
            shown.add_cell(
                MORE_COLUMN,
                (count > 0).then(|| format!("{count} key{}", if count == 1 { "" } else { "s" })),
            );
        }),
    Setting::new("until", &[Level::Exception])
        .schema("End of the exception, such as 2026-12-01T12:00:00Z; for tiers and keys of a rule.", text),
    Setting::new("reason", &[Level::Exception]).schema("Reason of the exception, for people.", text),
    Setting::new("group", ANY_RULE)
        .schema("Only the narrowest rule of a group applies.", text)
        .parser(RuleValue(|reader, node, _, rule| rule.group = reader.text(node, "`group`").map(Into::into)))
        .of_rule(|rule, shown| {
            shown.json("group", rule.group.as_deref());
            shown.named(MORE_COLUMN, "group", rule.group.as_deref().map(str::to_owned));
        }),
    Setting::new("algorithm", COUNTING)
        .schema("How units are counted. Default: sliding_window.", || words(&ALGORITHMS))
        .parser(Policy(read_algorithm))
        .of_policy(|policy, shown| {
            shown.json("algorithm", algorithm_name(policy.algorithm));
            shown.column(ALGORITHM_COLUMN, "algorithm", algorithm_text(policy));
        }),
    Setting::new("burst", COUNTING)
        .schema(
            "Units that may pass at once after idle time; `true` is 1.2 quotas.",
            || json!({ "anyOf": [flag(), units()] }),
        )
        .parser(Policy(read_burst))
        .refusal(|algorithm, name| {
            let has_burst = matches!(algorithm, SlidingWindow(_) | TokenBucket | LeakyBucket);
            let text = || {
                format!(
                    "a `{name}` lets nothing beyond its quota pass and takes no burst; remove it, or use \
                     sliding_window, token_bucket or leaky_bucket"
                )
            };
            (!has_burst).then(text)
        })
        .of_policy(|policy, shown| {
            let burst = Some(policy.burst).filter(|burst| *burst > 0);
            shown.json("burst", burst);
            shown.named(ALGORITHM_COLUMN, "burst", burst.map(|burst| show_units(burst, policy.quota.unit())));
        }),
    Setting::new("burst_multiplier", COUNTING)
        .schema("Burst as a multiple of the quota, such as 1.5.", multiplier_form)
        .parser(PolicyAlias("burst", read_multiplier)),
    Setting::new("consistency", LIMITING)
        .schema("Bound on errors, against availability. Default: bounded.", || words(&CONSISTENCIES))
        .parser(Policy(read_consistency))
        .of_policy(|policy, shown| {
            let consistency = word_of(&CONSISTENCIES, &policy.consistency);
            shown.json("consistency", consistency);
            shown.named(MORE_COLUMN, "consistency", Some(consistency.to_owned()));
        }),
    Setting::new("sub_windows", EVERYWHERE)
        .schema("Number of parts of a sliding window.", || whole(1, SUB_WINDOWS_MAX.into()))
        .parser(Policy(read_sub_windows))
        .refusal(|algorithm, name| {
            (!is_sliding_window(algorithm)).then(|| format!("a `{name}` has no `sub_windows`; remove them"))
        })
        .of_policy(|policy, shown| {
            shown.json("sub_windows", is_sliding_window(policy.algorithm).then(|| policy.window.sub_windows()));
        }),
    Setting::new("estimate", EVERYWHERE)
        .schema("How the oldest sub-window counts. Default: conservative if strict.", || words(&ESTIMATES))
        .parser(Policy(read_estimate))
        .refusal(|algorithm, name| {
            let reason = if algorithm == SlidingLog { "is exact" } else { "estimates nothing" };
            let text = || format!("a `{name}` {reason} and takes no `estimate`; remove it");
            (!is_sliding_window(algorithm)).then(text)
        })
        .of_policy(|policy, shown| shown.json("estimate", estimate_text(policy.algorithm))),
    Setting::new("on_failure", EVERYWHERE)
        .schema("Decision while Redis is down, also `limit 5/min`. Default: share.", || words_or_limit(&ON_FAILURES))
        .parser(Policy(read_on_failure))
        .of_policy(|policy, shown| {
            let on_failure = on_failure_text(policy.on_failure);
            shown.json("on_failure", &*on_failure);
            shown.named(MORE_COLUMN, "on_failure", Some(on_failure));
        }),
    Setting::new("deadline", EVERYWHERE)
        .schema("Longest wait of a call for Redis, up to 10s. Default: 15ms.", || pattern(r"[0-9]*\s*[A-Za-z]+"))
        .parser(Policy(read_deadline))
        .of_policy(|policy, shown| {
            let deadline_ms = u64::try_from(policy.deadline.as_millis()).unwrap_or(u64::MAX);
            shown.json("deadline_ms", deadline_ms);
            shown.text("deadline", Some(format!("{deadline_ms} ms")));
        }),
    Setting::new("leases", LIMITING)
        .schema("on: agents lease units of busy callers; off: each call asks Redis. Default: on.", || words(&LEASES))
        .parser(Policy(read_leases))
        .refusal(|algorithm, name| {
            let leases = is_sliding_window(algorithm) || algorithm == FixedWindow;
            (!leases).then(|| format!("a `{name}` has no `leases`; remove it"))
        })
        .of_policy(|policy, shown| {
            let leases = policy.limit().leases().then(|| word_of(&LEASES, &policy.leases));
            shown.json("leases", leases);
            let is_off = policy.limit().leases() && !policy.leases;
            shown.named(MORE_COLUMN, "leases", is_off.then(|| "off".to_owned()));
        }),
    Setting::new("cost", LIMITING_RULE)
        .schema("Units of each call. Default: the cost of the call.", units)
        .parser(RuleValue(|reader, node, _, rule| rule.cost = read_units(reader, node, "`cost`")))
        .of_rule(|rule, shown| {
            shown.json("cost", rule.cost);
            shown.named(MORE_COLUMN, "cost", cost_text(rule));
        }),
    Setting::new("costs", LIMITING_RULE)
        .schema("Units by a descriptor, such as { endpoint: { /search*: 5 } }.", costs_form)
        .parser(RuleValue(read_costs))
        .of_rule(|rule, shown| shown.json("costs", costs_json(rule))),
    Setting::new("charge", LIMITING_RULE)
        .schema("each: charged even if another rule denies. Default: all_or_none.", || words(&CHARGES))
        .parser(RuleValue(|reader, node, _, rule| {
            rule.charge = reader.word(node, "charge", &CHARGES, &[]).unwrap_or_default();
        }))
        .of_rule(|rule, shown| {
            show_word(shown, "charge", word_of(&CHARGES, &rule.charge), rule.charge != Charging::default());
        }),
    Setting::new("deny", ANY_RULE)
        .schema("True: denies every matching call; the rule has no quota.", flag)
        .of_rule(|rule, shown| shown.json("deny", rule.deny)),
    Setting::new("shadow", ANY_RULE_BY_DEFAULT)
        .schema("True: counts and reports, but never denies.", flag)
        .parser(RuleValue(|reader, node, _, rule| rule.shadow = read_flag(reader, node, "`shadow`")))
        .of_rule(|rule, shown| show_flag(shown, "shadow", "shadow", rule.shadow)),
    Setting::new("quota_mode", LIMITING_RULE_BY_DEFAULT)
        .schema("True: denies a request only if all its rules in quota mode are over their limits.", flag)
        .parser(RuleValue(|reader, node, _, rule| rule.quota_mode = read_flag(reader, node, "`quota_mode`")))
        .of_rule(|rule, shown| show_flag(shown, "quota_mode", "quota mode", rule.quota_mode)),
    Setting::new("refunds", LIMITING_RULE_BY_DEFAULT)
        .schema("True: gives back units without the id of a call (negative hits).", flag)
        .parser(RuleValue(|reader, node, _, rule| rule.refunds = read_flag(reader, node, "`refunds`")))
        .of_rule(|rule, shown| show_flag(shown, "refunds", "refunds", rule.refunds)),
    Setting::new("lower", LIMITING_RULE_BY_DEFAULT)
        .schema("When a lower quota takes effect: at once, or at the next edge of the window. Default: now.", || {
            words(&LOWERS)
        })
        .parser(RuleValue(|reader, node, _, rule| {
            rule.lowers_at_edge = reader.word(node, "lower", &LOWERS, &[]).unwrap_or_default();
        }))
        .of_rule(|rule, shown| show_word(shown, "lower", word_of(&LOWERS, &rule.lowers_at_edge), rule.lowers_at_edge)),
    Setting::new("replaces", ANY_RULE)
        .schema("Names of rules that do not apply where this rule applies.", || list_of(&text()))
        .parser(RuleValue(|reader, node, _, rule| {
            let items = reader.items(node, "`replaces`").into_iter();
            rule.replaces =
                items.filter_map(|item| reader.text(item, "an item of `replaces`").map(Into::into)).collect();
        }))
        .of_rule(|rule, shown| {
            shown.json("replaces", names_json(&rule.replaces));
            shown.named(MORE_COLUMN, "replaces", (!rule.replaces.is_empty()).then(|| rule.replaces.join(", ")));
        }),
    Setting::new("answer", ANY_RULE_BY_DEFAULT)
        .schema("Own status, texts, fields and headers of answers.", form)
        .parser(RuleValue(read_own_answer))
        .of_rule(show_own_answer),
    Setting::new("scope", LIMITING_RULE)
        .schema("global: all regions share the quota. Default: regional, each has all of it.", || words(&SCOPES))
        .parser(RuleValue(|reader, node, _, rule| {
            rule.scope = reader.word(node, "scope", &SCOPES, &[]).unwrap_or_default();
        }))
        .of_rule(|rule, shown| show_word(shown, "scope", word_of(&SCOPES, &rule.scope), rule.scope == Scope::Global)),
];

/// Settings that stand in a mapping, in the order of the table.
pub(super) fn present<'y>(fields: &Fields<'y>) -> impl Iterator<Item = (&'static Setting, &'y Node<'y>)> {
    TABLE.iter().filter_map(|setting| Some((setting, fields.get(setting.key.name)?)))
}

fn read_flag(reader: &mut YamlReader<'_>, node: &Node<'_>, what: &str) -> bool {
    reader.parse(node, what, "true or false").unwrap_or_default()
}

fn show_flag(shown: &mut Shown, name: &'static str, label: &str, value: bool) {
    shown.json(name, value);
    shown.text(name, Some(value.to_string()));
    shown.add_cell(MORE_COLUMN, value.then(|| label.to_owned()));
}

/// Shows a word, and in the table only one that is not the default.
fn show_word(shown: &mut Shown, name: &'static str, word: &str, is_unusual: bool) {
    shown.json(name, word);
    shown.text(name, Some(word.to_owned()));
    shown.add_cell(MORE_COLUMN, is_unusual.then(|| format!("{name} {word}")));
}

fn is_sliding_window(algorithm: Algorithm) -> bool {
    matches!(algorithm, SlidingWindow(_))
}

fn names_json(names: &[Arc<str>]) -> Value {
    names.iter().map(|name| &**name).collect()
}
