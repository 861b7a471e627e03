//! Rows as calls leave them: in a buffer of the caller's own stripe, without dictionaries.
//!
//! The publishing thread collects them in rounds and makes batches of them ([`crate::batcher`]). It raises the number of the
//! round before it takes the first buffer, and a call reads the number while it holds its buffer. So a row that says round r
//! is taken in round r at the latest, and not before round r - 1. Views know their units by rounds. Past the caps, rows are
//! dropped and counted, and their units count as if no signal would ever contain them.

use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use atomic_waker::AtomicWaker;
use parking_lot::Mutex;
use tollgate_core::call::Call;
use tollgate_core::clock::Timestamp;
use tollgate_core::counter::CounterId;
use tollgate_core::decision::Source;
use tollgate_core::messages::calls::Outcome;
use tollgate_core::rules::LimitPolicy;
use tollgate_core::window::Window;

use crate::active_rules::ActiveRules;
use crate::metrics::Total;
use crate::stripes::Stripes;
use crate::view::RoundNumber;

/// Time for which rows wait for further rows, in ms.
pub(crate) const LINGER_MS: u64 = 5;
/// Maximum number of rows of one buffer: those of a tenth of a second in which the publishing thread does not run.
const ROWS_LEN_MAX: usize = 131_072;
/// Number of rows from which a buffer does not wait for further rows.
const ROWS_LEN_FULL: usize = 4_096;
/// Length of the text past which a buffer gets no further row, in bytes.
const TEXT_BYTES_MAX: usize = 8 << 20;
/// Capacity that an empty buffer keeps: rows, texts for each of them, and bytes of text for each.
const ROWS_LEN_KEPT: usize = ROWS_LEN_FULL;
const TEXTS_PER_ROW_KEPT: usize = 4;
const TEXT_BYTES_PER_ROW_KEPT: usize = 64;

/// Buffers of all stripes, and what the publishing thread shares with calls.
#[derive(Debug, Default)]
pub(crate) struct RowBuffers {
    /// Wakes the shell of the exchange.
    pub(crate) waker: AtomicWaker,
    /// Rows that never reached the log in this life.
    pub(crate) dropped_rows: Total,
    /// Closed batches that wait for the bus.
    pub(crate) waiting_batches: AtomicUsize,
    /// Rows that were taken and are in no closed batch yet.
    pub(crate) taken_rows: AtomicUsize,
    /// Number of rounds that have begun. The first round is 1.
    round: AtomicU64,
    buffers: Stripes<Mutex<RowBuffer>>,
}

/// Rows of one stripe.
#[derive(Debug, Default)]
pub(crate) struct RowBuffer {
    pub(crate) rows: Vec<BufferedRow>,
    /// Rule sets by which the rows were decided.
    pub(crate) rules: Vec<Arc<ActiveRules>>,
    /// Texts of all rows, one behind the other, and where each ends.
    text: String,
    ends: Vec<usize>,
    opened_at: Option<Timestamp>,
}

/// A row without dictionaries.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BufferedRow {
    pub(crate) call: u64,
    pub(crate) at: Timestamp,
    pub(crate) cost: i64,
    pub(crate) outcome: Outcome,
    pub(crate) counter: Option<ChargedCounter>,
    /// On the home row, the authority, and the index of the decider's name among the texts.
    pub(crate) home: Option<(Source, Option<usize>)>,
    /// Index of the rule set.
    pub(crate) rules: usize,
    /// Indexes of the first name and behind the last value of the call's descriptors among the texts.
    pub(crate) descriptors: (usize, usize),
}

/// Counter of a row, with what its description needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChargedCounter {
    pub(crate) id: CounterId,
    /// Position of the rule in the set.
    pub(crate) rule: usize,
    /// Quota in units.
    pub(crate) quota: u64,
    pub(crate) window: Window,
}

impl ChargedCounter {
    /// Creates the counter of the rule at this position, under the caller's policy.
    pub(crate) fn new(id: CounterId, rule: usize, policy: &LimitPolicy) -> Self {
        Self { id, rule, quota: policy.quota.units(), window: policy.window }
    }
}

