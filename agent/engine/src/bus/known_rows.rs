//! Rows of calls that a thread knows: three numbers each, in a ring that its thread fills without a lock.
//!
//! Rows of equal calls differ in the number of the call, its time, its result and the remaining units only. All else is their *subject*,
//! which is written once: with the first row, in the [`RowBuffer`](crate::bus::row_buffer::RowBuffer). A locked instruction
//! would cost more than the row, because the processor waits there for everything that it has written.
//!
//! **Ownership.** The thread that has the stripe alone writes cells and `tail`; the publishing thread reads the cells
//! between `taken` and `tail` and then writes `taken`. Cells before `taken` are free. Threads that share a stripe use
//! no ring. Cells come in chunks, and the thread takes the first free chunk: while few rows wait, they use the same few
//! chunks, which stay in the caches of the processor.
//!
//! **Ends.** A subject ends with its list: when the list is full, and with the rules. The number of a subject in an
//! older list is then no longer valid, and its call adds its subject to the new one.

use std::iter;
use std::num::NonZeroU32;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};

use tollgate_core::clock::Timestamp;
use tollgate_core::decision::Source;

/// Maximum number of rows that wait: those of about 10 ms. Rows past it go to the buffer, whole. One chunk more may be
/// in use.
pub(crate) const KNOWN_ROWS_LEN_MAX: usize = (CHUNKS - 1) * CHUNK_LEN;
/// Cells are allocated in chunks, when they are first used.
const CHUNKS: usize = 128;
const CHUNK_LEN: usize = 1_024;
/// Maximum number of subjects in a list, and of the bytes of their texts past which it gets no further one.
const SUBJECTS_LEN_MAX: usize = 16_384;
const SUBJECTS_TEXT_BYTES_MAX: usize = 1 << 20;

/// Bits of a cell's last number: the time in ms (for some centuries), the index of the subject, and the result.
const AT_BITS: u32 = 44;
const SUBJECT_BITS: u32 = 16;
const SOURCE_BITS: u32 = 3;

/// Number of the next list of any engine in the process. The first is 1.
static NEXT_LIST: AtomicU32 = AtomicU32::new(1);

/// Number of a subject in a list, which its call remembers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SubjectNumber {
    list: NonZeroU32,
    pub(crate) index: u16,
}

/// Part of a row that its subject does not contain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KnownRow {
    pub(crate) call: u64,
    pub(crate) at: Timestamp,
    pub(crate) admitted: bool,
    pub(crate) source: Source,
    /// Units that remained under the rule.
    pub(crate) remaining: u64,
}

/// Subjects of a stripe, as far as the thread must know them. It is written under the lock of the buffer.
#[derive(Debug, Default)]
pub(crate) struct SubjectList {
    len: usize,
    text_bytes: usize,
    /// Number of the rules; those of an older number end the list.
    rules: u32,
}

#[derive(Debug)]
pub(crate) struct KnownRows {
    /// Number of rows that were ever added.
    tail: AtomicUsize,
    /// Number of the subjects' list; 0 before there is one.
    list: AtomicU32,
    /// Time, in ms, at which the first row was added to an empty ring.
    opened_at: AtomicU64,
    chunks: [OnceLock<Box<[RowCell]>>; CHUNKS],
    /// Chunk of each of the last ranges of [`CHUNK_LEN`] rows, by index.
    order: [AtomicU8; CHUNKS],
    taken: Taken,
}

/// Number of rows that were ever taken, on a cache line of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Taken(AtomicUsize);

