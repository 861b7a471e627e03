//! The truth about one counter: the plain list of what was admitted and when.
//!
//! It shares no arithmetic with the algorithms it judges. *Over-admitted* is a call that was admitted with more than the
//! quota in (t-W, t]; *under-admitted* is a call that was denied with room there. Both are judged on the limiter's own
//! admissions.

use std::collections::VecDeque;

use tollgate_core::clock::Timestamp;
use tollgate_core::rules::Quota;

/// What was admitted on one counter within the last window.
#[derive(Clone, Debug)]
pub struct Oracle {
    quota: Quota,
    admitted: VecDeque<(Timestamp, u64)>,
    units: u64,
}

impl Oracle {
    /// Nothing was admitted yet.
    #[must_use]
    pub fn new(quota: Quota) -> Self {
        Self { quota, admitted: VecDeque::new(), units: 0 }
    }

    /// Enters an admission; whether it was one too many. Calls come in the order of their time.
    pub fn admit(&mut self, at: Timestamp, cost: u64) -> bool {
        self.leave(at);
        self.admitted.push_back((at, cost));
        self.units += cost;
        self.units > self.quota.units()
    }

    /// Whether a call that was denied would have had room.
    pub fn has_room(&mut self, at: Timestamp, cost: u64) -> bool {
        self.leave(at);
        self.units + cost <= self.quota.units()
    }

    /// Units in the window after the last call.
    #[must_use]
    pub fn units(&self) -> u64 {
        self.units
    }

    fn leave(&mut self, now: Timestamp) {
        while let Some((at, cost)) = self.admitted.front().copied() {
            if at.plus_ms(self.quota.width_ms()) > now {
                break;
            }
            self.units -= cost;
            self.admitted.pop_front();
        }
    }
}
