//! Records of a call for the bus: a row for each charge, and rows for later corrections.
//!
//! The rows go to the buffer of the current thread, which returns the round that will publish them.

use std::sync::Arc;

use tollgate_core::call::Call;
use tollgate_core::clock::Timestamp;
use tollgate_core::decision::Source;
use tollgate_core::messages::calls::{DenialCause, Outcome};

use crate::bus::{BufferedRow, KnownRow, OwnHome, RowBuffer, RowOrder, SubjectNumber};
use crate::counters::{ChargedCounter, RoundNumber, UNPUBLISHED};
use crate::engine::{Context, Engine};
use crate::rules::ActiveRules;

/// Row of a call, without its counter.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CallRow {
    pub(crate) call: u64,
    pub(crate) at: Timestamp,
    pub(crate) cost: i64,
    pub(crate) outcome: Outcome,
    /// True if the rule is in shadow and would have denied the call.
    pub(crate) shadow_denied: bool,
    /// Authority of the rule's verdict; on the home row, that of the decision.
    pub(crate) source: Source,
}

/// Data of a call on its home row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CallHome<'a> {
    /// Name of the rule that decided; none if no rule applies.
    pub(crate) decider: Option<&'a str>,
    /// True if a rule in shadow would have denied the call.
    pub(crate) shadow_denied: bool,
    /// Reason for which the call was denied; none if it was admitted.
    pub(crate) denied: Option<DenialCause>,
    /// Units that remained under that rule, if they are known.
    pub(crate) remaining: Option<u64>,
}

impl CallRow {
    pub(crate) fn new(call: u64, at: Timestamp, cost: i64, outcome: Outcome, source: Source) -> Self {
        Self { call, at, cost, outcome, shadow_denied: false, source }
    }
}

impl Engine {
    /// Returns a copy of a call that a request may keep. Without publishing, only the cost is needed.
    pub(crate) fn kept(&self, call: &Call<'_>) -> Call<'static> {
        if self.settings.publishes { call.clone().into_owned() } else { Call::new().costing(call.cost()) }
    }

    /// Publishes a row of a call: a charge on a counter, or the call itself if it has no charges. The home row of the
    /// call names the decider and its authority; a correction has none, because it is no call of its own. Returns the round
    /// that publishes the row.
    pub(crate) fn publish(
        &self,
        context: &Context<'_>,
        call: &Call<'_>,
        counter: Option<ChargedCounter>,
        row: CallRow,
        home: Option<CallHome<'_>>,
    ) -> RoundNumber {
        if !self.settings.publishes {
            return None;
        }
        let round =
            self.bus.rows().add(context.now, |buffer| buffered(buffer, context.active, call, counter, row, home));
        Some(round.unwrap_or(UNPUBLISHED))
    }

    /// Returns the round that publishes a row which is added before this round begins.
    #[inline]
    pub(crate) fn next_round(&self) -> RoundNumber {
        self.settings.publishes.then(|| self.bus.rows().next_round())
    }

    /// Publishes the only row of a call; returns false if it was dropped. For a call that its thread knows, it keeps
    /// the place of the row's subject, so that further rows need not repeat the subject.
    #[inline]
    pub(crate) fn publish_sole(
        &self,
        context: &Context<'_>,
        call: &Call<'_>,
        place: Option<&mut Option<SubjectNumber>>,
        counter: ChargedCounter,
        row: CallRow,
        home: CallHome<'_>,
    ) -> bool {
        if !self.settings.publishes {
            return false;
        }
        let CallRow { call: number, at, outcome, source, .. } = row;
        // Rows of known calls have no place for a trace.
        let place = place.filter(|_| call.trace().is_none());
        if let Some((place, remaining)) = place.as_deref().copied().flatten().zip(home.remaining) {
            let admitted = outcome.is_admitted();
            let row = KnownRow { call: number, at, admitted, source, remaining };
            if self.bus.rows().add_known(context.now, place, row) {
                return true;
            }
        }
        let row = |buffer: &mut RowBuffer| buffered(buffer, context.active, call, Some(counter), row, Some(home));
        let round = match place {
            Some(place) => self.bus.rows().add_subject(context.now, place, row),
            None => self.bus.rows().add(context.now, row),
        };
        round.is_some()
    }
}

fn buffered(
    buffer: &mut RowBuffer,
    active: &Arc<ActiveRules>,
    call: &Call<'_>,
    counter: Option<ChargedCounter>,
    row: CallRow,
    home: Option<CallHome<'_>>,
) -> BufferedRow {
    let CallRow { call: number, at, cost, outcome, shadow_denied, source } = row;
    let descriptors = buffer.add_descriptors(number, call);
    let home = home.map(|CallHome { decider, shadow_denied, denied, remaining }| {
        (OwnHome { shadow_denied, denied, remaining }, decider.map(|decider| buffer.add_texts([decider]).0))
    });
    let rules = buffer.index_of_rules(active);
    let trace = home.and_then(|_| buffer.add_trace(call.trace()?));
    BufferedRow {
        call: number,
        at,
        cost,
        outcome,
        shadow_denied,
        source,
        counter,
        home,
        rules,
        descriptors,
        trace,
        order: RowOrder::default(),
    }
}

/// Returns units as a row holds them.
pub(crate) fn signed(units: u64) -> i64 {
    i64::try_from(units).unwrap_or(i64::MAX)
}
