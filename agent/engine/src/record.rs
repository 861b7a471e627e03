//! Records of a call for the bus: a row for each charge, and rows for later corrections.
//!
//! The rows go to the [batcher](crate::batcher), which returns the batch that will hold them.

use std::sync::Arc;

use tollgate_core::call::Call;
use tollgate_core::clock::Timestamp;
use tollgate_core::decision::Source;
use tollgate_core::messages::calls::{Home, Outcome, Row};

use crate::engine::{Context, Engine};
use crate::matched_rule::MatchedRule;
use crate::view::Sequence;

impl Engine {
    /// Returns a copy of a call that a request may keep. Without publishing, only the cost is needed.
    pub(crate) fn kept(&self, call: &Call<'_>) -> Call<'static> {
        if self.settings.publishes { call.clone().into_owned() } else { Call::new().costing(call.cost()) }
    }

    /// Publishes a row of a call: a charge under a matched rule, or the call itself if it has no charges. The home row of the
    /// call names the decider and its authority; a correction has none, because it is no call of its own.
    pub(crate) fn publish(
        &self,
        context: &Context<'_>,
        call: &Call<'_>,
        matched: Option<&MatchedRule<'_>>,
        mut row: Row,
        home: Option<(Option<&Arc<str>>, Source)>,
    ) -> Sequence {
        if !self.settings.publishes {
            return None;
        }
        let (key, set) = (&self.settings.digest_key, &context.active.set);
        let placed_by = matched.map_or_else(|| key.call(call.descriptors()), |matched| matched.counter);
        self.batcher.publish(placed_by.partition(self.settings.partitions), context.now, |batch| {
            let entry = |matched: &MatchedRule<'_>| matched.entry(set, &set.resolved(call), key);
            let shown = |name: &str, value: &str| key.shown(value, set.is_secret(name));
            row.counter = matched.map(|matched| batch.index_of_counter(matched.counter, || entry(matched)));
            row.sub_window = matched.map_or(0, |matched| matched.policy.window.sub_window(row.at));
            row.home = home.map(|(decider, source)| Home {
                descriptors: batch.index_of_set(call, shown),
                decider: decider.map(|decider| batch.index_of_text(decider, || decider.to_string())),
                source,
            });
            row
        })
    }
}

/// Returns the row of a charge, without its counter.
pub(crate) fn row(call: u64, at: Timestamp, cost: i64, outcome: Outcome) -> Row {
    Row { call, counter: None, at, sub_window: 0, cost, outcome, home: None }
}

/// Returns units as a row holds them.
pub(crate) fn signed(units: u64) -> i64 {
    i64::try_from(units).unwrap_or(i64::MAX)
}
