//! Exact count of one counter: the plain list of its admissions.
//!
//! It shares no arithmetic with the algorithms that it evaluates. A call is *over-admitted* if it was admitted with
//! more than the quota in (t-W, t], and *under-admitted* if it was denied with room there. Both refer to the agent's
//! own admissions.

use std::collections::VecDeque;

use tollgate_core::clock::Timestamp;
use tollgate_core::rules::Quota;

/// Admissions on one counter within the last window.
#[derive(Clone, Debug)]
pub struct Oracle {
    quota: Quota,
    admitted: VecDeque<(Timestamp, u64)>,
    units: u64,
}

impl Oracle {
    /// Creates an empty list.
    #[must_use]
    pub fn new(quota: Quota) -> Self {
        Self { quota, admitted: VecDeque::new(), units: 0 }
    }

    /// Enters an admission. Returns true if it exceeds the quota. Calls must come in order of time.
    pub fn admit(&mut self, at: Timestamp, cost: u64) -> bool {
        self.move_to(at);
        self.admitted.push_back((at, cost));
        self.units += cost;
        self.units > self.quota.units()
    }

    /// Returns true if a denied call would have had room.
    pub fn has_room(&mut self, at: Timestamp, cost: u64) -> bool {
        self.move_to(at);
        self.units + cost <= self.quota.units()
    }

    /// Returns the units in the window after the last call or move.
    #[must_use]
    pub fn units(&self) -> u64 {
        self.units
    }

    /// Drops the admissions that have left the window at `now`.
    pub fn move_to(&mut self, now: Timestamp) {
        while let Some((at, cost)) = self.admitted.front().copied() {
            if at.plus_ms(self.quota.width_ms()) > now {
                break;
            }
            self.units -= cost;
            self.admitted.pop_front();
        }
    }
}
