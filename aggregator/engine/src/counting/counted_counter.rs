//! The count of one counter: a ring of admitted and a ring of denied units.

use std::sync::Arc;

use tollgate_core::clock::Timestamp;
use tollgate_core::counter::CounterId;
use tollgate_core::messages::calls::{CounterEntry, Outcome, Row};
use tollgate_core::rules::Generation;
use tollgate_core::window::{Estimate, Ring, Window};

use super::units_by_agent::UnitsByAgent;

/// The count of one counter.
#[derive(Clone, Debug)]
pub struct CountedCounter {
    /// The counter's id.
    pub id: CounterId,
    /// The rule's name.
    pub rule: Arc<str>,
    /// The counter's values as people see them.
    pub label: Arc<str>,
    /// The newest generation of the rules by which it was charged.
    pub generation: Generation,
    /// The quota of that generation, in units.
    pub quota: u64,
    /// Units admitted, per sub-window.
    pub admitted: Ring,
    /// Units denied, per sub-window.
    pub denied: Ring,
    /// The time of the newest charge.
    pub newest_at: Timestamp,
    /// Instant at which an operator emptied the counter last; time 0 if nobody has.
    pub emptied_at: Timestamp,
    /// Time of the newest charge that the store has acknowledged under this window. The store held the counter for a
    /// window from there on. The time ends with the window.
    pub(super) charged_at: Timestamp,
    /// Time at which the bus appended the newest batch with the counter. The counter expires by this time, because its
    /// sub-windows are those of the store's clock, which may be far behind.
    pub(super) written_at: Timestamp,
    pub(super) by_agent: UnitsByAgent,
    /// True while it waits to be signalled.
    pub(super) changed: bool,
    /// True if it was above the threshold when it was examined last, so that its signal is repeated.
    pub(super) above_threshold: bool,
}

impl CountedCounter {
    pub(super) fn new(counter: &CounterEntry) -> Self {
        Self {
            id: counter.id,
            rule: counter.rule.clone(),
            label: counter.label.clone(),
            generation: counter.generation,
            quota: counter.quota,
            admitted: Ring::new(counter.window),
            denied: Ring::new(counter.window),
            newest_at: Timestamp::default(),
            emptied_at: Timestamp::default(),
            charged_at: Timestamp::default(),
            written_at: Timestamp::default(),
            by_agent: UnitsByAgent::default(),
            changed: false,
            above_threshold: false,
        }
    }

    /// Counts a row that an agent wrote; false if its sub-window has left the window.
    pub(super) fn count(&mut self, row: &Row, writer: &Arc<str>) -> bool {
        self.newest_at = self.newest_at.max(row.at);
        let ring = match row.outcome {
            Outcome::Reset => {
                self.empty(row);
                return true;
            }
            Outcome::Admitted | Outcome::Charged | Outcome::Corrected => {
                self.by_agent.count(writer, row.cost, self.admitted.window(), row.sub_window);
                &mut self.admitted
            }
            Outcome::Denied(_) => &mut self.denied,
            Outcome::Spared => return true,
        };
        if row.cost < 0 {
            ring.subtract(row.sub_window, row.cost.unsigned_abs());
            return true;
        }
        ring.add(row.sub_window, row.cost.unsigned_abs())
    }

    /// Removes the admitted units up to the sub-window of a reset. Charges around the reset count by the place of their batch in the
    /// log: those of other agents that stand behind it stay, those before it go.
    fn empty(&mut self, row: &Row) {
        self.emptied_at = row.at;
        self.by_agent.clear();
        let held: Vec<_> = self.admitted.counts().filter(|(sub_window, _)| *sub_window <= row.sub_window).collect();
        for (sub_window, units) in held {
            self.admitted.subtract(sub_window, units);
        }
    }

    /// Remembers the instant of a row if it is that of a charge which the store has acknowledged under this window.
    pub(super) fn charged(&mut self, row: &Row, written_in: Window) {
        if row.outcome == Outcome::Charged && written_in == self.admitted.window() {
            self.charged_at = self.charged_at.max(row.at);
        }
    }

    /// Returns the units admitted in the window, by the conservative estimate.
    #[must_use]
    pub fn used(&self, now: Timestamp) -> u64 {
        self.admitted.used(now, Estimate::Conservative)
    }

    /// Returns the units that callers asked for in the window, admitted or denied, by the same estimate.
    #[must_use]
    pub fn demand(&self, now: Timestamp) -> u64 {
        self.used(now).saturating_add(self.denied.used(now, Estimate::Conservative))
    }

    /// Returns the part of the quota that is used, in thousandths; at least one if any of it is used.
    #[must_use]
    pub fn permille(&self, now: Timestamp) -> u32 {
        let used = self.used(now);
        let permille = u128::from(used) * 1_000 / u128::from(self.quota.max(1));
        u32::try_from(permille).unwrap_or(u32::MAX).max(u32::from(used > 0))
    }