impl RowBuffers {
    /// Lets a function add a row to the buffer of the current thread. Returns the round by which it is published, or nothing if
    /// the buffer is full.
    pub(crate) fn add(&self, now: Timestamp, row: impl FnOnce(&mut RowBuffer) -> BufferedRow) -> RoundNumber {
        let mut buffer = self.buffers.own().value.lock();
        if buffer.rows.len() >= ROWS_LEN_MAX || buffer.text.len() >= TEXT_BYTES_MAX {
            self.dropped_rows.add(1);
            return None;
        }
        let row = row(&mut buffer);
        buffer.rows.push(row);
        let is_first = buffer.opened_at.is_none();
        buffer.opened_at.get_or_insert(now);
        let is_due = is_first || buffer.rows.len() == ROWS_LEN_FULL;
        let round = self.round.load(Ordering::Relaxed) + 1;
        drop(buffer);
        if is_due {
            self.waker.wake();
        }
        Some(round)
    }

    /// Begins to collect the rows of a round: later rows say the next one. Returns the number of the round.
    pub(crate) fn begin_round(&self) -> u64 {
        self.round.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Exchanges the buffer of a stripe for an empty one, if it has rows.
    pub(crate) fn take(&self, stripe: usize, empty: &mut RowBuffer) {
        let mut buffer = self.buffers.get(stripe).lock();
        if !buffer.rows.is_empty() {
            mem::swap(&mut *buffer, empty);
            self.taken_rows.fetch_add(empty.rows.len(), Ordering::Release);
        }
    }

    /// Returns the number of rows that are in no closed batch yet.
    pub(crate) fn waiting_rows(&self) -> usize {
        let buffered: usize = self.buffers.iter().map(|buffer| buffer.lock().rows.len()).sum();
        buffered + self.taken_rows.load(Ordering::Acquire)
    }

    /// Returns the time from which rows are due for a batch.
    pub(crate) fn due_at(&self) -> Option<Timestamp> {
        self.buffers.iter().filter_map(|buffer| Some(buffer.lock().opened_at?.plus_ms(LINGER_MS))).min()
    }

    /// Returns true if a buffer must be emptied although no batch can be sent.
    pub(crate) fn is_any_full(&self) -> bool {
        self.buffers.iter().any(|buffer| buffer.lock().rows.len() >= ROWS_LEN_FULL)
    }
}

impl RowBuffer {
    /// Adds texts and returns the indexes of the first one and behind the last one.
    pub(crate) fn add_texts<'a>(&mut self, texts: impl IntoIterator<Item = &'a str>) -> (usize, usize) {
        let first = self.ends.len();
        for text in texts {
            self.text.push_str(text);
            self.ends.push(self.text.len());
        }
        (first, self.ends.len())
    }

    /// Adds the descriptors of a call, unless the row before is of the same call.
    pub(crate) fn add_descriptors(&mut self, number: u64, call: &Call<'_>) -> (usize, usize) {
        match self.rows.last() {
            Some(last) if last.call == number => last.descriptors,
            _ => self.add_texts(call.descriptors().flat_map(|(name, value)| [name, value])),
        }
    }

    /// Returns the index of a rule set.
    pub(crate) fn index_of_rules(&mut self, rules: &Arc<ActiveRules>) -> usize {
        if self.rules.last().is_none_or(|last| !Arc::ptr_eq(last, rules)) {
            self.rules.push(rules.clone());
        }
        self.rules.len() - 1
    }

    /// Returns a text.
    pub(crate) fn text(&self, index: usize) -> &str {
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.text[start..self.ends[index]]
    }

    /// Returns the names and values of a row's descriptors.
    pub(crate) fn descriptors(&self, row: &BufferedRow) -> impl Iterator<Item = (&str, &str)> + Clone {
        let (first, end) = row.descriptors;
        (first..end).step_by(2).map(|index| (self.text(index), self.text(index + 1)))
    }

