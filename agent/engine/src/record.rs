//! What the outbox gets of a call: a row for each charge, and what is said of it afterwards.

use std::sync::Arc;

use tollgate_core::call::Call;
use tollgate_core::clock::Timestamp;
use tollgate_core::decision::Source;
use tollgate_core::messages::calls::{Outcome, Row};

use crate::batcher::Publish;
use crate::decide::Asked;
use crate::enforce::Combined;
use crate::engine::{ActiveRules, Engine};
use crate::match_rules::MatchedRule;
use crate::view::Sequence;

impl Engine {
    /// Publishes one charge, with the call itself if it is the first; a call without charge is a row, too.
    pub(crate) fn publish(
        &self,
        now: Timestamp,
        call: &Call<'_>,
        asked: &Asked<'_>,
        settled: &Combined,
        charge: Option<&MatchedRule>,
    ) -> Sequence {
        let taken = charge.and_then(|charge| asked.answers.get(charge.place));
        let outcome = match charge {
            // What is counted for each call may have been charged although the call was denied.
            Some(charge)
                if taken.is_some_and(|taken| taken.charged && (taken.verdict.admitted || charge.is_lenient())) =>
            {
                Outcome::Admitted
            }
            _ if settled.allowed => Outcome::Admitted,
            Some(charge) if settled.shown == Some(charge.place) => Outcome::Denied,
            _ => Outcome::Spared,
        };
        let cost = charge.map_or_else(|| call.cost(), |charge| charge.cost);
        let cost = if taken.is_some_and(|taken| taken.repeated) { 0 } else { signed(cost) };
        let row = row(asked.number, asked.at(), charge, cost, outcome);
        let decider = || settled.shown.map(|shown| asked.charges[shown].rule.name.clone());
        let is_home = charge.is_none_or(|charge| charge.place == 0);
        let home = is_home.then(|| (call, decider(), settled.source));
        self.put(now, call, asked.active, charge, row, home)
    }

    /// Publishes a call that was denied by other right than a count.
    pub(crate) fn publish_denial(&self, now: Timestamp, call: &Call<'_>, asked: &Asked<'_>, by: &Arc<str>) {
        let row = row(asked.number, asked.at(), None, signed(call.cost()), Outcome::Denied);
        self.put(now, call, asked.active, None, row, Some((call, Some(by.clone()), Source::Local)));
    }

    /// Publishes what is said of a call afterwards. It is no call of its own, so it has no home row.
    pub(crate) fn publish_amendment(
        &self,
        now: Timestamp,
        call: &Call<'_>,
        active: &ActiveRules,
        charge: &MatchedRule,
        (number, at, cost): (u64, Timestamp, i64),
    ) -> Sequence {
        let row = row(number, at, Some(charge), cost, Outcome::Admitted);
        self.put(now, call, active, Some(charge), row, None)
    }

    fn put(
        &self,
        now: Timestamp,
        call: &Call<'_>,
        active: &ActiveRules,
        charge: Option<&MatchedRule>,
        row: Row,
        home: Option<(&Call<'_>, Option<Arc<str>>, Source)>,
    ) -> Sequence {
        if !self.settings.publishes {
            return Sequence::Unknown;
        }
        let key = &self.settings.digest_key;
        let placed_by = charge.map_or_else(|| key.call(call.descriptors()), |charge| charge.counter);
        let publish = Publish { counter: charge.map(|charge| (charge.counter, charge)), row, home };
        let entry = |charge: &MatchedRule| charge.entry(&active.set, &active.set.resolved(call), key);
        let shown = |name: &str, value: &str| key.shown(value, active.set.is_secret(name));
        self.batcher.publish(placed_by.partition(self.settings.partitions), now, publish, entry, shown)
    }
}

/// Units as a row holds them.
pub(crate) fn signed(units: u64) -> i64 {
    i64::try_from(units).unwrap_or(i64::MAX)
}

fn row(call: u64, at: Timestamp, charge: Option<&MatchedRule>, cost: i64, outcome: Outcome) -> Row {
    let sub_window = charge.map_or(0, |charge| charge.sub_window(at));
    Row { call, counter: None, at, sub_window, cost, outcome, home: None }
}
