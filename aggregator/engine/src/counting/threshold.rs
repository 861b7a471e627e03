//! The threshold in force. While the store is down, agents depend on signals for every caller, so it falls towards zero: a
//! counter without a signal is then an unused counter.
//!
//! A lower threshold is a promise about all counters above it. It is announced once each of them was signalled and
//! these signals are in the log. The table is examined from its end in small steps: a counter that moves into the place
//! of a removed one moves towards the beginning and is examined there, and a new one is signalled because it changes.

use tollgate_core::clock::Timestamp;
use tollgate_core::counter::CounterId;

use super::table::CounterTable;

/// Time for which the store counts as down after an agent has reported it, in ms; agents repeat it each second.
const STORE_DOWN_MS: u64 = 3_000;
/// Maximum number of counters that are signalled repeatedly while the threshold falls. Past it, the threshold stays for
/// [`PAUSE_MS`] where it is.
const REPEATED_LEN_MAX: usize = 5_000;
/// Time after which a threshold that cannot fall further is tried again, in ms.
const PAUSE_MS: u64 = 10_000;
const EXAMINED_LEN_MAX: usize = 4_096;

/// Facts from which the threshold follows.
#[derive(Clone, Copy, Debug)]
pub struct WantedThreshold {
    /// The threshold of the settings, in thousandths.
    pub normal_permille: u32,
    /// The time of the last heartbeat of an agent to which the store is down.
    pub store_down_at: Option<Timestamp>,
    /// The tag of the last batch that was published.
    pub last_tag: u64,
    /// The tag of the oldest batch that is not reported on.
    pub oldest_unreported: Option<u64>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Threshold {
    /// The threshold in force; nothing before the first signals.
    in_force: Option<u32>,
    descent: Option<Descent>,
    paused_until: Timestamp,
}

/// A step to a lower threshold.
#[derive(Clone, Copy, Debug)]
struct Descent {
    to: u32,
    /// Number of counters, from the beginning of the table, that are not examined.
    unexamined: usize,
    /// The tag of the last batch with counters of this step, once all were taken.
    last_tag: Option<u64>,
}

impl Threshold {
    /// Follows the facts, and marks counters that are to be signalled. Returns the threshold from which changes are
    /// signalled.
    pub(super) fn follow(
        &mut self,
        now: Timestamp,
        wanted: WantedThreshold,
        table: &mut CounterTable,
        changed: &mut Vec<CounterId>,
        repeated: usize,
        room: usize,
    ) -> u32 {
        let in_force = self.in_force.get_or_insert(wanted.normal_permille);
        let is_store_down = wanted.store_down_at.is_some_and(|at| now.ms_since(at) < STORE_DOWN_MS);
        let goal = if is_store_down { 0 } else { wanted.normal_permille };
        let is_logged = |tag| wanted.oldest_unreported.is_none_or(|oldest| oldest > tag);
        if let Some(descent) = self.descent
            && descent.last_tag.is_some_and(is_logged)
        {
            *in_force = descent.to;
            self.descent = None;
        }
        if goal >= *in_force {
            (*in_force, self.descent) = (goal, None);
            return goal;
        }
        if repeated > REPEATED_LEN_MAX {
            (self.descent, self.paused_until) = (None, now.plus_ms(PAUSE_MS));
        }
        if now < self.paused_until {
            return *in_force;
        }
        let len = table.counters.len();
        let to = if len <= REPEATED_LEN_MAX { goal } else { *in_force / 2 };
        let descent = self.descent.get_or_insert(Descent { to, unexamined: len, last_tag: None });
        descent.unexamined = descent.unexamined.min(len);
        let full_len = changed.len() + room;
        for _ in 0..EXAMINED_LEN_MAX {
            if descent.unexamined == 0 || changed.len() >= full_len {
                break;
            }
            descent.unexamined -= 1;
            if let Some((_, counter)) = table.counters.get_index_mut(descent.unexamined)
                && !counter.changed
                && !counter.above_threshold
                && counter.permille(now) >= descent.to.max(1)
            {
                counter.changed = true;
                changed.push(counter.id);
            }
        }
        descent.to
    }

    /// Notes that all counters that waited were taken into a batch.
    pub(super) fn taken(&mut self, wanted: WantedThreshold) {
        if let Some(descent) = self.descent.as_mut().filter(|descent| descent.unexamined == 0) {
            descent.last_tag.get_or_insert(wanted.last_tag + 1);
        }
    }

    /// Notes that counters of a lost batch wait again.
    pub(super) fn lost(&mut self) {
        self.descent.iter_mut().for_each(|descent| descent.last_tag = None);
    }

    pub(super) fn in_force(&self) -> u32 {
        self.in_force.unwrap_or(u32::MAX)
    }
}
