//! What an agent has seen of all counters, with a cap.
//!
//! Past the cap, what is idle makes room; when nothing is, unknown callers of a rule share that rule's overflow counter:
//! the map stays small, nobody goes unlimited, and those who were there before are unhurt. So are the callers of other rules:
//! a rule takes a place only while it holds less than a few times what is free, so one that is flooded leaves a fifth to all
//! others, whatever rules there are (dynamic thresholds, Choudhury and Hahne, 1998).

use std::collections::HashMap;
use std::hash::BuildHasher;

use foldhash::fast::RandomState;
use parking_lot::Mutex;
use tollgate_core::clock::Timestamp;
use tollgate_core::counter::CounterId;

use crate::view::CounterView;

const SHARDS: usize = 64;
/// How many times what is free one rule may hold: alone it fills four fifths.
const FREE_TIMES: usize = 4;
/// A full shard is swept at most so often, in ms.
const SWEEP_INTERVAL_MS: u64 = 500;

pub(crate) struct CounterTable {
    shard_len_max: usize,
    names: RandomState,
    shards: Box<[Mutex<Shard>]>,
}

#[derive(Default)]
struct Shard {
    counters: HashMap<CounterId, Entry, RandomState>,
    /// How many of them each rule holds.
    held: HashMap<RuleTag, usize, RandomState>,
    swept_at: Timestamp,
}

#[derive(Default)]
struct Entry {
    seen: CounterView,
    /// Overflow counters are no rule's.
    rule: Option<RuleTag>,
}

/// Tells rules apart by their names.
type RuleTag = u64;

impl CounterTable {
    pub(crate) fn new(counters_max: usize) -> Self {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        Self { shard_len_max: counters_max.div_ceil(SHARDS), names: RandomState::default(), shards }
    }

    /// The counter to use for a charge under this rule: `counter` itself, or the overflow counter when there is no place for
    /// another one.
    pub(crate) fn place(
        &self,
        counter: CounterId,
        rule: &str,
        now: Timestamp,
        overflow: impl FnOnce() -> CounterId,
    ) -> CounterId {
        let mut shard = self.shards[shard_of(counter)].lock();
        if shard.counters.contains_key(&counter) {
            return counter;
        }
        let rule = self.names.hash_one(rule);
        if !shard.has_place(rule, self.shard_len_max) && now.ms_since(shard.swept_at) >= SWEEP_INTERVAL_MS {
            shard.sweep(now);
        }
        if !shard.has_place(rule, self.shard_len_max) {
            return overflow();
        }
        shard.counters.insert(counter, Entry { seen: CounterView::default(), rule: Some(rule) });
        *shard.held.entry(rule).or_default() += 1;
        counter
    }

    /// Looks at a counter, known or not.
    pub(crate) fn with<R>(&self, counter: CounterId, look: impl FnOnce(&mut CounterView) -> R) -> R {
        look(&mut self.shards[shard_of(counter)].lock().counters.entry(counter).or_default().seen)
    }

    /// Forgets every denial: the store's time was set back, and they may hold too long.
    pub(crate) fn forget_denials(&self) {
        for shard in &self.shards {
            shard.lock().counters.values_mut().for_each(|entry| entry.seen.denial = None);
        }
    }

    /// Drops what is idle from one of the shards; called with 0, 1, 2, ... it comes round.
    pub(crate) fn sweep(&self, turn: usize, now: Timestamp) {
        self.shards[turn % SHARDS].lock().sweep(now);
    }

    pub(crate) fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().counters.len()).sum()
    }
}

impl Shard {
    fn has_place(&self, rule: RuleTag, len_max: usize) -> bool {
        let free = len_max.saturating_sub(self.counters.len());
        self.held.get(&rule).copied().unwrap_or_default() < FREE_TIMES * free
    }

    fn sweep(&mut self, now: Timestamp) {
        self.swept_at = now;
        let held = &mut self.held;
        self.counters.retain(|_, entry| {
            let stays = !entry.seen.is_idle_at(now);
            if let Some(count) = entry.rule.filter(|_| !stays).and_then(|rule| held.get_mut(&rule)) {
                *count -= 1;
            }
            stays
        });
        held.retain(|_, count| *count > 0);
        if self.counters.capacity() > 4 * self.counters.len() + 64 {
            self.counters.shrink_to_fit();
        }
    }
}

fn shard_of(counter: CounterId) -> usize {
    (counter.as_u128() % SHARDS as u128) as usize
}
