//! The rows of one stripe since the last round, whole, with their texts.

use std::sync::Arc;

use tollgate_core::call::Call;
use tollgate_core::clock::Timestamp;
use tollgate_core::counter::Partition;
use tollgate_core::decision::Source;
use tollgate_core::messages::calls::{DenialCause, Outcome};
use tollgate_core::trace_context::TraceContext;

use crate::bus::known_rows::KnownRow;
use crate::counters::ChargedCounter;
use crate::rules::ActiveRules;

/// Capacity that an empty buffer keeps: rows, texts for each of them, and bytes of text for each.
const ROWS_LEN_KEPT: usize = 4_096;
const TEXTS_PER_ROW_KEPT: usize = 4;
const TEXT_BYTES_PER_ROW_KEPT: usize = 64;

#[derive(Debug, Default)]
pub(crate) struct RowBuffer {
    pub(crate) rows: Vec<BufferedRow>,
    pub(crate) rules: Vec<Arc<ActiveRules>>,
    /// Texts of all rows, one behind the other, and where each ends.
    text: String,
    ends: Vec<usize>,
    traces: Vec<TraceContext>,
    pub(super) opened_at: Option<Timestamp>,
}

/// A row without dictionaries.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BufferedRow {
    pub(crate) call: u64,
    pub(crate) at: Timestamp,
    pub(crate) cost: i64,
    pub(crate) outcome: Outcome,
    pub(crate) shadow_denied: bool,
    pub(crate) source: Source,
    pub(crate) counter: Option<ChargedCounter>,
    /// On the home row, its own values, and the index of the decider's name among the texts.
    pub(crate) home: Option<(OwnHome, Option<usize>)>,
    pub(crate) rules: usize,
    /// Indexes of the first name and behind the last value of the call's descriptors among the texts.
    pub(crate) descriptors: (usize, usize),
    /// On the home row of a sampled request, the index of its trace.
    pub(crate) trace: Option<u32>,
    pub(crate) order: RowOrder,
}

/// Place of a row among those of [known calls](crate::bus::known_rows).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RowOrder {
    /// Number of rows of known calls that came before.
    pub(super) after: usize,
    /// Index, in its list, of the subject that the row makes known.
    pub(super) subject: Option<u16>,
}

/// Numbers by which rows of one subject name its values in an open batch. The batcher keeps them here.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct BatchedSubject {
    pub(crate) partition: Partition,
    /// Number of the batch, of the subject's partition; 0 for none.
    pub(crate) sequence: u64,
    pub(crate) counter: Option<u32>,
    pub(crate) descriptors: u32,
    pub(crate) decider: Option<u32>,
}

/// The part of a row in which it differs from other rows of its subject.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OwnValues {
    pub(crate) call: u64,
    pub(crate) at: Timestamp,
    pub(crate) outcome: Outcome,
    pub(crate) shadow_denied: bool,
    pub(crate) source: Source,
    pub(crate) home: Option<OwnHome>,
    /// On the home row of a sampled request, the index of its trace in the buffer of the row.
    pub(crate) trace: Option<u32>,
}

/// Values of a home row in which it differs from other rows of its subject.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OwnHome {
    /// True if a rule in shadow would have denied the call.
    pub(crate) shadow_denied: bool,
    /// Reason for which the call was denied; none if it was admitted.
    pub(crate) denied: Option<DenialCause>,
    /// Units that remained under the deciding rule, if they are known.
    pub(crate) remaining: Option<u64>,
}

impl From<&BufferedRow> for OwnValues {
    fn from(row: &BufferedRow) -> Self {
        let BufferedRow { call, at, outcome, shadow_denied, source, home, trace, .. } = *row;
        Self { call, at, outcome, shadow_denied, source, home: home.map(|(own, _)| own), trace }
    }
}

impl From<KnownRow> for OwnValues {
    /// The rows of known calls are their home rows.
    fn from(row: KnownRow) -> Self {
        let KnownRow { call, at, admitted, source, remaining } = row;
        let denied = (!admitted).then_some(DenialCause::Count);
        let outcome = denied.map_or(Outcome::Admitted, Outcome::Denied);
        let home = Some(OwnHome { shadow_denied: false, denied, remaining: Some(remaining) });
        Self { call, at, outcome, shadow_denied: false, source, home, trace: None }
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

    /// Adds a trace and returns its index; nothing past the last index.
    pub(crate) fn add_trace(&mut self, trace: TraceContext) -> Option<u32> {
        let index = u32::try_from(self.traces.len()).ok()?;
        self.traces.push(trace);
        Some(index)
    }

    pub(crate) fn trace(&self, index: u32) -> Option<TraceContext> {
        self.traces.get(index as usize).copied()
    }

    pub(crate) fn index_of_rules(&mut self, rules: &Arc<ActiveRules>) -> usize {
        if self.rules.last().is_none_or(|last| !Arc::ptr_eq(last, rules)) {
            self.rules.push(rules.clone());
        }
        self.rules.len() - 1
    }

    pub(crate) fn text(&self, index: usize) -> &str {
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.text[start..self.ends[index]]
    }

    pub(crate) fn descriptors(&self, row: &BufferedRow) -> impl Iterator<Item = (&str, &str)> + Clone {
        let (first, end) = row.descriptors;
        (first..end).step_by(2).map(|index| (self.text(index), self.text(index + 1)))
    }

    /// Adds the subject of a row of another buffer, as a row of its own.
    pub(super) fn add_subject(&mut self, buffer: &Self, row: &BufferedRow) {
        let descriptors = self.add_texts(buffer.descriptors(row).flat_map(|(name, value)| [name, value]));
        let decider = |index| self.add_texts([buffer.text(index)]).0;
        let home = row.home.map(|(own, index)| (own, index.map(decider)));
        let rules = self.index_of_rules(&buffer.rules[row.rules]);
        self.rows.push(BufferedRow { home, rules, descriptors, trace: None, ..*row });
    }

    pub(super) fn text_bytes(&self) -> usize {
        self.text.len()
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
        self.traces.clear();
        self.traces.shrink_to(ROWS_LEN_KEPT);
        self.opened_at = None;
    }
}
