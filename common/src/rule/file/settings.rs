//! Settings that a rule may have of its own or take from `defaults`.

use super::super::{Consistency, OnFailure, parse_duration_ms};
use crate::problem::hint;
use crate::window::Estimate;
use crate::yaml::{Fields, Node, Reader, line_of};

const DEADLINE_MS_MAX: u64 = 10_000;

/// Settings that a rule takes from `defaults` unless it has its own.
#[derive(Clone, Copy, Default)]
pub(super) struct Inherited {
    pub(super) algorithm: Option<Kind>,
    pub(super) sub_windows: Option<u32>,
    pub(super) estimate: Option<Estimate>,
    pub(super) consistency: Option<Consistency>,
    pub(super) on_failure: Option<OnFailure>,
    pub(super) deadline_ms: Option<u64>,
}

/// An algorithm before its settings are known.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    SlidingWindow,
    SlidingLog,
}

pub(super) fn read_inherited(reader: &mut Reader<'_>, fields: &Fields<'_>) -> Inherited {
    Inherited {
        algorithm: fields.get("algorithm").and_then(|node| read_kind(reader, node)),
        sub_windows: fields.get("sub_windows").and_then(|n| reader.parse(n, "`sub_windows`", "a whole number")),
        estimate: fields.get("estimate").and_then(|node| read_estimate(reader, node)),
        consistency: fields.get("consistency").and_then(|node| read_consistency(reader, node)),
        on_failure: fields.get("on_failure").and_then(|node| read_on_failure(reader, node)),
        deadline_ms: fields.get("deadline").and_then(|node| read_deadline(reader, node)),
    }
}

fn read_kind(reader: &mut Reader<'_>, node: &Node<'_>) -> Option<Kind> {
    match reader.text(node, "`algorithm`")? {
        "sliding_window" => Some(Kind::SlidingWindow),
        "sliding_log" => Some(Kind::SlidingLog),
        later @ ("fixed_window" | "token_bucket" | "leaky_bucket" | "concurrency") => {
            let text = format!("`algorithm: {later}` is not yet supported; use sliding_window or sliding_log");
            reader.refuse(line_of(node), text);
            None
        }
        other => refuse_word(reader, node, "algorithm", other, &["sliding_window", "sliding_log"]),
    }
}

fn read_estimate(reader: &mut Reader<'_>, node: &Node<'_>) -> Option<Estimate> {
    match reader.text(node, "`estimate`")? {
        "interpolated" => Some(Estimate::Interpolated),
        "conservative" => Some(Estimate::Conservative),
        other => refuse_word(reader, node, "estimate", other, &["interpolated", "conservative"]),
    }
}

fn read_consistency(reader: &mut Reader<'_>, node: &Node<'_>) -> Option<Consistency> {
    match reader.text(node, "`consistency`")? {
        "strict" => Some(Consistency::Strict),
        "bounded" => Some(Consistency::Bounded),
        "eventual" => {
            reader.refuse(line_of(node), "`consistency: eventual` is not yet supported; use strict or bounded");
            None
        }
        other => refuse_word(reader, node, "consistency", other, &["strict", "bounded"]),
    }
}

fn read_on_failure(reader: &mut Reader<'_>, node: &Node<'_>) -> Option<OnFailure> {
    match reader.text(node, "`on_failure`")? {
        "share" => Some(OnFailure::Share),
        "open" => Some(OnFailure::Open),
        "closed" => Some(OnFailure::Closed),
        other => match other.strip_prefix("limit ") {
            Some(quota) => match quota.parse() {
                Ok(quota) => Some(OnFailure::Limit(quota)),
                Err(error) => {
                    reader.refuse(line_of(node), format!("{error}"));
                    None
                }
            },
            None => refuse_word(reader, node, "on_failure", other, &["share", "open", "closed", "limit 5/min"]),
        },
    }
}

fn read_deadline(reader: &mut Reader<'_>, node: &Node<'_>) -> Option<u64> {
    let text = reader.text(node, "`deadline`")?;
    let deadline_ms = parse_duration_ms(text).filter(|ms| (1..=DEADLINE_MS_MAX).contains(ms));
    if deadline_ms.is_none() {
        reader.refuse(line_of(node), format!("`deadline` is `{text}`; write 1ms to {DEADLINE_MS_MAX}ms"));
    }
    deadline_ms
}

fn refuse_word<T>(reader: &mut Reader<'_>, node: &Node<'_>, field: &str, word: &str, known: &[&str]) -> Option<T> {
    let hint = hint(word, known.iter().copied());
    reader.refuse(line_of(node), format!("unknown {field} `{word}`{hint}"));
    None
}
