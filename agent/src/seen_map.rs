//! What an agent has seen of all counters, with a cap.
//!
//! Past the cap, what is idle makes room; when nothing is, unknown callers of a rule share that rule's overflow counter:
//! the map stays small, nobody goes unlimited, and those who were there before are unhurt.

use std::collections::HashMap;

use foldhash::fast::RandomState;
use parking_lot::Mutex;
use tollgate_common::clock::Timestamp;
use tollgate_common::counter::CounterId;

use crate::enforce::Seen;

const SHARDS: usize = 64;
/// A full shard is swept at most so often, in ms.
const SWEEP_INTERVAL_MS: u64 = 500;

pub(crate) struct SeenMap {
    shard_len_max: usize,
    shards: Box<[Mutex<Shard>]>,
}

#[derive(Default)]
struct Shard {
    counters: HashMap<CounterId, Seen, RandomState>,
    swept_at: Timestamp,
}

impl SeenMap {
    pub(crate) fn new(counters_max: usize) -> Self {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        Self { shard_len_max: counters_max.div_ceil(SHARDS), shards }
    }

    /// The counter to use for a charge: `counter` itself, or the overflow counter when there is no place for another one.
    pub(crate) fn place(&self, counter: CounterId, now: Timestamp, overflow: impl FnOnce() -> CounterId) -> CounterId {
        let mut shard = self.shards[shard_of(counter)].lock();
        if shard.counters.len() < self.shard_len_max || shard.counters.contains_key(&counter) {
            return counter;
        }
        if now.ms_since(shard.swept_at) >= SWEEP_INTERVAL_MS {
            shard.sweep(now);
            if shard.counters.len() < self.shard_len_max {
                return counter;
            }
        }
        overflow()
    }

    /// Looks at a counter, known or not.
    pub(crate) fn with<R>(&self, counter: CounterId, look: impl FnOnce(&mut Seen) -> R) -> R {
        look(self.shards[shard_of(counter)].lock().counters.entry(counter).or_default())
    }

    /// Forgets every denial: the store's time was set back, and they may hold too long.
    pub(crate) fn forget_denials(&self) {
        for shard in &self.shards {
            shard.lock().counters.values_mut().for_each(|seen| seen.denial = None);
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
    fn sweep(&mut self, now: Timestamp) {
        self.swept_at = now;
        self.counters.retain(|_, seen| !seen.is_idle_at(now));
        if self.counters.capacity() > 4 * self.counters.len() + 64 {
            self.counters.shrink_to_fit();
        }
    }
}

fn shard_of(counter: CounterId) -> usize {
    (counter.as_u128() % SHARDS as u128) as usize
}
