//! Records of a call for the bus: a row for each charge, and rows for later corrections.
//!
//! The rows go to the [batcher](crate::batcher), which returns the batch that will hold them.

use std::sync::Arc;

use tollgate_core::call::Call;
use tollgate_core::clock::Timestamp;
use tollgate_core::decision::Source;
use tollgate_core::messages::calls::{Home, Outcome, Row};

use crate::decide::Evaluation;
use crate::enforce::Combined;
use crate::engine::{ActiveRules, Engine};
use crate::matched_rule::MatchedRule;
use crate::view::Sequence;

impl Engine {
    /// Returns a copy of a call that a request may keep. Without publishing, only the cost is needed.
    pub(crate) fn kept(&self, call: &Call<'_>) -> Call<'static> {
        if self.settings.publishes { call.clone().into_owned() } else { Call::new().costing(call.cost()) }
    }

    /// Publishes one charge, with the call itself if it is the first. A call without charges has a row, too.
    pub(crate) fn publish(
        &self,
        now: Timestamp,
        call: &Call<'_>,
        evaluation: &Evaluation<'_>,
        combined: &Combined,
        matched: Option<&MatchedRule>,
    ) -> Sequence {
        if !self.settings.publishes {
            return None;
        }
        let outcome = match matched {
            None if combined.allowed => Outcome::Admitted,
            Some(matched) if evaluation.is_admitted(combined, matched) => Outcome::Admitted,
            Some(matched) if combined.shown == Some(matched.position) && !combined.allowed => Outcome::Denied,
            _ => Outcome::Spared,
        };
        let cost = matched.map_or_else(|| call.cost(), |matched| matched.cost);
        let result = matched.and_then(|matched| evaluation.results.get(matched.position));
        let cost = if result.is_some_and(|result| result.repeated) { 0 } else { signed(cost) };
        let row = row(evaluation.number, evaluation.at(), matched, cost, outcome);
        let decider = || combined.shown.map(|shown| evaluation.matched[shown].rule.name.clone());
        let is_home = matched.is_none_or(|matched| matched.position == 0);
        let home = is_home.then(|| (decider(), combined.source));
        self.put(now, call, evaluation.active, matched, row, home)
    }

    /// Publishes a call that was denied without a counter.
    pub(crate) fn publish_rejection(
        &self,
        now: Timestamp,
        call: &Call<'_>,
        evaluation: &Evaluation<'_>,
        by: &Arc<str>,
    ) {
        let row = row(evaluation.number, evaluation.at(), None, signed(call.cost()), Outcome::Denied);
        self.put(now, call, evaluation.active, None, row, Some((Some(by.clone()), Source::Local)));
    }

    /// Publishes a correction of a call. It is no call of its own, so it has no home row.
    pub(crate) fn publish_adjustment(
        &self,
        now: Timestamp,
        call: &Call<'_>,
        active: &ActiveRules,
        matched: &MatchedRule,
        (number, at, cost): (u64, Timestamp, i64),
    ) -> Sequence {
        let row = row(number, at, Some(matched), cost, Outcome::Admitted);
        self.put(now, call, active, Some(matched), row, None)
    }

    fn put(
        &self,
        now: Timestamp,
        call: &Call<'_>,
        active: &ActiveRules,
        matched: Option<&MatchedRule>,
        mut row: Row,
        home: Option<(Option<Arc<str>>, Source)>,
    ) -> Sequence {
        if !self.settings.publishes {
            return None;
        }
        let key = &self.settings.digest_key;
        let placed_by = matched.map_or_else(|| key.call(call.descriptors()), |matched| matched.counter);
        self.batcher.publish(placed_by.partition(self.settings.partitions), now, |batch| {
            let entry = |matched: &MatchedRule| matched.entry(&active.set, &active.set.resolved(call), key);
            let shown = |name: &str, value: &str| key.shown(value, active.set.is_secret(name));
            row.counter = matched.map(|matched| batch.index_of_counter(matched.counter, || entry(matched)));
            row.home = home.map(|(decider, source)| Home {
                descriptors: batch.index_of_set(call, shown),
                decider: decider.map(|decider| batch.index_of_text(&decider, || decider.to_string())),
                source,
            });
            row
        })
    }
}

/// Returns units as a row holds them.
pub(crate) fn signed(units: u64) -> i64 {
    i64::try_from(units).unwrap_or(i64::MAX)
}

fn row(call: u64, at: Timestamp, matched: Option<&MatchedRule>, cost: i64, outcome: Outcome) -> Row {
    let sub_window = matched.map_or(0, |matched| matched.sub_window(at));
    Row { call, counter: None, at, sub_window, cost, outcome, home: None }
}
