//! Facts that the event loop passes to the budgets: the demand that it counts, its partitions, and the coordinator.
//!
//! Both threads hold the lock for short times only, so counting never waits for the ledger or the store.

use std::collections::{BTreeSet, HashMap};
use std::mem::take;
use std::sync::Arc;

use parking_lot::Mutex;
use tollgate_aggregator_engine::budget::ledger::COUNTERS_LEN_MAX;
use tollgate_aggregator_engine::budget::region::RegionPartitions;
use tollgate_core::counter::CounterId;
use tollgate_core::messages::calls::{Batch, Outcome, Row};

/// Facts since they were taken last; clones share them.
#[derive(Clone, Debug, Default)]
pub struct RegionFeed(Arc<Mutex<CountedFacts>>);

/// Units that callers have asked for, by counter, with its rule.
pub(super) type OfferedUnits = HashMap<CounterId, (Arc<str>, u64)>;

#[derive(Debug, Default)]
struct CountedFacts {
    /// Rules with a global scope.
    rules: BTreeSet<Arc<str>>,
    offered: OfferedUnits,
    part: Option<RegionPartitions>,
    coordinator: Option<Arc<str>>,
}

impl RegionFeed {
    /// Adds the rows of a batch that was counted for the first time.
    pub(crate) fn count(&self, batch: &Batch) {
        let mut facts = self.0.lock();
        let CountedFacts { rules, offered, .. } = &mut *facts;
        let entries: Vec<_> =
            batch.counters.iter().map(|entry| rules.get(&entry.rule).map(|rule| (entry.id, rule))).collect();
        for row in &batch.rows {
            let Some((id, rule)) = row.counter.and_then(|index| entries[index as usize]) else { continue };
            if offered.len() < COUNTERS_LEN_MAX || offered.contains_key(&id) {
                let counter = offered.entry(id).or_insert_with(|| (rule.clone(), 0));
                counter.1 = counter.1.saturating_add(asked_for(row));
            }
        }
    }

    pub(crate) fn assign(&self, part: RegionPartitions, coordinator: Option<Arc<str>>) {
        let mut facts = self.0.lock();
        (facts.part, facts.coordinator) = (Some(part), coordinator);
    }

    /// Names the rules whose demand is wanted.
    pub(super) fn follow(&self, rules: BTreeSet<Arc<str>>) {
        let mut facts = self.0.lock();
        if facts.rules != rules {
            facts.rules = rules;
        }
    }

    /// Returns the units since the last call, and the partitions; nothing before those are known.
    pub(super) fn take(&self) -> (OfferedUnits, Option<RegionPartitions>) {
        let mut facts = self.0.lock();
        (take(&mut facts.offered), facts.part.clone())
    }

    pub(super) fn coordinator(&self) -> Option<Arc<str>> {
        self.0.lock().coordinator.clone()
    }
}

fn asked_for(row: &Row) -> u64 {
    let counts = row.outcome.is_admitted() || matches!(row.outcome, Outcome::Denied(_));
    if counts { u64::try_from(row.cost).unwrap_or(0) } else { 0 }
}

#[cfg(test)]
mod tests {
    use tollgate_core::clock::Timestamp;
    use tollgate_core::decision::Source;
    use tollgate_core::messages::calls::{BatchName, CounterEntry, DenialCause};
    use tollgate_core::messages::texts::Texts;
    use tollgate_core::window::Window;

    use super::*;

    #[test]
    fn admitted_and_denied_units_of_followed_rules_are_demand() {
        let entry = |id, rule: &str| CounterEntry {
            id: CounterId::from_u128(id),
            rule: rule.into(),
            label: "".into(),
            generation: 1,
            quota: 1,
            window: Window::new(1_000, 1).unwrap(),
        };
        let row = |counter, cost, outcome| Row {
            call: 1,
            counter,
            at: Timestamp::from_ms(1),
            sub_window: 0,
            cost,
            outcome,
            shadow_denied: false,
            source: Source::Store,
            home: None,
        };
        let batch = Batch {
            traces: Vec::new(),
            name: BatchName::default(),
            region: "eu".into(),
            complete_through: Timestamp::from_ms(1),
            counters: vec![entry(1, "global"), entry(2, "own")],
            texts: Texts::default(),
            descriptor_sets: Vec::new(),
            rows: vec![
                row(Some(0), 3, Outcome::Admitted),
                row(Some(0), 4, Outcome::Denied(DenialCause::Count)),
                row(Some(0), 5, Outcome::Charged),
                row(Some(0), 50, Outcome::Spared),
                row(Some(0), -60, Outcome::Charged),
                row(Some(1), 70, Outcome::Charged),
                row(None, 80, Outcome::Admitted),
            ],
        };
        let feed = RegionFeed::default();
        feed.count(&batch);
        assert!(feed.take().0.is_empty(), "no rule is followed yet");
        feed.follow(["global".into()].into());
        feed.count(&batch);
        assert_eq!(feed.take().0, [(CounterId::from_u128(1), ("global".into(), 12))].into());
        assert!(feed.take().0.is_empty(), "units are taken once");
    }
}
