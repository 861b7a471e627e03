//! Waits at real servers that the simulation does not have. They are the possible reasons of a number that differs from its prediction.

use std::time::Duration;

use serde::Serialize;
use tollgate::Source;
use tollgate_sim::figures::{as_us, count};

use crate::live::simulated::STORE_MS_MAX;

/// Waits of the calls of one consistency.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(super) struct Waits {
    calls: u64,
    /// Calls that were decided without Redis, because it did not answer before the deadline.
    late_store: u64,
    /// Calls whose answers took longer than any simulated one.
    slow: u64,
    slowest_us: u64,
}

impl Waits {
    pub(super) fn enter(&mut self, source: Source, waited: Duration) {
        self.calls += 1;
        self.late_store += u64::from(source == Source::Fallback);
        self.slow += u64::from(waited > Duration::from_millis(2 * STORE_MS_MAX));
        self.slowest_us = self.slowest_us.max(as_us(waited));
    }

    /// Returns a clause for each kind of wait that occurred.
    pub(super) fn reasons(&self) -> Vec<String> {
        let of_calls = |number: u64| format!("{} of {} calls", count(number), count(self.calls));
        let verb = |number: u64| if number == 1 { "was" } else { "were" };
        let mut reasons = Vec::new();
        if self.late_store > 0 {
            let (calls, were) = (of_calls(self.late_store), verb(self.late_store));
            reasons.push(format!("{calls} {were} decided without Redis, which did not answer before the deadline"));
        }
        if self.slow > 0 {
            let slowest = Duration::from_micros(self.slowest_us).as_secs_f64() * 1_000.0;
            let (calls, simulated) = (of_calls(self.slow), 2 * STORE_MS_MAX);
            reasons.push(format!("{calls} took up to {slowest:.1} ms instead of at most {simulated} ms"));
        }
        reasons
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_as_in_the_simulation_are_no_reason() {
        let mut waits = Waits::default();
        waits.enter(Source::Store, Duration::from_millis(2 * STORE_MS_MAX));
        waits.enter(Source::Local, Duration::ZERO);
        assert!(waits.reasons().is_empty(), "{waits:?}");
        waits.enter(Source::Store, Duration::from_micros(12_500));
        let expected = format!("1 of 3 calls took up to 12.5 ms instead of at most {} ms", 2 * STORE_MS_MAX);
        assert_eq!(waits.reasons(), [expected]);
    }
}
