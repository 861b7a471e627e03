//! Collects the rows of the stripes in the order in which their calls added them, for the publishing thread.
//!
//! It keeps the subjects of each stripe, as the rows of a buffer, and passes each row with its subject. A row that
//! makes a subject known says how many rows of known calls came before it, so that each of these finds its subject in
//! the list of its time.

use std::sync::atomic::Ordering;

use super::buffer::{BatchedSubject, BufferedRow, OwnValues, RowBuffer};
use super::row_stripes::RowBuffers;
use crate::report::STRIPES;

/// Maximum number of rows of known calls whose places are freed at once.
const FREED_LEN: usize = 256;

pub(crate) struct RowCollector {
    /// Buffer that is exchanged for a full one.
    empty: RowBuffer,
    subjects: Box<[Subjects]>,
}

#[derive(Default)]
struct Subjects {
    /// One row of each subject.
    rows: RowBuffer,
    batched: Vec<BatchedSubject>,
}

impl Default for RowCollector {
    fn default() -> Self {
        Self { empty: RowBuffer::default(), subjects: (0..STRIPES).map(|_| Subjects::default()).collect() }
    }
}

impl RowCollector {
    /// Takes the rows of a stripe, and passes each to a function. The function gets the buffer of the subject, the
    /// subject, the row's own values, and the numbers that are kept of the subject. Returns the number of rows.
    pub(crate) fn collect(
        &mut self,
        rows: &RowBuffers,
        stripe: usize,
        mut add: impl FnMut(&RowBuffer, &BufferedRow, OwnValues, &mut BatchedSubject),
    ) -> usize {
        let through = rows.take(stripe, &mut self.empty);
        let subjects = &mut self.subjects[stripe];
        let mut taken = self.empty.rows.len();
        for row in &self.empty.rows {
            taken += collect_known(rows, stripe, row.order.after, subjects, &mut add);
            let mut batched = BatchedSubject::default();
            add(&self.empty, row, row.into(), &mut batched);
            if let Some(index) = row.order.subject {
                if index == 0 {
                    subjects.rows.clear();
                    subjects.batched.clear();
                }
                subjects.rows.add_subject(&self.empty, row);
                subjects.batched.push(batched);
            }
        }
        taken += collect_known(rows, stripe, through, subjects, &mut add);
        self.empty.clear();
        taken
    }
}

/// Takes the rows of known calls up to the one of this number. Returns the number of rows.
fn collect_known(
    rows: &RowBuffers,
    stripe: usize,
    through: usize,
    subjects: &mut Subjects,
    add: &mut impl FnMut(&RowBuffer, &BufferedRow, OwnValues, &mut BatchedSubject),
) -> usize {
    let known = rows.known_rows(stripe);
    let mut taken = 0;
    loop {
        let mut len = 0;
        for (subject, row) in known.rows(through).take(FREED_LEN) {
            let Subjects { rows, batched } = &mut *subjects;
            add(rows, &rows.rows[subject], row.into(), &mut batched[subject]);
            len += 1;
        }
        if len == 0 {
            return taken;
        }
        taken += len;
        rows.taken_rows.fetch_add(len, Ordering::Release);
        known.free(len);
    }
}