    /// Takes over the quota and the window of a newer generation; the counts are carried into that window. Returns true
    /// if they differ.
    pub(super) fn follow(&mut self, counter: &CounterEntry) -> bool {
        if counter.generation < self.generation {
            return false;
        }
        let is_other = (self.quota, self.admitted.window()) != (counter.quota, counter.window);
        self.generation = counter.generation;
        self.quota = counter.quota;
        if self.admitted.window() != counter.window {
            self.admitted = self.admitted.carried_to(counter.window);
            self.denied = self.denied.carried_to(counter.window);
            self.by_agent.clear();
            self.charged_at = Timestamp::default();
        }
        is_other
    }

    /// Returns true if its units have left the window and it waits for no signal.
    pub(super) fn is_idle_at(&self, now: Timestamp) -> bool {
        let (waits, window) = (self.changed || self.above_threshold, self.admitted.window());
        !waits && now.ms_since(self.written_at) > window.width_ms() + window.sub_window_ms()
    }
}

#[cfg(test)]
pub(super) mod tests {
    use tollgate_core::decision::Source;
    use tollgate_core::messages::calls::DenialCause;

    use super::*;

    pub(in crate::counting) fn written(
        id: u128,
        generation: Generation,
        (quota, width_ms): (u64, u64),
    ) -> CounterEntry {
        CounterEntry {
            id: CounterId::from_u128(id),
            rule: "r".into(),
            label: format!("c{id}").into(),
            generation,
            quota,
            window: Window::new(width_ms, 1).unwrap(),
        }
    }

    pub(in crate::counting) fn row(outcome: Outcome, cost: i64, sub_window: u64) -> Row {
        Row {
            call: 1,
            counter: Some(0),
            at: Timestamp::from_ms(5),
            sub_window,
            cost,
            outcome,
            shadow_denied: false,
            source: Source::Store,
            home: None,
        }
    }

    #[test]
    fn a_row_counts_by_its_outcome_and_sign() {
        // Outcome, cost and sub-window; whether it counts; admitted and denied units after it, in the 1 s window at 1.5 s.
        let cases = [
            (Outcome::Admitted, 4, 1, true, (4, 0)),
            (Outcome::Denied(DenialCause::Count), 3, 1, true, (4, 3)),
            (Outcome::Spared, 9, 1, true, (4, 3)),
            (Outcome::Charged, 0, 1, true, (4, 3)),
            (Outcome::Corrected, -1, 1, true, (3, 3)),
            (Outcome::Corrected, -9, 1, true, (0, 3)),
            (Outcome::Admitted, 2, 0, true, (2, 3)),
            (Outcome::Admitted, 4, 1, true, (6, 3)),
            (Outcome::Reset, 0, 0, true, (4, 3)),
            (Outcome::Reset, 0, 1, true, (0, 3)),
            (Outcome::Admitted, 1, 1, true, (1, 3)),
        ];
        let mut counter = CountedCounter::new(&written(1, 1, (10, 1_000)));
        let now = Timestamp::from_ms(1_500);
        for (place, (outcome, cost, sub_window, counted, units)) in cases.into_iter().enumerate() {
            assert_eq!(counter.count(&row(outcome, cost, sub_window), &"a".into()), counted, "case {place}");
            assert_eq!((counter.used(now), counter.denied.used(now, Estimate::Conservative)), units, "case {place}");
            assert_eq!(counter.demand(now), units.0 + units.1, "case {place}");
        }
        counter.count(&row(Outcome::Admitted, 1, 5), &"a".into());
        assert!(!counter.count(&row(Outcome::Admitted, 1, 1), &"a".into()), "its sub-window has left");
    }

    /// I12: agents compare this instant with the birth of the stored counter.
    #[test]
    fn the_newest_charge_is_one_that_the_store_acknowledged_under_this_window() {
        let mut counter = CountedCounter::new(&written(1, 1, (10, 1_000)));
        let (this, other) = (counter.admitted.window(), Window::new(2_000, 1).unwrap());
        // Outcome, instant, the writer's window, and the newest charge after it.
        let cases = [(Outcome::Admitted, 5, this, 0), (Outcome::Charged, 6, this, 6), (Outcome::Charged, 8, other, 6)];
        for (outcome, ms, window, expected) in cases {
            counter.charged(&Row { at: Timestamp::from_ms(ms), ..row(outcome, 1, 0) }, window);
            assert_eq!(counter.charged_at, Timestamp::from_ms(expected), "{outcome:?} at {ms}");
        }
        counter.follow(&written(1, 2, (10, 2_000)));
        assert_eq!(counter.charged_at, Timestamp::default(), "it ends with the window");
    }
}
