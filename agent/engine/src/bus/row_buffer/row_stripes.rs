//! Buffers and rings of all stripes: calls add rows to those of their own threads.

use std::mem;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering, fence};
use std::task::Waker;

use atomic_waker::AtomicWaker;
use parking_lot::Mutex;
use tollgate_core::clock::Timestamp;

use super::buffer::{BufferedRow, RowBuffer};
use crate::bus::known_rows::{AddedRow, KnownRow, KnownRows, SubjectList, SubjectNumber};
use crate::report::{Stripes, Total};

/// Time for which rows wait for further rows, in ms.
pub(crate) const LINGER_MS: u64 = 5;
/// Maximum number of rows of one buffer: those of a tenth of a second in which the publishing thread does not run.
pub(super) const ROWS_LEN_MAX: usize = 131_072;
/// Number of rows from which a buffer does not wait for further rows.
const ROWS_LEN_FULL: usize = 4_096;
/// Length of the text past which a buffer gets no further row, in bytes.
const TEXT_BYTES_MAX: usize = 8 << 20;

/// Buffers of all stripes, and what the publishing thread shares with calls.
#[derive(Debug, Default)]
pub(crate) struct RowBuffers {
    /// Wakes the shell of the exchange when the first row comes, while it expects none.
    waker: AtomicWaker,
    /// Wakes it when rows must not wait for further rows.
    full_waker: AtomicWaker,
    /// Rows that never reached the log in this life.
    dropped_rows: Total,
    waiting_batches: AtomicUsize,
    /// Rows that were taken and are in no closed batch yet.
    pub(super) taken_rows: AtomicUsize,
    /// Number of rounds that have begun. The first round is 1.
    round: AtomicU64,
    stripes: Stripes<RowStripe>,
}

#[derive(Debug, Default)]
struct RowStripe {
    buffered: Mutex<BufferedRows>,
    known: KnownRows,
}

/// Rows of one stripe that are whole, and the list of their subjects.
#[derive(Debug, Default)]
struct BufferedRows {
    buffer: RowBuffer,
    subjects: SubjectList,
    /// True if nobody will take rows any more.
    is_closed: bool,
}

impl RowBuffers {
    /// Lets a function add a row to the buffer of the current thread. Returns the round by which it is published, or
    /// nothing if the buffer is full.
    pub(crate) fn add(&self, now: Timestamp, row: impl FnOnce(&mut RowBuffer) -> BufferedRow) -> Option<u64> {
        self.add_with_place(now, row, None)
    }

    /// Adds a row as [`Self::add`] does. If the thread has its stripe alone, the place of its subject is returned, too.
    pub(crate) fn add_subject(
        &self,
        now: Timestamp,
        place: &mut Option<SubjectNumber>,
        row: impl FnOnce(&mut RowBuffer) -> BufferedRow,
    ) -> Option<u64> {
        self.add_with_place(now, row, Some(place))
    }

    fn add_with_place(
        &self,
        now: Timestamp,
        row: impl FnOnce(&mut RowBuffer) -> BufferedRow,
        place: Option<&mut Option<SubjectNumber>>,
    ) -> Option<u64> {
        let stripe = self.stripes.own();
        let (ring, is_alone) = (&stripe.value.known, stripe.is_alone());
        let mut buffered = stripe.value.buffered.lock();
        let BufferedRows { buffer, subjects, is_closed } = &mut *buffered;
        let text_bytes = buffer.text_bytes();
        if *is_closed || buffer.rows.len() >= ROWS_LEN_MAX || text_bytes >= TEXT_BYTES_MAX {
            self.dropped_rows.add(1);
            return None;
        }
        let mut row = row(buffer);
        row.order.after = ring.added();
        if let Some(place) = place.filter(|_| is_alone) {
            let text_bytes = buffer.text_bytes() - text_bytes;
            let added = subjects.add(ring, text_bytes, buffer.rules[row.rules].number);
            row.order.subject = Some(added.index);
            *place = Some(added);
        }
        buffer.rows.push(row);
        let is_first = buffer.opened_at.is_none() && ring.waiting() == 0;
        buffer.opened_at.get_or_insert(now);
        let len = buffer.rows.len();
        let round = self.next_round();
        drop(buffered);
        self.wake(is_first, len);
        Some(round)
    }

    /// Adds a row of a known call, without a lock unless its ring is empty. Returns false if there is no place for it;
    /// [`Self::add`] then has one.
    #[inline]
    pub(crate) fn add_known(&self, now: Timestamp, place: SubjectNumber, row: KnownRow) -> bool {
        let stripe = self.stripes.own();
        if !stripe.is_alone() {
            return false;
        }
        let Some(AddedRow { waiting }) = stripe.value.known.add(now, place, row) else { return false };
        // A row that waits in the buffer has woken the shell. So the shell wakes at the same times whichever calls are known.
        let is_first = waiting == 1 && stripe.value.buffered.lock().buffer.opened_at.is_none();
        self.wake(is_first, waiting);
        true
    }

