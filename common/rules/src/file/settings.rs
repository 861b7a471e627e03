//! Settings that a rule may have of its own or take from tiers and `defaults`.

use crate::hint;
use crate::yaml::{Fields, Node, Reader, line_of};
use tollgate_core::rules::{Consistency, OnFailure, Quota, Unit, parse_duration_ms, parse_units};
use tollgate_core::window::Estimate;

const DEADLINE_MS_MAX: u64 = 10_000;
/// The most decimal places of a multiplier.
const PLACES_MAX: usize = 6;
const ALGORITHMS: [(&str, Kind); 6] = [
    ("sliding_window", Kind::SlidingWindow),
    ("sliding_log", Kind::SlidingLog),
    ("fixed_window", Kind::FixedWindow),
    ("token_bucket", Kind::TokenBucket),
    ("leaky_bucket", Kind::LeakyBucket),
    ("concurrency", Kind::Concurrency),
];

/// One layer of settings; what is not said is taken from the layer below.
#[derive(Clone, Copy, Default)]
pub(super) struct Settings {
    pub(super) quota: Option<Said<Allowed>>,
    pub(super) algorithm: Option<Said<Kind>>,
    pub(super) burst: Option<Said<Burst>>,
    pub(super) sub_windows: Option<Said<u32>>,
    pub(super) estimate: Option<Said<Estimate>>,
    pub(super) consistency: Option<Said<Consistency>>,
    pub(super) on_failure: Option<Said<OnFailure>>,
    pub(super) deadline_ms: Option<Said<u64>>,
}

/// What was said, and in which line.
#[derive(Clone, Copy)]
pub(super) struct Said<T> {
    pub(super) value: T,
    pub(super) line: usize,
}

/// How much.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Allowed {
    UpTo(Quota),
    Unlimited,
}

/// An algorithm before its settings are known.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    SlidingWindow,
    SlidingLog,
    FixedWindow,
    TokenBucket,
    LeakyBucket,
    Concurrency,
}

/// What passes at once after idleness.
#[derive(Clone, Copy)]
pub(super) enum Burst {
    /// As much as the algorithm lets pass by itself.
    Usual,
    /// So many units.
    Units(u64, Unit),
    /// So many times the quota: a numerator and a denominator.
    Times(u64, u64),
}

impl Settings {
    /// These, and where they say nothing, those below.
    pub(super) fn over(self, below: Self) -> Self {
        Self {
            quota: self.quota.or(below.quota),
            algorithm: self.algorithm.or(below.algorithm),
            burst: self.burst.or(below.burst),
            sub_windows: self.sub_windows.or(below.sub_windows),
            estimate: self.estimate.or(below.estimate),
            consistency: self.consistency.or(below.consistency),
            on_failure: self.on_failure.or(below.on_failure),
            deadline_ms: self.deadline_ms.or(below.deadline_ms),
        }
    }
}

impl Kind {
    pub(super) fn name(self) -> &'static str {
        ALGORITHMS.iter().find(|(_, kind)| *kind == self).map_or("", |(name, _)| name)
    }
}

/// All settings of a mapping; `quota` when it is plain, for a rule knows other forms, too.
pub(super) fn read_settings(reader: &mut Reader<'_>, fields: &Fields<'_>) -> Settings {
    fn said<T>(
        reader: &mut Reader<'_>,
        fields: &Fields<'_>,
        name: &str,
        read: impl FnOnce(&mut Reader<'_>, &Node<'_>) -> Option<T>,
    ) -> Option<Said<T>> {
        let node = fields.get(name)?;
        read(reader, node).map(|value| Said { value, line: line_of(node) })
    }
    let burst = said(reader, fields, "burst", read_burst);
    let multiplier = said(reader, fields, "burst_multiplier", read_multiplier);
    if let (Some(_), Some(Said { line, .. })) = (&burst, &multiplier) {
        reader.refuse(*line, "`burst` and `burst_multiplier` say the same thing; write one of them");
    }
    Settings {
        quota: None,
        algorithm: said(reader, fields, "algorithm", |reader, node| {
            let word = reader.text(node, "`algorithm`")?;
            let known = ALGORITHMS.iter().find(|(name, _)| *name == word).map(|(_, kind)| *kind);
            known.or_else(|| refuse_word(reader, node, "algorithm", word, &ALGORITHMS.map(|(name, _)| name)))
        }),
        burst: burst.or(multiplier),
        sub_windows: said(reader, fields, "sub_windows", |reader, node| {
            reader.parse(node, "`sub_windows`", "a whole number")
        }),
        estimate: said(reader, fields, "estimate", read_estimate),
        consistency: said(reader, fields, "consistency", read_consistency),
        on_failure: said(reader, fields, "on_failure", read_on_failure),
        deadline_ms: said(reader, fields, "deadline", read_deadline),
    }
}

/// `100/min` or `unlimited`.
pub(super) fn read_allowed(reader: &mut Reader<'_>, node: &Node<'_>) -> Option<Said<Allowed>> {
    let line = line_of(node);
    let value = match reader.text(node, "`quota`")? {
        "unlimited" => Allowed::Unlimited,
        "tier" => {
            reader.refuse(line, "`quota: tier` is for rules alone; write a quota here, such as 100/min");
            return None;
        }
        text => Allowed::UpTo(text.parse().map_err(|error| reader.refuse(line, format!("{error}"))).ok()?),
    };
    Some(Said { value, line })
}

fn read_burst(reader: &mut Reader<'_>, node: &Node<'_>) -> Option<Burst> {
    match reader.text(node, "`burst`")? {
        "true" => Some(Burst::Times(12, 10)),
        "false" => Some(Burst::Usual),
        text => match parse_units(text) {
            Ok((0, _)) => {
                reader.refuse(line_of(node), "a burst of 0 would deny every call; write at least 1, or leave it out");
                None
            }
            Ok((units, unit)) => Some(Burst::Units(units, unit)),
            Err(_) => {
                let text = format!(
                    "`burst` is `{text}`; write a number of units, such as 200 or 50MB, or `burst_multiplier: 1.2`"
                );
                reader.refuse(line_of(node), text);
                None
            }
        },
    }
}

/// A decimal, kept exactly.
fn read_multiplier(reader: &mut Reader<'_>, node: &Node<'_>) -> Option<Burst> {
    let text = reader.text(node, "`burst_multiplier`")?;
    let (whole, places) = text.split_once('.').unwrap_or((text, ""));
    let is_decimal = !whole.is_empty() && places.len() <= PLACES_MAX && (places.is_empty() != text.contains('.'));
    let digits = format!("{whole}{places}");
    let plain = is_decimal && digits.bytes().all(|byte| byte.is_ascii_digit());
    let times = digits.parse().ok().filter(|times: &u64| plain && *times > 0);
    if times.is_none() {
        reader.refuse(line_of(node), format!("`burst_multiplier` is `{text}`; write a number above 0, such as 1.2"));
    }
    Some(Burst::Times(times?, 10_u64.pow(u32::try_from(places.len()).ok()?)))
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

pub(super) fn refuse_word<T>(
    reader: &mut Reader<'_>,
    node: &Node<'_>,
    field: &str,
    word: &str,
    known: &[&str],
) -> Option<T> {
    let hint = hint(word, known.iter().copied());
    reader.refuse(line_of(node), format!("unknown {field} `{word}`{hint}"));
    None
}
