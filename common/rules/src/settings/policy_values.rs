//! Parsers and texts of the settings that a limit policy holds, as far as they are longer than a line of the table.

use std::time::Duration;

use tollgate_core::algorithm::Algorithm;
use tollgate_core::rules::{Consistency, DEADLINE_MS_MAX, LimitPolicy, OnFailure, parse_duration_ms, show_duration_ms};
use tollgate_core::window::{Estimate, Window};

use super::layer::PolicyEdit;
use super::{parse_quota, word_of};
use crate::yaml::{Node, YamlReader, line_of};

const ALGORITHMS: [(&str, Algorithm); 6] = [
    ("sliding_window", Algorithm::SlidingWindow(Estimate::Interpolated)),
    ("sliding_log", Algorithm::SlidingLog),
    ("fixed_window", Algorithm::FixedWindow),
    ("token_bucket", Algorithm::TokenBucket),
    ("leaky_bucket", Algorithm::LeakyBucket),
    ("concurrency", Algorithm::Concurrency),
];
const ESTIMATES: [(&str, Estimate); 2] =
    [("interpolated", Estimate::Interpolated), ("conservative", Estimate::Conservative)];
pub(super) const LEASES: [(&str, bool); 2] = [("on", true), ("off", false)];
pub(super) const CONSISTENCIES: [(&str, Consistency); 3] =
    [("strict", Consistency::Strict), ("bounded", Consistency::Bounded), ("eventual", Consistency::Eventual)];
const ON_FAILURES: [(&str, OnFailure); 3] =
    [("share", OnFailure::Share), ("open", OnFailure::Open), ("closed", OnFailure::Closed)];

pub(super) fn read_algorithm(reader: &mut YamlReader<'_>, node: &Node<'_>) -> Option<PolicyEdit> {
    reader.word(node, "algorithm", &ALGORITHMS, &[]).map(PolicyEdit::Algorithm)
}

/// Returns the name of an algorithm.
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
            let (parts, part_ms) = (policy.window.parts(), policy.window.part_ms());
            let part = if part_ms % 1_000 == 0 { format!("{} s", part_ms / 1_000) } else { format!("{part_ms} ms") };
            format!("{name}, {parts} x {part}, {estimate}")
        }
        _ => name.to_owned(),
    }
}

/// Returns the quota as people read it.
pub(super) fn quota_text(policy: &LimitPolicy) -> String {
    let quota = policy.quota;
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

/// Reads whether agents may lease units.
pub(super) fn read_leases(reader: &mut YamlReader<'_>, node: &Node<'_>) -> Option<PolicyEdit> {
    let leases = reader.word(node, "leases", &LEASES, &[])?;
    Some(PolicyEdit::set(move |policy| policy.leases = leases))
}

/// Reads the maximum excess: a part of the quota in percent, with at most four decimals.
pub(super) fn read_max_excess(reader: &mut YamlReader<'_>, node: &Node<'_>) -> Option<PolicyEdit> {
    let ppm = reader.parse_by(node, "`max_excess`", "a part of the quota, 0% to 100%", parse_percent)?;
    Some(PolicyEdit::set(move |policy| policy.max_excess_ppm = ppm))
}

/// Returns a percentage in millionths.
fn parse_percent(text: &str) -> Option<u32> {
    let number = text.strip_suffix('%')?.trim_end();
    let (whole, decimals) = number.split_once('.').unwrap_or((number, "0"));
    let is_number = |digits: &str| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(whole) || !is_number(decimals) || decimals.len() > 4 {
        return None;
    }
    let ppm = whole.parse::<u32>().ok()?.checked_mul(10_000)?.checked_add(format!("{decimals:0<4}").parse().ok()?)?;
    (ppm <= 1_000_000).then_some(ppm)
}

/// Returns millionths as a percentage.
pub(super) fn percent_text(ppm: u32) -> String {
    let text = format!("{}.{:04}", ppm / 10_000, ppm % 10_000);
    format!("{}%", text.trim_end_matches('0').trim_end_matches('.'))
}

pub(super) fn read_deadline(reader: &mut YamlReader<'_>, node: &Node<'_>) -> Option<PolicyEdit> {
    let in_range = |text: &str| parse_duration_ms(text).filter(|ms| (1..=DEADLINE_MS_MAX).contains(ms));
    let deadline_ms = reader.parse_by(node, "`deadline`", &format!("1ms to {DEADLINE_MS_MAX}ms"), in_range)?;
    Some(PolicyEdit::set(move |policy| policy.deadline = Duration::from_millis(deadline_ms)))
}

/// Checks the scope. Quotas over several regions are planned; a quota for each region is supported.
pub(super) fn check_scope(reader: &mut YamlReader<'_>, node: &Node<'_>) {
    match reader.text(node, "`scope`") {
        Some("global") => reader.refuse(line_of(node), "`scope: global` is not yet supported; remove it"),
        Some(_) => drop(reader.word(node, "scope", &[("region", ())], &[])),
        None => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentage_is_read_as_it_is_shown() {
        for (text, ppm) in [("5%", 50_000), ("0%", 0), ("100%", 1_000_000), ("0.0001%", 1), ("2.5%", 25_000)] {
            assert_eq!((parse_percent(text), percent_text(ppm)), (Some(ppm), text.to_owned()), "{text}");
        }
        for text in ["5", "%", "-5%", "101%", "100.0001%", "0.00001%", "5.%", ".5%", "1e2%", "5 percent", "+5%"] {
            assert_eq!(parse_percent(text), None, "{text}");
        }
    }
}
