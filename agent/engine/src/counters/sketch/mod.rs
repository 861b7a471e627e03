//! Limits of callers past the cap on counters: a sketch of fixed size instead of a counter for each.
//!
//! Known callers keep their exact counters; new ones are counted here, each on its own except for collisions, by this agent
//! alone. Memory is taken when the first counter finds no place, and given back once there is room again: the callers begin
//! anew then. Each rule and window has a sketch of its own, so a flood of one rule costs the callers of others nothing.

mod sketch_limit;
mod count_min;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::RwLock;
use tollgate_core::algorithm::Verdict;
use tollgate_core::clock::Timestamp;
use tollgate_core::counter::CounterId;
use tollgate_core::rules::{LimitPolicy, Rule};

use crate::counters::enforce::Facts;
use count_min::CountMin;
use sketch_limit::{SketchForm, SketchLimit};

/// Memory of all sketches that an agent may have, in bytes: 64 KiB to 4 GiB.
pub const SKETCH_BYTES_RANGE: RangeInclusive<u64> = 65_536..=4_294_967_296;
/// Time without a new caller past the cap after which the sketches are dropped, in ms.
const UNUSED_MS: u64 = 10_000;
/// Part of the table, in percent, below which there is room again: well below the part at which a flooded rule gets no more.
const ROOM_PERCENT: usize = 60;

pub(crate) fn kinds(rules: &[Arc<Rule>]) -> usize {
    let forms = |rule: &Arc<Rule>| rule.all_policies().map(SketchForm::of).collect();
    rules.iter().map(|rule| HashSet::<SketchForm>::len(&forms(rule))).sum()
}

pub(crate) struct Sketches {
    bytes_max: usize,
    by_kind: RwLock<HashMap<SketchKind, CountMin>>,
    /// True from the first caller without a place until there is room again.
    is_used: AtomicBool,
    /// Time of the last charge, in ms.
    used_ms: AtomicU64,
}

/// Callers that share a sketch.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct SketchKind {
    rule: Arc<str>,
    form: SketchForm,
}

pub(crate) struct SketchCharge<'a> {
    pub(crate) rule: &'a Arc<str>,
    pub(crate) policy: &'a LimitPolicy,
    /// Facts by which agents divide the quota; none if this agent is the only one.
    pub(crate) shares: Option<Facts>,
    pub(crate) caller: CounterId,
    pub(crate) cost: u64,
    /// True if the units count in any case.
    pub(crate) is_forced: bool,
}

impl Sketches {
    pub(crate) fn new(bytes_max: usize) -> Self {
        let (is_used, used_ms) = (AtomicBool::default(), AtomicU64::default());
        Self { bytes_max, by_kind: RwLock::default(), is_used, used_ms }
    }

    /// Charges a caller, and returns the verdict with the limit that gave it. Each of `kinds` rules has an equal part
    /// of the memory.
    pub(crate) fn charge(&self, now: Timestamp, charge: &SketchCharge<'_>, kinds: usize) -> (Verdict, u64) {
        let limit = SketchLimit::of(charge.policy, charge.shares.as_ref());
        let form = SketchForm::of(charge.policy);
        let kind = SketchKind { rule: charge.rule.clone(), form };
        let apply = |sketch: &CountMin| sketch.charge(charge.caller, now, &limit, charge.cost, charge.is_forced);
        self.used_ms.store(now.as_ms(), Ordering::Relaxed);
        if let Some(sketch) = self.by_kind.read().get(&kind) {
            return (apply(sketch), limit.units);
        }
        let mut sketches = self.by_kind.write();
        let bytes_max = self.bytes_max / kinds.max(1);
        if !sketches.contains_key(&kind) {
            // Sketches that are left from other rule sets make room.
            let held: usize = sketches.values().map(CountMin::bytes).sum();
            if held + bytes_max > self.bytes_max {
                sketches.clear();
            }
        }
        (apply(sketches.entry(kind).or_insert_with(|| CountMin::new(form, bytes_max))), limit.units)
    }

    /// Records that a counter found no place. Returns true if it is the first one.
    pub(crate) fn begin_use(&self) -> bool {
        !self.is_used.load(Ordering::Relaxed) && !self.is_used.swap(true, Ordering::Relaxed)
    }

    /// Drops the sketches if the table of so many counters has room again; returns true if it did.
    pub(crate) fn end_use(&self, now: Timestamp, counters: usize, counters_max: usize) -> bool {
        let is_unused = now.ms_since(Timestamp::from_ms(self.used_ms.load(Ordering::Relaxed))) > UNUSED_MS;
        let has_room = counters.saturating_mul(100) < counters_max.saturating_mul(ROOM_PERCENT);
        if !(self.is_used() && is_unused && has_room) {
            return false;
        }
        *self.by_kind.write() = HashMap::new();
        self.is_used.swap(false, Ordering::Relaxed)
    }

    pub(crate) fn is_used(&self) -> bool {
        self.is_used.load(Ordering::Relaxed)
    }

    pub(crate) fn bytes(&self) -> usize {
        self.by_kind.read().values().map(CountMin::bytes).sum()
    }
}