    /// Forgets the waker of the first row: the shell looks at the rows now.
    pub(crate) fn expect_first(&self) {
        self.waker.take();
    }

    /// Wakes the shell when the next first row comes.
    pub(crate) fn wake_at_first(&self, shell: &Waker) {
        self.waker.register(shell);
    }

    /// Wakes the shell when rows must not wait for further rows.
    pub(crate) fn wake_when_full(&self, shell: &Waker) {
        self.full_waker.register(shell);
    }

    /// Records the number of batches that wait for the bus, and of the rows that were taken and are in no closed batch yet.
    pub(crate) fn note_batches(&self, waiting: usize, open_rows: usize) {
        self.waiting_batches.store(waiting, Ordering::Relaxed);
        self.taken_rows.store(open_rows, Ordering::Release);
    }

    pub(crate) fn waiting_batches(&self) -> usize {
        self.waiting_batches.load(Ordering::Relaxed)
    }

    /// Records rows that never reached the log.
    pub(crate) fn note_dropped(&self, rows: u64) {
        self.dropped_rows.add(rows);
    }

    /// Returns the number of rows that never reached the log in this life.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped_rows.get()
    }

    /// Returns the round by which a row is published that is added before this round begins.
    #[inline]
    pub(crate) fn next_round(&self) -> u64 {
        self.round.load(Ordering::Relaxed) + 1
    }

    /// Returns the round by which all rows are published that the current thread has added, at the latest.
    pub(crate) fn round_of_added(&self) -> u64 {
        // A row is added before the number is read: who begins the next round after that sees the row.
        fence(Ordering::SeqCst);
        self.next_round()
    }

    /// Begins to collect the rows of a round, and returns its number. Later rows belong to the next round.
    pub(crate) fn begin_round(&self) -> u64 {
        let round = self.round.fetch_add(1, Ordering::SeqCst) + 1;
        fence(Ordering::SeqCst);
        round
    }

    /// Drops and counts all later rows. Those of known calls come to the buffer again, because their lists of subjects end.
    pub(crate) fn close(&self) {
        for stripe in self.stripes.iter() {
            stripe.buffered.lock().is_closed = true;
            stripe.known.end_list();
        }
    }

    /// Frees the memory of buffers that are closed and empty.
    pub(crate) fn free_closed(&self) {
        for stripe in self.stripes.iter() {
            let buffered = &mut *stripe.buffered.lock();
            if buffered.is_closed && buffered.buffer.rows.is_empty() {
                buffered.buffer = RowBuffer::default();
            }
        }
    }

    /// Returns the number of rows that are in no closed batch yet.
    pub(crate) fn waiting_rows(&self) -> usize {
        let waiting: usize = self.stripes.iter().map(RowStripe::waiting).sum();
        waiting + self.taken_rows.load(Ordering::Acquire)
    }

    pub(crate) fn due_at(&self) -> Option<Timestamp> {
        self.stripes.iter().filter_map(RowStripe::opened_at).min().map(|opened_at| opened_at.plus_ms(LINGER_MS))
    }

    /// Returns true if rows must be taken although no batch can be sent.
    pub(crate) fn is_any_full(&self) -> bool {
        self.stripes.iter().any(|stripe| stripe.waiting() >= ROWS_LEN_FULL)
    }

    #[inline]
    fn wake(&self, is_first: bool, len: usize) {
        if is_first {
            self.waker.wake();
        }
        if len == ROWS_LEN_FULL {
            self.full_waker.wake();
        }
    }

    /// Exchanges the buffer of a stripe for an empty one, if it has rows. Returns the number of rows of known calls up
    /// to which all subjects are known with them.
    pub(super) fn take(&self, stripe: usize, empty: &mut RowBuffer) -> usize {
        let stripe = self.stripes.get(stripe);
        let through = stripe.known.added();
        let mut buffered = stripe.buffered.lock();
        if !buffered.buffer.rows.is_empty() {
            mem::swap(&mut buffered.buffer, empty);
            self.taken_rows.fetch_add(empty.rows.len(), Ordering::Release);
        }
        through
    }

    pub(super) fn known_rows(&self, stripe: usize) -> &KnownRows {
        &self.stripes.get(stripe).known
    }
}

impl RowStripe {
    fn waiting(&self) -> usize {
        self.buffered.lock().buffer.rows.len() + self.known.waiting()
    }

    fn opened_at(&self) -> Option<Timestamp> {
        let opened_at = self.buffered.lock().buffer.opened_at;
        opened_at.into_iter().chain(self.known.opened_at()).min()
    }
}
