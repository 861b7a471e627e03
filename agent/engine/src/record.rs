//! Records of a call for the bus: a row for each charge, and rows for later corrections.
//!
//! The rows go to the [buffer](crate::row_buffer) of the current thread, which returns the round that will publish them.

use tollgate_core::call::Call;
use tollgate_core::clock::Timestamp;
use tollgate_core::decision::Source;
use tollgate_core::messages::calls::Outcome;

use crate::engine::{Context, Engine};
use crate::row_buffer::{BufferedRow, ChargedCounter};
use crate::view::RoundNumber;

/// Row of a call, without its counter.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CallRow {
    pub(crate) call: u64,
    pub(crate) at: Timestamp,
    pub(crate) cost: i64,
    pub(crate) outcome: Outcome,
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
        home: Option<(Option<&str>, Source)>,
    ) -> RoundNumber {
        if !self.settings.publishes {
            return None;
        }
        let CallRow { call: number, at, cost, outcome } = row;
        self.rows.add(context.now, |buffer| BufferedRow {
            call: number,
            at,
            cost,
            outcome,
            counter,
            descriptors: buffer.add_descriptors(number, call),
            home: home.map(|(decider, source)| (source, decider.map(|decider| buffer.add_texts([decider]).0))),
            rules: buffer.index_of_rules(context.active),
        })
    }
}

/// Returns units as a row holds them.
pub(crate) fn signed(units: u64) -> i64 {
    i64::try_from(units).unwrap_or(i64::MAX)
}
