//! Calls that a thread decided lately: the rule and the counter of each, and a denial that still holds.
//!
//! An equal call under the same rules matches the same rule and charges the same counter, so neither is searched again. A
//! denial that holds is given again without a look at the counter: threads that deny the same caller share no memory then.
//!
//! A known call ends with its rules. The place of its rows' subject ends with the call, or with a list that is full:
//! `bus/known_rows`. Its denial ends
//! * with its time, or with the call's rules;
//! * when a charge, a refund, a lease or a step of the store's clock ended a denial of the same shard: see
//!   [`AgentTable::denials_ended`].
//!
//! The number of places has a cap. Where calls share two places, those that are used more often stay. The seeds of the
//! hash are random, so nobody can aim at the place of another caller. What is known about a call takes two cache lines,
//! so that the processor's own caches hold thousands.

use std::hash::{BuildHasher, Hasher};

use foldhash::fast::RandomState;
use tollgate_core::algorithm::Verdict;
use tollgate_core::call::Call;
use tollgate_core::call_key::{CallKey, hash_call};
use tollgate_core::clock::Timestamp;
use tollgate_core::counter::CounterId;

use crate::bus::SubjectNumber;
use crate::counters::{AgentTable, CachedDenial};
use crate::time::TimeBounds;

/// Bounds of the number of pairs of places of a thread. The number doubles while calls push each other out. All places
/// take 1 MB. Keys that are too long for their places take up to 8 MB more, at most 1 KB each.
const PAIRS_LEN_MIN: usize = 32;
const PAIRS_LEN_MAX: usize = 4_096;

/// Calls that a thread decided lately, under the rules of any engine.
#[derive(Debug, Default)]
pub(crate) struct KnownCalls {
    hashes: RandomState,
    /// Places of the calls of each hash.
    pairs: Vec<[KnownCall; 2]>,
    /// Places of the subjects of the calls' rows. Only a call that is published looks here.
    subjects: Vec<[Option<SubjectNumber>; 2]>,
    /// Number of calls that were pushed out since the places became more.
    pushed_out: usize,
}

pub(crate) struct KnownCallMut<'a> {
    pub(crate) call: &'a mut KnownCall,
    pub(crate) subject: &'a mut Option<SubjectNumber>,
}

