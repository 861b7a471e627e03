//! A way of counting the last minute, and the true count.

use tollgate_core::clock::Timestamp;
use tollgate_core::rules::Quota;
use tollgate_core::window::{Estimate, Ring, Window};
use tollgate_sim::oracle::Oracle;

use crate::scenario::arrivals::MINUTE_MS;

pub(super) const PARTS_MAX: u32 = 60;
pub(super) const FIXED_WINDOW: &str = "fixed window";

/// A way of counting the last minute.
pub(super) struct Count {
    pub(super) name: String,
    pub(super) ring: Ring,
    pub(super) estimate: Estimate,
}

impl Count {
    pub(super) fn new(parts: u32, estimate: Estimate) -> Self {
        let window = Window::new(MINUTE_MS, parts).expect("the number divides the minute");
        let name = if estimate == Estimate::Ignored {
            FIXED_WINDOW.to_owned()
        } else {
            format!("{parts} of {} s", f64::from(60) / f64::from(parts))
        };
        Self { name, ring: Ring::new(window), estimate }
    }

    /// Returns the number of counters that a call reads.
    pub(super) fn reads(&self) -> u32 {
        self.ring.window().sub_windows() + u32::from(self.estimate != Estimate::Ignored)
    }

    pub(super) fn at(&self, now: Timestamp) -> u64 {
        self.ring.used(now, self.estimate)
    }
}

/// Returns the exact count of the last minute.
pub(super) fn truth() -> Oracle {
    Oracle::new(Quota::new(1 << 52, MINUTE_MS).expect("a quota that nobody reaches"))
}
