//! The rules of a run, by which no call is denied.

use tollgate::{Quota, Rule, RuleSet};

use super::calls::Calls;
use super::plan::{DESCRIPTOR, RULE};

/// Width that no unit leaves during a run.
const WIDTH_MS: u64 = 3_600_000;
/// Quota of a counter as a multiple of its calls.
const QUOTA_FACTOR: u64 = 4;

/// Returns the rules, by which no call is denied.
pub(super) fn rules(calls: &Calls) -> RuleSet {
    let quota = Quota::new(calls.per_key() * QUOTA_FACTOR, WIDTH_MS).expect("neither is zero");
    RuleSet::new(1, [Rule::per(RULE, &[DESCRIPTOR], quota).strict()])
}