#[derive(Debug, Default)]
struct RowCell {
    call: AtomicU64,
    remaining: AtomicU64,
    rest: AtomicU64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AddedRow {
    /// Number of rows that wait, with this one.
    pub(crate) waiting: usize,
}

impl SubjectList {
    /// Adds a subject with a text of this length, which belongs to the rules of this number. A list that is full, or of
    /// other rules, is replaced by a new one.
    pub(crate) fn add(&mut self, ring: &KnownRows, text_bytes: usize, rules: u32) -> SubjectNumber {
        let is_full = self.len >= SUBJECTS_LEN_MAX || self.text_bytes >= SUBJECTS_TEXT_BYTES_MAX;
        if is_full || self.rules != rules {
            *self = Self { rules, ..Self::default() };
            // After 2^32 lists, the numbers begin again. No call remembers one that long.
            ring.list.store(NEXT_LIST.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
        }
        let list = NonZeroU32::new(ring.list.load(Ordering::Relaxed)).unwrap_or(NonZeroU32::MIN);
        let index = u16::try_from(self.len).expect("a list is shorter");
        self.len += 1;
        self.text_bytes += text_bytes;
        SubjectNumber { list, index }
    }
}

impl Default for KnownRows {
    fn default() -> Self {
        Self {
            tail: AtomicUsize::default(),
            list: AtomicU32::default(),
            opened_at: AtomicU64::default(),
            chunks: [const { OnceLock::new() }; CHUNKS],
            order: [const { AtomicU8::new(0) }; CHUNKS],
            taken: Taken::default(),
        }
    }
}

impl KnownRows {
    /// Adds a row, from the thread that has the stripe alone. Returns none, and adds nothing, if the list of the
    /// subject has ended or the ring is full.
    #[inline]
    pub(crate) fn add(&self, now: Timestamp, number: SubjectNumber, row: KnownRow) -> Option<AddedRow> {
        let (tail, rest) = (self.tail.load(Ordering::Relaxed), encode(number.index, row)?);
        let taken = self.taken.0.load(Ordering::Acquire);
        if number.list.get() != self.list.load(Ordering::Relaxed) || tail - taken >= KNOWN_ROWS_LEN_MAX {
            return None;
        }
        if tail.is_multiple_of(CHUNK_LEN) {
            self.take_chunk(taken / CHUNK_LEN, tail / CHUNK_LEN);
        }
        let cell = &self.chunk(tail)[tail % CHUNK_LEN];
        cell.call.store(row.call, Ordering::Relaxed);
        cell.remaining.store(row.remaining, Ordering::Relaxed);
        cell.rest.store(rest, Ordering::Relaxed);
        self.tail.store(tail + 1, Ordering::Release);
        // If the publishing thread takes the rows before just now, it may be seen late: it looks again a little later.
        let waiting = tail + 1 - self.taken.0.load(Ordering::Relaxed);
        if waiting == 1 {
            self.opened_at.store(now.as_ms(), Ordering::Relaxed);
        }
        Some(AddedRow { waiting })
    }

    /// Ends the list of subjects: no call knows its number any more.
    pub(crate) fn end_list(&self) {
        self.list.store(0, Ordering::Relaxed);
    }

    pub(crate) fn added(&self) -> usize {
        self.tail.load(Ordering::Acquire)
    }

    pub(crate) fn waiting(&self) -> usize {
        let taken = self.taken.0.load(Ordering::Acquire);
        self.added() - taken
    }

    /// Returns the time from which the oldest row waits.
    pub(crate) fn opened_at(&self) -> Option<Timestamp> {
        (self.waiting() > 0).then(|| Timestamp::from_ms(self.opened_at.load(Ordering::Relaxed)))
    }

    /// Returns the oldest rows up to the one of this number, with the indexes of their subjects. Only the publishing
    /// thread calls it.
    pub(crate) fn rows(&self, through: usize) -> impl Iterator<Item = (usize, KnownRow)> {
        (self.taken.0.load(Ordering::Relaxed)..through).map(|position| {
            let cell = &self.chunk(position)[position % CHUNK_LEN];
            let [number, remaining, rest] =
                [&cell.call, &cell.remaining, &cell.rest].map(|cell| cell.load(Ordering::Relaxed));
            decode(number, remaining, rest)
        })
    }

    /// Frees the cells of so many of the oldest rows. Only the publishing thread calls it.
    pub(crate) fn free(&self, len: usize) {
        self.taken.0.store(self.taken.0.load(Ordering::Relaxed) + len, Ordering::Release);
        // Rows that are added from now on see that the ring is empty, or are seen.
        fence(Ordering::SeqCst);
    }

    /// Takes the first chunk that is free for a range of rows. The ranges between `first` and this one are in use.
    #[cold]
    fn take_chunk(&self, first: usize, range: usize) {
        let chunk_of = |range: usize| self.order[range % CHUNKS].load(Ordering::Relaxed);
        let used = (first..range).fold(0_u128, |used, range| used | 1 << chunk_of(range));
        let free = u8::try_from(used.trailing_ones()).unwrap_or_default();
        self.order[range % CHUNKS].store(free, Ordering::Relaxed);
    }