#[derive(Clone, Debug, Default)]
#[repr(align(64))]
pub(crate) struct KnownCall {
    call: CallKey,
    /// Number of the rules; 0 for none.
    rules: u32,
    /// True if the call came since another one wanted its place.
    is_used: bool,
    pub(crate) sole: Option<SoleRule>,
    denial: KnownDenial,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct SoleRule {
    pub(crate) counter: CounterId,
    pub(crate) index: u32,
    /// Position at which the table held the counter last.
    pub(crate) position: u32,
    pub(crate) cost: u32,
    /// True if the policy is the rule's own.
    pub(crate) has_own_policy: bool,
}

/// The only rule that applies to a call, as [`Engine::decide`](crate::Engine::decide) has found it, for
/// [`Engine::begin_found`](crate::Engine::begin_found).
#[derive(Clone, Copy, Debug)]
pub struct FoundRule {
    pub(super) sole: SoleRule,
    /// Number of the rules.
    pub(super) rules: u32,
}

/// A cached denial of the counter. The default never holds.
#[derive(Clone, Copy, Debug, Default)]
struct KnownDenial {
    retry_at: Timestamp,
    reset_at: Timestamp,
    /// Instant of the agent's own clock from which the counter is asked again.
    check_at: Timestamp,
    remaining: u32,
    /// [`AgentTable::denials_ended`] as long as it holds.
    ended: u32,
}

impl KnownCalls {
    /// Returns the place of a call under the rules of this number. The place of a new call knows nothing yet. None if
    /// other calls keep the places.
    #[inline]
    pub(crate) fn place(&mut self, rules: u32, call: &Call<'_>) -> Option<KnownCallMut<'_>> {
        let mut hasher = self.hashes.build_hasher();
        hasher.write_u32(rules);
        hash_call(call, &mut hasher);
        let hash = hasher.finish();
        let index = index(hash, self.pairs.len());
        let known = self.pairs.get(index).and_then(|pair| pair.iter().position(|place| place.is_of(rules, call)));
        let Some(known) = known else { return self.take_place(hash, rules, call) };
        let call = &mut self.pairs[index][known];
        call.is_used = true;
        Some(KnownCallMut { call, subject: &mut self.subjects[index][known] })
    }

    #[cold]
    fn take_place(&mut self, hash: u64, rules: u32, call: &Call<'_>) -> Option<KnownCallMut<'_>> {
        let len = self.pairs.len();
        if len == 0 || self.pushed_out >= len && len < PAIRS_LEN_MAX {
            let len = (len * 2).max(PAIRS_LEN_MIN);
            (self.pairs, self.subjects) = (vec![<[KnownCall; 2]>::default(); len], vec![[None; 2]; len]);
            self.pushed_out = 0;
        }
        let key = CallKey::of(call)?;
        let index = index(hash, self.pairs.len());
        let pair = &mut self.pairs[index];
        let Some(free) = pair.iter().position(|place| !place.is_used) else {
            for place in pair {
                place.is_used = false;
            }
            self.pushed_out += 1;
            return None;
        };
        self.pushed_out += usize::from(pair[free].rules != 0);
        let subject = &mut self.subjects[index][free];
        let call = &mut pair[free];
        (*call, *subject) = (KnownCall { call: key, rules, is_used: true, ..KnownCall::default() }, None);
        Some(KnownCallMut { call, subject })
    }
}

impl KnownCall {
    #[inline]
    fn is_of(&self, rules: u32, call: &Call<'_>) -> bool {
        self.rules == rules && self.call.is_of(call)
    }

    /// Returns the verdict of a denial that holds.
    #[inline]
    pub(crate) fn denial(&self, table: &AgentTable, now: Timestamp, store_now: TimeBounds) -> Option<Verdict> {
        let KnownDenial { remaining, retry_at, reset_at, check_at, ended } = self.denial;
        let counter = self.sole?.counter;
        let holds = now < check_at && store_now.latest < retry_at && table.denials_ended(counter) == ended;
        holds.then_some(Verdict { admitted: false, remaining: remaining.into(), retry_at, reset_at, delay_ms: 0 })
    }

    /// Remembers a cached denial that holds for the call. The shard of its counter is locked.
    pub(crate) fn remember(&mut self, denial: &CachedDenial, ended: u32) {
        let Verdict { remaining, retry_at, reset_at, .. } = denial.verdict();
        if let Ok(remaining) = u32::try_from(remaining) {
            self.denial = KnownDenial { retry_at, reset_at, check_at: denial.check_at(), remaining, ended };
        }
    }
}

/// Returns the place of a hash among so many, which are a power of two.
#[expect(clippy::cast_possible_truncation, reason = "the lower bits are enough")]
fn index(hash: u64, len: usize) -> usize {
    hash as usize & len.saturating_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_known(calls: &mut KnownCalls, rules: u32, call: &Call<'_>) -> bool {
        calls.place(rules, call).is_some_and(|place| {
            let sole =
                SoleRule { counter: CounterId::from_u128(1), index: 0, position: 0, cost: 1, has_own_policy: true };
            place.call.sole.replace(sole).is_some()
        })
    }

    #[test]
    fn what_is_known_about_a_call_takes_two_cache_lines() {
        assert_eq!(size_of::<KnownCall>(), 128);
    }

    #[test]
    fn a_call_is_known_by_its_descriptors_its_cost_and_its_rules() {
        let (mut calls, call) = (KnownCalls::default(), Call::new().with("key", "a"));
        assert!(!is_known(&mut calls, 1, &call) && is_known(&mut calls, 1, &call));
        assert!(
            !is_known(&mut calls, 1, &call.clone().costing(2))
                && !is_known(&mut calls, 1, &call.clone().with("l", "b"))
        );
        assert!(!is_known(&mut calls, 2, &call), "other rules");
    }

    /// Many callers come once: those that come again stay, and the memory has a bound.
    #[test]
    fn calls_that_come_again_keep_their_places() {
        let mut calls = KnownCalls::default();
        let call = |number: usize| Call::new().with("key", format!("k{number}"));
        let known = (0..400_000).filter(|round| {
            is_known(&mut calls, 1, &call(1_000_000 + round));
            is_known(&mut calls, 1, &call(round % 1_000))
        });
        let known = known.count();
        assert!(known > 370_000, "{known}");
        assert_eq!(calls.pairs.len(), PAIRS_LEN_MAX);
    }
}
