//! Tiers and keys of a rule that have policies of their own, as `tollgate rules validate` names them in its tables of
//! bounds. Who may read the rules may read their keys, so keys are shown as they are.

use std::collections::BTreeMap;

use tollgate_core::rules::{LimitPolicy, Rule, TimedCallers, TimedException};
use tollgate_rules::display;
use tollgate_rules::settings::{QUOTA_COLUMN, Shown};

/// Maximum number of keys of a rule that a table shows. The JSON has all.
const KEYS_SHOWN_MAX: usize = 10;

pub(super) fn tiers(rule: &Rule) -> impl Iterator<Item = (String, &LimitPolicy)> {
    rule.by_tier.iter().filter_map(|(tier, policy)| Some((format!("tier {tier}"), policy.as_ref()?)))
}

/// Returns the limited keys of a rule, in their order.
pub(super) fn keys(rule: &Rule) -> impl Iterator<Item = (String, &LimitPolicy)> {
    let sorted: BTreeMap<&str, _> = rule.by_key.iter().map(|(key, policy)| (&**key, policy)).collect();
    sorted.into_iter().filter_map(|(key, policy)| Some((format!("key {key}"), policy.as_ref()?)))
}

/// Cuts the rows of the keys of a rule to those that a table shows. Returns the row that tells how many are missing, if
/// any are.
pub(super) fn shorten<const COLUMNS: usize>(keys: &mut Vec<[String; COLUMNS]>) -> Option<[String; COLUMNS]> {
    let hidden = keys.len().saturating_sub(KEYS_SHOWN_MAX);
    keys.truncate(KEYS_SHOWN_MAX);
    let mut row = [(); COLUMNS].map(|()| String::new());
    row[0] = format!("  {hidden} more keys");
    "shown by --format json".clone_into(&mut row[1]);
    (hidden > 0).then_some(row)
}

/// Returns the callers of an exception that ends by itself, with its quota and its end.
pub(super) fn timed_field(rule: &Rule, exception: &TimedException) -> (String, String) {
    let callers = match &exception.callers {
        TimedCallers::Key(key) => format!("key {key}"),
        TimedCallers::Tier(tier) => format!("tier {tier}"),
        TimedCallers::All => "all callers".to_owned(),
    };
    let quota = Shown::of_policy(rule, exception.policy.as_ref()).cell(QUOTA_COLUMN);
    (callers, format!("{quota} {}", display::end(&exception.end)))
}
