//! The limits that counters follow: those of the newest rules that have charged them, at the shared store or in the table of an
//! agent, and the changes of these limits.

use std::collections::HashMap;

use tollgate_core::algorithm::{Algorithm, Limit};
use tollgate_core::clock::Timestamp;
use tollgate_core::counter::CounterId;
use tollgate_core::window::Estimate;

/// A counter of the shared store, or of the table of one agent.
pub(crate) type CounterKey = (Option<usize>, CounterId);

#[derive(Default)]
pub(crate) struct LimitsInForce {
    counters: HashMap<CounterKey, InForce>,
}

/// Limit of one counter, and those before it.
pub(crate) struct InForce {
    pub(crate) limit: Limit,
    /// Earlier limits, and the instants of true time at which they ended.
    earlier: Vec<(Timestamp, Limit)>,
}

#[derive(Clone, Copy)]
pub(crate) struct Bound {
    pub(crate) units: u64,
    pub(crate) width_ms: u64,
    /// True if windows are aligned.
    pub(crate) is_fixed: bool,
    /// True if units that nothing enforced are not held against later admissions.
    pub(crate) is_bucket: bool,
}

impl LimitsInForce {
    /// Notes the limit that a counter follows at an instant of true time. Returns the limit before it if that has another window.
    pub(crate) fn note(&mut self, key: CounterKey, limit: Limit, now: Timestamp) -> Option<Limit> {
        let known = self.counters.entry(key).or_insert_with(|| InForce { limit, earlier: Vec::new() });
        let before = known.limit;
        if before != limit {
            known.earlier.push((now, before));
            known.limit = limit;
        }
        Some(before).filter(|before| before.window != limit.window)
    }

    /// Forgets the table of an agent that has ended.
    pub(crate) fn forget(&mut self, agent: usize) {
        self.counters.retain(|(of, _), _| *of != Some(agent));
    }

    pub(crate) fn get(&self, key: CounterKey) -> Option<&InForce> {
        self.counters.get(&key)
    }

    /// Returns the most units that a window may hold if it ends at an admission of now; none if the limit states no
    /// bound.
    pub(crate) fn bound(&self, key: CounterKey) -> Option<Bound> {
        bound_of(self.get(key)?.limit)
    }
}

/// Returns the most units that a window may hold under a limit; none if the limit states no bound.
pub(crate) fn bound_of(limit: Limit) -> Option<Bound> {
    let Limit { algorithm, units, window, burst } = limit;
    let (is_fixed, is_bucket) = match algorithm {
        Algorithm::SlidingWindow(Estimate::Conservative) if burst == 0 => (false, false),
        Algorithm::SlidingLog => (false, false),
        Algorithm::FixedWindow => (true, false),
        Algorithm::TokenBucket | Algorithm::LeakyBucket => (false, true),
        Algorithm::SlidingWindow(_) | Algorithm::Concurrency => return None,
    };
    let units = units + if is_bucket { burst } else { 0 };
    Some(Bound { units, width_ms: window.width_ms(), is_fixed, is_bucket })
}

impl InForce {
    pub(crate) fn has_had_another_window(&self) -> bool {
        self.earlier.iter().any(|(_, limit)| limit.window != self.limit.window)
    }

    /// Returns the instant of true time from which no window contains a lease of an earlier window: such a lease was live for at
    /// most a sub-window after the change.
    pub(crate) fn is_settled_from(&self) -> Timestamp {
        let others = self.earlier.iter().filter(|(_, limit)| limit.window != self.limit.window);
        let settled =
            others.map(|(ended, limit)| ended.plus_ms(limit.window.sub_window_ms() + self.limit.window.width_ms()));
        settled.max().unwrap_or_default()
    }

    /// Returns true if the counter has followed another window less than so many ms ago.
    pub(crate) fn has_changed_within(&self, now: Timestamp, ms: u64) -> bool {
        self.since(now, ms).any(|earlier| earlier.window != self.limit.window)
    }

    /// Returns the earlier limits that were in force less than so many ms ago.
    pub(crate) fn since(&self, now: Timestamp, ms: u64) -> impl Iterator<Item = &Limit> {
        self.earlier.iter().filter(move |(ended, _)| now.ms_since(*ended) < ms).map(|(_, limit)| limit)
    }
}
