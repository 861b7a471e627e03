//! Parsers and texts of the settings that a limit policy holds, as far as they are longer than a line of the table.

use std::time::Duration;

use tollgate_core::algorithm::Algorithm;
use tollgate_core::rules::{
    Consistency, DEADLINE_MS_MAX, LimitPolicy, OnFailure, Quota, QuotaError, parse_duration_ms, show_duration_ms,
};
use tollgate_core::window::{Estimate, Window};

use super::policy_edit::PolicyEdit;
use crate::yaml::{Node, YamlReader, line_of};

pub(super) const ALGORITHMS: [(&str, Algorithm); 6] = [
    ("sliding_window", Algorithm::SlidingWindow(Estimate::Interpolated)),
    ("sliding_log", Algorithm::SlidingLog),
    ("fixed_window", Algorithm::FixedWindow),
    ("token_bucket", Algorithm::TokenBucket),
    ("leaky_bucket", Algorithm::LeakyBucket),
    ("concurrency", Algorithm::Concurrency),
];
pub(super) const ESTIMATES: [(&str, Estimate); 2] =
    [("interpolated", Estimate::Interpolated), ("conservative", Estimate::Conservative)];
pub(super) const LEASES: [(&str, bool); 2] = [("on", true), ("off", false)];
pub(super) const CONSISTENCIES: [(&str, Consistency); 3] =
    [("strict", Consistency::Strict), ("bounded", Consistency::Bounded), ("eventual", Consistency::Eventual)];
pub(super) const ON_FAILURES: [(&str, OnFailure); 3] =
    [("share", OnFailure::Share), ("open", OnFailure::Open), ("closed", OnFailure::Closed)];

pub(super) fn read_algorithm(reader: &mut YamlReader<'_>, node: &Node<'_>) -> Option<PolicyEdit> {
    reader.word(node, "algorithm", &ALGORITHMS, &[]).map(PolicyEdit::Algorithm)
}

pub(super) fn algorithm_name(algorithm: Algorithm) -> &'static str {
    match algorithm {
        Algorithm::SlidingWindow(_) => "sliding_window",
        other => word_of(&ALGORITHMS, &other),
    }
}

/// Returns the algorithm with the settings that only it has.
pub(super) fn algorithm_text(policy: &LimitPolicy) -> String {
    let name = algorithm_name(policy.algorithm);
    match (policy.algorithm, estimate_text(policy.algorithm)) {
        (Algorithm::SlidingLog, _) => format!("{name}, exact"),
        (_, Some(estimate)) => {
            let (parts, sub_window_ms) = (policy.window.sub_windows(), policy.window.sub_window_ms());
            let part = if sub_window_ms % 1_000 == 0 {
                format!("{} s", sub_window_ms / 1_000)
            } else {
                format!("{sub_window_ms} ms")
            };
            format!("{name}, {parts} x {part}, {estimate}")
        }
        _ => name.to_owned(),
    }
}

/// Returns the quota; for a rule with a global scope, the quota over all regions.
pub(super) fn quota_over_regions(policy: &LimitPolicy) -> Quota {
    policy.quota.with_units(policy.units_over_regions()).unwrap_or(policy.quota)
}

pub(super) fn quota_text(policy: &LimitPolicy) -> String {
    let quota = quota_over_regions(policy);
    match policy.algorithm {
        Algorithm::Concurrency => {
            format!("{} slots, each {} at most", quota.units(), show_duration_ms(quota.width_ms()))
        }
        _ => quota.to_string(),
    }
}

/// Reads the consistency, which also chooses the default of `estimate`.
pub(super) fn read_consistency(reader: &mut YamlReader<'_>, node: &Node<'_>) -> Option<PolicyEdit> {
    let consistency = reader.word(node, "consistency", &CONSISTENCIES, &[])?;
    Some(PolicyEdit::set(move |policy| policy.set_consistency(consistency)))
}

pub(super) fn read_sub_windows(reader: &mut YamlReader<'_>, node: &Node<'_>) -> Option<PolicyEdit> {
    let parts = reader.parse(node, "`sub_windows`", "a whole number")?;
    Some(PolicyEdit::change(move |policy| {
        let window = Window::new(policy.quota.width_ms(), parts);
        policy.window = window.map_err(|error| format!("{error}; leave `sub_windows` out to have it chosen"))?;
        Ok(())
    }))
}

pub(super) fn read_estimate(reader: &mut YamlReader<'_>, node: &Node<'_>) -> Option<PolicyEdit> {
    let estimate = reader.word(node, "estimate", &ESTIMATES, &[])?;
    Some(PolicyEdit::set(move |policy| policy.algorithm = Algorithm::SlidingWindow(estimate)))
}

pub(super) fn estimate_text(algorithm: Algorithm) -> Option<&'static str> {
    match algorithm {
        Algorithm::SlidingWindow(Estimate::Interpolated) => Some("interpolated"),
        Algorithm::SlidingWindow(_) => Some("conservative"),
        _ => None,
    }
}

pub(super) fn read_on_failure(reader: &mut YamlReader<'_>, node: &Node<'_>) -> Option<PolicyEdit> {
    let on_failure = match reader.text(node, "`on_failure`")?.strip_prefix("limit ") {
        None => reader.word(node, "on_failure", &ON_FAILURES, &["limit 5/min"])?,
        Some(quota) => OnFailure::Limit(parse_quota(reader, line_of(node), quota)?),
    };
    Some(PolicyEdit::set(move |policy| policy.on_failure = on_failure))
}

pub(super) fn on_failure_text(on_failure: OnFailure) -> String {
    match on_failure {
        OnFailure::Limit(quota) => format!("limit {quota}"),
        other => word_of(&ON_FAILURES, &other).to_owned(),
    }
}

pub(super) fn read_leases(reader: &mut YamlReader<'_>, node: &Node<'_>) -> Option<PolicyEdit> {
    let named = |text: &str| LEASES.iter().find(|(name, _)| *name == text).map(|(_, leases)| *leases);
    let leases = reader.parse_by(node, "`leases`", "on or off", named)?;
    Some(PolicyEdit::set(move |policy| policy.leases = leases))
}

pub(super) fn read_deadline(reader: &mut YamlReader<'_>, node: &Node<'_>) -> Option<PolicyEdit> {
    let in_range = |text: &str| parse_duration_ms(text).filter(|ms| (1..=DEADLINE_MS_MAX).contains(ms));
    let deadline_ms = reader.parse_by(node, "`deadline`", &format!("1ms to {DEADLINE_MS_MAX}ms"), in_range)?;
    Some(PolicyEdit::set(move |policy| policy.deadline = Duration::from_millis(deadline_ms)))
}

pub(crate) fn parse_quota(reader: &mut YamlReader<'_>, line: usize, text: &str) -> Option<Quota> {
    text.parse().map_err(|error: QuotaError| reader.refuse(line, error.to_string())).ok()
}

/// Returns the word for a value.
pub(super) fn word_of<T: PartialEq>(words: &[(&'static str, T)], value: &T) -> &'static str {
    words.iter().find(|(_, known)| known == value).map_or("", |(name, _)| name)
}