    #[inline]
    fn chunk(&self, position: usize) -> &[RowCell] {
        let chunk = self.order[position / CHUNK_LEN % CHUNKS].load(Ordering::Relaxed);
        let create = || iter::repeat_with(RowCell::default).take(CHUNK_LEN).collect();
        self.chunks[usize::from(chunk) % CHUNKS].get_or_init(create)
    }
}

/// Returns the last number of a cell; none for a time that it cannot hold.
#[inline]
fn encode(subject: u16, row: KnownRow) -> Option<u64> {
    let (at, result) = (row.at.as_ms(), row.source as u64 | u64::from(row.admitted) << SOURCE_BITS);
    (at >> AT_BITS == 0).then_some(at | u64::from(subject) << AT_BITS | result << (AT_BITS + SUBJECT_BITS))
}

#[expect(clippy::cast_possible_truncation, reason = "the other bits are masked")]
fn decode(call: u64, remaining: u64, rest: u64) -> (usize, KnownRow) {
    let part = |first: u32, bits: u32| rest >> first & ((1 << bits) - 1);
    let source = Source::ALL[part(AT_BITS + SUBJECT_BITS, SOURCE_BITS) as usize % Source::ALL.len()];
    let admitted = part(AT_BITS + SUBJECT_BITS + SOURCE_BITS, 1) == 1;
    let row = KnownRow { call, at: Timestamp::from_ms(part(0, AT_BITS)), admitted, source, remaining };
    (part(AT_BITS, SUBJECT_BITS) as usize, row)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_ms(1_800_000_000_000);

    fn row(call: u64) -> KnownRow {
        let (at, admitted, remaining) = (NOW.plus_ms(call), call.is_multiple_of(2), u64::MAX - call);
        KnownRow { call, at, admitted, source: Source::Local, remaining }
    }

    #[test]
    fn a_row_is_read_as_it_was_added() {
        let (ring, mut list) = (KnownRows::default(), SubjectList::default());
        let mut added = Vec::new();
        for (call, source) in (0..).zip(Source::ALL) {
            let (number, row) = (list.add(&ring, 1, 7), KnownRow { source, ..row(call) });
            assert_eq!(ring.add(NOW, number, row), Some(AddedRow { waiting: added.len() + 1 }));
            added.push((usize::from(number.index), row));
        }
        assert_eq!((ring.rows(ring.added()).collect::<Vec<_>>(), ring.opened_at()), (added, Some(NOW)));
        ring.free(ring.added());
        assert_eq!((ring.waiting(), ring.opened_at()), (0, None));
    }

    #[test]
    fn a_full_ring_takes_no_row_until_some_are_freed() {
        let (ring, mut list) = (KnownRows::default(), SubjectList::default());
        let number = list.add(&ring, 1, 7);
        let fill = |from: u64| (from..u64::MAX).take_while(|call| ring.add(NOW, number, row(*call)).is_some()).count();
        assert_eq!((fill(0), ring.add(NOW, number, row(0))), (KNOWN_ROWS_LEN_MAX, None));
        ring.free(10);
        assert_eq!(fill(KNOWN_ROWS_LEN_MAX as u64), 10);
        let calls: Vec<_> = ring.rows(ring.added()).map(|(_, row)| row.call).collect();
        assert_eq!(calls, (10..10 + KNOWN_ROWS_LEN_MAX as u64).collect::<Vec<_>>());
    }

    #[test]
    fn few_waiting_rows_use_the_same_chunks() {
        let (ring, mut list) = (KnownRows::default(), SubjectList::default());
        let number = list.add(&ring, 1, 7);
        let mut taken = Vec::new();
        for call in 0..20 * CHUNK_LEN as u64 {
            assert!(ring.add(NOW, number, row(call)).is_some());
            if ring.waiting() == CHUNK_LEN + 7 {
                taken.extend(ring.rows(ring.added()).map(|(_, row)| row.call));
                ring.free(CHUNK_LEN + 7);
            }
        }
        assert_eq!(taken, (0..taken.len() as u64).collect::<Vec<_>>());
        assert_eq!(ring.chunks.iter().filter(|chunk| chunk.get().is_some()).count(), 2);
    }

    #[test]
    fn a_subject_ends_with_its_list_and_its_rules() {
        let (ring, mut list) = (KnownRows::default(), SubjectList::default());
        let is_valid = |number| ring.add(NOW, number, row(1)).is_some();
        let (first, of_other_rules) = (list.add(&ring, 1, 7), list.add(&ring, 1, 8));
        assert_eq!((is_valid(first), is_valid(of_other_rules), of_other_rules.index), (false, true, 0));
        for _ in 1..SUBJECTS_LEN_MAX {
            list.add(&ring, 1, 8);
        }
        assert!(is_valid(of_other_rules));
        let of_other_list = list.add(&ring, SUBJECTS_TEXT_BYTES_MAX, 8);
        assert_eq!((is_valid(of_other_rules), is_valid(of_other_list)), (false, true));
        let after_long_text = list.add(&ring, 1, 8);
        assert_eq!((is_valid(of_other_list), is_valid(after_long_text)), (false, true));
        let late = KnownRow { at: Timestamp::from_ms(1 << AT_BITS), ..row(1) };
        assert_eq!(ring.add(NOW, after_long_text, late), None, "a time that no cell can hold");
    }
}
