//! Rules, limit policies and descriptors as text, in the words of the rules file.

use super::{
    Charging, Consistency, DescriptorSource, DescriptorSpec, LimitPolicy, Matches, OnFailure, Origin, Rule, show_units,
};
use crate::algorithm::Algorithm;
use crate::window::Estimate;

/// What a rule lets pass on these policy.
#[must_use]
pub fn allowed(rule: &Rule, policy: Option<&LimitPolicy>) -> String {
    if rule.deny { "denied".to_owned() } else { quota(policy) }
}

/// The quota, or that there is none.
#[must_use]
pub fn quota(policy: Option<&LimitPolicy>) -> String {
    policy.map_or_else(|| "unlimited".to_owned(), |policy| policy.quota.to_string())
}

/// What a call must look like.
#[must_use]
pub fn matches(matches: &Matches) -> String {
    let matches: Vec<String> = matches.iter().map(|(name, pattern)| format!("{name}={pattern}")).collect();
    if matches.is_empty() { "every call".to_owned() } else { matches.join(" ") }
}

/// What makes a counter.
#[must_use]
pub fn per(rule: &Rule) -> String {
    if rule.per.is_empty() { "(one counter)".to_owned() } else { rule.per.join(", ") }
}

/// The name of an algorithm.
#[must_use]
pub fn name_of(algorithm: Algorithm) -> &'static str {
    match algorithm {
        Algorithm::SlidingWindow(_) => "sliding_window",
        Algorithm::SlidingLog => "sliding_log",
        Algorithm::FixedWindow => "fixed_window",
        Algorithm::TokenBucket => "token_bucket",
        Algorithm::LeakyBucket => "leaky_bucket",
        Algorithm::Concurrency => "concurrency",
    }
}

/// The algorithm with what only it knows.
#[must_use]
pub fn algorithm(policy: &LimitPolicy) -> String {
    match policy.algorithm {
        Algorithm::SlidingLog => "sliding_log, exact".to_owned(),
        Algorithm::SlidingWindow(estimate) => {
            let (parts, part_ms) = (policy.window.parts(), policy.window.part_ms());
            let part = if part_ms % 1_000 == 0 { format!("{} s", part_ms / 1_000) } else { format!("{part_ms} ms") };
            format!("sliding_window, {parts} x {part}, {}", estimated(estimate))
        }
        other => name_of(other).to_owned(),
    }
}

/// What passes at once after idleness, if that is more or less than the quota.
#[must_use]
pub fn burst(policy: &LimitPolicy) -> Option<String> {
    (policy.burst > 0).then(|| show_units(policy.burst, policy.quota.unit()))
}

/// The name of an estimate.
#[must_use]
pub fn estimated(estimate: Estimate) -> &'static str {
    match estimate {
        Estimate::Interpolated => "interpolated",
        Estimate::Conservative | Estimate::Ignored => "conservative",
    }
}

/// The name of a consistency.
#[must_use]
pub fn consistency(consistency: Consistency) -> &'static str {
    match consistency {
        Consistency::Strict => "strict",
        Consistency::Bounded => "bounded",
    }
}

/// What happens without a store.
#[must_use]
pub fn on_failure(on_failure: OnFailure) -> String {
    match on_failure {
        OnFailure::Share => "share".to_owned(),
        OnFailure::Open => "open".to_owned(),
        OnFailure::Closed => "closed".to_owned(),
        OnFailure::Limit(quota) => format!("limit {quota}"),
    }
}

/// When a counter is charged.
#[must_use]
pub fn charge(charge: Charging) -> &'static str {
    match charge {
        Charging::AllOrNone => "all_or_none",
        Charging::Each => "each",
    }
}

/// What a call costs, if the rule says so.
#[must_use]
pub fn cost(rule: &Rule) -> Option<String> {
    let named = rule
        .costs
        .iter()
        .flat_map(|(name, table)| table.iter().map(move |(pattern, cost)| format!("{cost} if {name}={pattern}")));
    let parts: Vec<String> = named.chain(rule.cost.map(|cost| cost.to_string())).collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// Where a descriptor comes from.
#[must_use]
pub fn descriptor(spec: &DescriptorSpec) -> String {
    let mut words = vec![match &spec.source {
        DescriptorSource::Header(name) => format!("header {name}"),
        DescriptorSource::Query(name) => format!("query {name}"),
        DescriptorSource::Cookie(name) => format!("cookie {name}"),
        DescriptorSource::Jwt(path) => format!("jwt {path}"),
        DescriptorSource::ClientIp { trusted_hops, ipv6_prefix } => {
            format!("client_ip, {trusted_hops} trusted hops, IPv6 /{ipv6_prefix}")
        }
        DescriptorSource::Method => "method".to_owned(),
        DescriptorSource::Path { normalized: true } => "path normalized".to_owned(),
        DescriptorSource::Path { normalized: false } => "path raw".to_owned(),
        DescriptorSource::Constant(value) => format!("constant {value}"),
        DescriptorSource::Map { of, table } => {
            let table: Vec<_> = table.iter().map(|(pattern, value)| format!("{pattern}={value}")).collect();
            format!("of {of}: {}", table.join(" "))
        }
    }];
    words.extend(spec.default.as_ref().map(|default| format!("default {default}")));
    words.extend(spec.verified.then(|| "verified".to_owned()));
    words.extend(spec.public.then(|| "public".to_owned()));
    words.join(", ")
}

/// Where policy come from.
#[must_use]
pub fn origin(origin: Origin<'_>) -> String {
    match origin {
        Origin::Rule => "the rule's own".to_owned(),
        Origin::Key => "this key's own".to_owned(),
        Origin::Tier(name) => format!("of the tier {name}"),
        Origin::Descriptor(name) => format!("from the descriptor {name}"),
    }
}