    /// Removes all rows. The buffer keeps its memory, up to a bound.
    pub(crate) fn clear(&mut self) {
        self.rows.clear();
        self.rows.shrink_to(ROWS_LEN_KEPT);
        self.rules.clear();
        self.text.clear();
        self.text.shrink_to(ROWS_LEN_KEPT * TEXT_BYTES_PER_ROW_KEPT);
        self.ends.clear();
        self.ends.shrink_to(ROWS_LEN_KEPT * TEXTS_PER_ROW_KEPT);
        self.opened_at = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stripes::use_stripe;

    const NOW: Timestamp = Timestamp::from_ms(1_000_000);

    fn add(buffers: &RowBuffers, stripe: usize, call: u64, text: &str) -> RoundNumber {
        use_stripe(stripe);
        buffers.add(NOW, |buffer| BufferedRow {
            call,
            at: NOW,
            cost: 1,
            outcome: Outcome::Admitted,
            counter: None,
            home: None,
            rules: 0,
            descriptors: buffer.add_descriptors(call, &Call::new().with("name", text)),
        })
    }

    /// Step of the publishing thread.
    #[derive(Clone, Copy, PartialEq, Eq)]
    enum Step {
        BeginRound,
        Take(usize),
    }

    /// Runs the steps of the second round, with a call on a stripe before the step of this number. Returns true if the row is
    /// taken whenever it says the second round or an earlier one.
    fn is_contained(steps: &[Step], stripe: usize, before: usize) -> bool {
        let (buffers, mut taken, mut says) = (RowBuffers::default(), 0, None);
        assert_eq!(buffers.begin_round(), 1);
        for position in 0..=steps.len() {
            if position == before {
                says = add(&buffers, stripe, 1, "a");
            }
            match steps.get(position) {
                Some(Step::BeginRound) => assert_eq!(buffers.begin_round(), 2),
                Some(Step::Take(stripe)) => {
                    let mut buffer = RowBuffer::default();
                    buffers.take(*stripe, &mut buffer);
                    taken += buffer.rows.len();
                }
                None => {}
            }
        }
        assert!(says.is_some_and(|round| (2..=3).contains(&round)));
        says == Some(3) || taken == 1
    }

    /// E8: a view takes the rows that say a round for published once the round is complete. A publishing thread that raised the
    /// round after it has taken the rows would miss some.
    #[test]
    fn a_round_contains_all_rows_that_say_it_wherever_a_call_comes_between() {
        use Step::{BeginRound, Take};
        let holds = |steps: &[Step; 3]| (0..2).all(|stripe| (0..=3).all(|before| is_contained(steps, stripe, before)));
        assert!(holds(&[BeginRound, Take(0), Take(1)]));
        assert!(!holds(&[Take(0), Take(1), BeginRound]) && !holds(&[Take(0), BeginRound, Take(1)]));
    }

    #[test]
    fn a_full_buffer_drops_rows_and_another_stripe_has_room() {
        let buffers = RowBuffers::default();
        let rows = ROWS_LEN_MAX as u64 + 10;
        let kept = (0..rows).filter(|call| add(&buffers, 3, *call, "a").is_some()).count();
        assert_eq!((kept, buffers.dropped_rows.get(), buffers.is_any_full()), (ROWS_LEN_MAX, 10, true));
        assert!(add(&buffers, 4, 0, "a").is_some());
        let mut buffer = RowBuffer::default();
        buffers.take(3, &mut buffer);
        assert_eq!((buffer.rows.len(), buffers.is_any_full()), (ROWS_LEN_MAX, false));
    }

    #[test]
    fn the_rows_of_a_call_share_its_descriptors() {
        let buffers = RowBuffers::default();
        for (call, text) in [(1, "a"), (1, "a"), (2, "b")] {
            add(&buffers, 0, call, text);
        }
        let mut buffer = RowBuffer::default();
        buffers.take(0, &mut buffer);
        let shown: Vec<_> = buffer.rows.iter().flat_map(|row| buffer.descriptors(row)).collect();
        assert_eq!(shown, [("name", "a"), ("name", "a"), ("name", "b")]);
        assert_eq!(buffer.ends.len(), 4);
    }
}
