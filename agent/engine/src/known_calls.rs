//! Calls that a thread decided lately: the rule and the counter of each, and a denial that still holds.
//!
//! An equal call under the same rules matches the same rule and charges the same counter, so neither is searched again. A
//! denial that holds is given again without a look at the counter: threads that deny the same caller share no memory then.
//!
//! A known call ends with its rules. Its denial ends
//! * with its time, or with the call's rules;
//! * when a refund or a step of the store's clock ended a denial of the same shard: see [`AgentTable::denials_ended`].
//!
//! The number of places has a cap. Where two calls share a place, the one that is used more often stays.

use std::hash::{BuildHasher, Hasher};

use foldhash::fast::RandomState;
use tollgate_core::algorithm::Verdict;
use tollgate_core::call::Call;
use tollgate_core::call_key::{CallKey, hash_call};
use tollgate_core::clock::Timestamp;
use tollgate_core::counter::CounterId;

use crate::table::AgentTable;
use crate::time_bounds::TimeBounds;
use crate::view::CachedDenial;

/// Bounds of the number of places of a thread: it doubles while calls push each other out. All take about 1.5 MB.
const PLACES_LEN_MIN: usize = 64;
const PLACES_LEN_MAX: usize = 8_192;

/// Calls that a thread decided lately, under the rules of any engine.
#[derive(Debug, Default)]
pub(crate) struct KnownCalls {
    hashes: RandomState,
    places: Vec<KnownCall>,
    /// Number of calls that were pushed out since the places became more.
    pushed_out: usize,
}

/// A call, and what is known about it.
#[derive(Clone, Debug, Default)]
pub(crate) struct KnownCall {
    hash: u64,
    /// Number of the rules; 0 for none.
    rules: u64,
    /// True if the call came again since another one wanted its place.
    is_used: bool,
    call: CallKey,
    pub(crate) sole: Option<SoleRule>,
    denial: Option<KnownDenial>,
}

/// The only rule that applies to a call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SoleRule {
    /// Position of the rule in the set.
    pub(crate) index: usize,
    /// True if the policy is the rule's own.
    pub(crate) has_own_policy: bool,
    pub(crate) counter: CounterId,
    /// Position at which the table held the counter last.
    pub(crate) position: u32,
    /// Cost of the call under the rule, in units.
    pub(crate) cost: u64,
}

/// A cached denial of the counter.
#[derive(Clone, Copy, Debug)]
struct KnownDenial {
    remaining: u64,
    retry_at: Timestamp,
    reset_at: Timestamp,
    /// Instant of the agent's own clock from which the counter is asked again.
    check_at: Timestamp,
    /// [`AgentTable::denials_ended`] as long as it holds.
    ended: u64,
}

impl KnownCalls {
    /// Returns the place of a call under the rules of this number, which knows nothing yet if the call is new; none if another
    /// call keeps the place.
    #[inline]
    pub(crate) fn place(&mut self, rules: u64, call: &Call<'_>) -> Option<&mut KnownCall> {
        let mut hasher = self.hashes.build_hasher();
        hasher.write_u64(rules);
        hash_call(call, &mut hasher);
        let hash = hasher.finish();
        let index = index(hash, self.places.len());
        if self.places.get(index).is_none_or(|place| !place.is_of(hash, rules, call)) {
            return self.take_place(hash, rules, call);
        }
        let place = &mut self.places[index];
        place.is_used = true;
        Some(place)
    }

    #[cold]
    fn take_place(&mut self, hash: u64, rules: u64, call: &Call<'_>) -> Option<&mut KnownCall> {
        let len = self.places.len();
        if len == 0 || self.pushed_out >= len && len < PLACES_LEN_MAX {
            self.places = vec![KnownCall::default(); (len * 2).max(PLACES_LEN_MIN)];
            self.pushed_out = 0;
        }
        let index = index(hash, self.places.len());
        let place = &mut self.places[index];
        if place.rules != 0 {
            self.pushed_out += 1;
            if std::mem::take(&mut place.is_used) {
                return None;
            }
        }
        let is_kept = place.call.set(call);
        (place.hash, place.rules, place.sole, place.denial) = (hash, if is_kept { rules } else { 0 }, None, None);
        is_kept.then_some(place)
    }
}

impl KnownCall {
    #[inline]
    fn is_of(&self, hash: u64, rules: u64, call: &Call<'_>) -> bool {
        self.hash == hash && self.rules == rules && self.call.is_of(call)
    }

    /// Returns the verdict of a denial that holds.
    #[inline]
    pub(crate) fn denial(&self, table: &AgentTable, now: Timestamp, store_now: TimeBounds) -> Option<Verdict> {
        let KnownDenial { remaining, retry_at, reset_at, check_at, ended } = self.denial?;
        let counter = self.sole?.counter;
        let holds = now < check_at && store_now.latest < retry_at && table.denials_ended(counter) == ended;
        holds.then_some(Verdict { admitted: false, remaining, retry_at, reset_at, delay_ms: 0 })
    }

    /// Remembers a cached denial that holds for the call. The shard of its counter is locked.
    pub(crate) fn remember(&mut self, denial: &CachedDenial, ended: u64) {
        let Verdict { remaining, retry_at, reset_at, .. } = denial.verdict();
        self.denial = Some(KnownDenial { remaining, retry_at, reset_at, check_at: denial.check_at(), ended });
    }
}

/// Returns the place of a hash among so many, which are a power of two.
#[expect(clippy::cast_possible_truncation, reason = "the lower bits are enough")]
fn index(hash: u64, len: usize) -> usize {
    hash as usize & len.saturating_sub(1)
}
