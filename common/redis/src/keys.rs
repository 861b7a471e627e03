//! Names of the keys that agents and aggregators share: of counters, of published rules, of
//! the limits of a region, and of its digest key.
//!
//! All keys of a counter have one hash tag, and with it one slot of a cluster.

use tollgate_core::counter::HashSlotId;

/// Returns the key of a counter that has a slot of its own.
#[must_use]
pub fn counter_key(prefix: &str, slot: HashSlotId) -> String {
    format!("{prefix}{{{slot}}}")
}

/// Returns the key of the limit of a counter, whose key is given.
#[must_use]
pub fn limit_key(counter: &str) -> String {
    format!("{counter}:l")
}

/// Returns the key of the floor of all counters of a rule.
#[must_use]
pub fn floor_key(prefix: &str, rule: &str) -> String {
    format!("{prefix}floor:{rule}")
}

/// Returns the key of the live agents.
pub(crate) fn agents_key(prefix: &str) -> String {
    format!("{prefix}agents")
}

/// Returns the key of the published rules.
pub(crate) fn rules_key(prefix: &str) -> String {
    format!("{prefix}rules")
}

/// Returns the key of the fingerprint of the digest key that holds the region.
#[must_use]
pub fn key_claim_key(prefix: &str) -> String {
    format!("{prefix}digest-key")
}
