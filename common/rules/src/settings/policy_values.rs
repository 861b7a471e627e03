//! Parsers and displays of the settings that a limit policy holds; `burst` has its own file.

use std::time::Duration;

use serde_json::Value;
use tollgate_core::algorithm::Algorithm;
use tollgate_core::rules::{Consistency, LimitPolicy, OnFailure, parse_duration_ms};
use tollgate_core::window::{Estimate, Window};

use super::layer::PolicyEdit;
use super::{read_word, word_of};
use crate::yaml::{Node, YamlReader, line_of};

/// Maximum value of `deadline`, in ms.
const DEADLINE_MS_MAX: u64 = 10_000;

pub(super) const ALGORITHMS: [(&str, Algorithm); 6] = [
    ("sliding_window", Algorithm::SlidingWindow(Estimate::Interpolated)),
    ("sliding_log", Algorithm::SlidingLog),
    ("fixed_window", Algorithm::FixedWindow),
    ("token_bucket", Algorithm::TokenBucket),
    ("leaky_bucket", Algorithm::LeakyBucket),
    ("concurrency", Algorithm::Concurrency),
];
const ESTIMATES: [(&str, Estimate); 2] =
    [("interpolated", Estimate::Interpolated), ("conservative", Estimate::Conservative)];
const CONSISTENCIES: [(&str, Consistency); 2] = [("strict", Consistency::Strict), ("bounded", Consistency::Bounded)];
const ON_FAILURES: [(&str, OnFailure); 3] =
    [("share", OnFailure::Share), ("open", OnFailure::Open), ("closed", OnFailure::Closed)];

pub(super) fn read_algorithm(reader: &mut YamlReader<'_>, node: &Node<'_>) -> Option<PolicyEdit> {
    read_word(reader, node, "algorithm", &ALGORITHMS, &[]).map(PolicyEdit::Algorithm)
}

/// Returns the name of an algorithm.
pub(super) fn algorithm_name(algorithm: Algorithm) -> &'static str {
    let plain = match algorithm {
        Algorithm::SlidingWindow(_) => Algorithm::SlidingWindow(Estimate::Interpolated),
        other => other,
    };
    word_of(&ALGORITHMS, &plain)
}

/// Returns the algorithm with the settings that only it has.
pub(super) fn algorithm_text(policy: &LimitPolicy) -> String {
    let name = algorithm_name(policy.algorithm);
    match policy.algorithm {
        Algorithm::SlidingLog => format!("{name}, exact"),
        Algorithm::SlidingWindow(estimate) => {
            let (parts, part_ms) = (policy.window.parts(), policy.window.part_ms());
            let part = if part_ms % 1_000 == 0 { format!("{} s", part_ms / 1_000) } else { format!("{part_ms} ms") };
            format!("{name}, {parts} x {part}, {}", estimate_name(estimate))
        }
        _ => name.to_owned(),
    }
}

/// Reads the consistency, which also chooses the default of `estimate`.
pub(super) fn read_consistency(reader: &mut YamlReader<'_>, node: &Node<'_>) -> Option<PolicyEdit> {
    if reader.text(node, "`consistency`")? == "eventual" {
        reader.refuse(line_of(node), "`consistency: eventual` is not yet supported; use strict or bounded");
        return None;
    }
    let consistency = read_word(reader, node, "consistency", &CONSISTENCIES, &[])?;
    Some(PolicyEdit::set(move |policy| {
        policy.consistency = consistency;
        if let Algorithm::SlidingWindow(estimate) = &mut policy.algorithm {
            *estimate = match consistency {
                Consistency::Strict => Estimate::Conservative,
                Consistency::Bounded => Estimate::Interpolated,
            };
        }
    }))
}

pub(super) fn consistency_text(policy: &LimitPolicy) -> String {
    word_of(&CONSISTENCIES, &policy.consistency).to_owned()
}

pub(super) fn read_sub_windows(reader: &mut YamlReader<'_>, node: &Node<'_>) -> Option<PolicyEdit> {
    let parts = reader.parse(node, "`sub_windows`", "a whole number")?;
    Some(PolicyEdit::change(move |policy| {
        let window = Window::new(policy.quota.width_ms(), parts);
        policy.window = window.map_err(|error| format!("{error}; leave `sub_windows` out to have it chosen"))?;
        Ok(())
    }))
}

pub(super) fn sub_windows_json(policy: &LimitPolicy) -> Value {
    let has_them = matches!(policy.algorithm, Algorithm::SlidingWindow(_));
    has_them.then(|| policy.window.parts()).into()
}

pub(super) fn read_estimate(reader: &mut YamlReader<'_>, node: &Node<'_>) -> Option<PolicyEdit> {
    let estimate = read_word(reader, node, "estimate", &ESTIMATES, &[])?;
    Some(PolicyEdit::set(move |policy| policy.algorithm = Algorithm::SlidingWindow(estimate)))
}

pub(super) fn estimate_json(policy: &LimitPolicy) -> Value {
    match policy.algorithm {
        Algorithm::SlidingWindow(estimate) => estimate_name(estimate).into(),
        _ => Value::Null,
    }
}

fn estimate_name(estimate: Estimate) -> &'static str {
    match estimate {
        Estimate::Ignored => estimate_name(Estimate::Conservative),
        known => word_of(&ESTIMATES, &known),
    }
}

pub(super) fn read_on_failure(reader: &mut YamlReader<'_>, node: &Node<'_>) -> Option<PolicyEdit> {
    let on_failure = match reader.text(node, "`on_failure`")?.strip_prefix("limit ") {
        None => read_word(reader, node, "on_failure", &ON_FAILURES, &["limit 5/min"])?,
        Some(quota) => match quota.parse() {
            Ok(quota) => OnFailure::Limit(quota),
            Err(error) => {
                reader.refuse(line_of(node), format!("{error}"));
                return None;
            }
        },
    };
    Some(PolicyEdit::set(move |policy| policy.on_failure = on_failure))
}

pub(super) fn on_failure_text(policy: &LimitPolicy) -> String {
    match policy.on_failure {
        OnFailure::Limit(quota) => format!("limit {quota}"),
        other => word_of(&ON_FAILURES, &other).to_owned(),
    }
}

pub(super) fn read_deadline(reader: &mut YamlReader<'_>, node: &Node<'_>) -> Option<PolicyEdit> {
    let text = reader.text(node, "`deadline`")?;
    let deadline_ms = parse_duration_ms(text).filter(|ms| (1..=DEADLINE_MS_MAX).contains(ms));
    if deadline_ms.is_none() {
        reader.refuse(line_of(node), format!("`deadline` is `{text}`; write 1ms to {DEADLINE_MS_MAX}ms"));
    }
    let deadline = Duration::from_millis(deadline_ms?);
    Some(PolicyEdit::set(move |policy| policy.deadline = deadline))
}

pub(super) fn deadline_json(policy: &LimitPolicy) -> Value {
    u64::try_from(policy.deadline.as_millis()).unwrap_or(u64::MAX).into()
}
