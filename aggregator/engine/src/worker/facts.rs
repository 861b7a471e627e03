//! Facts about a worker, for its shell and for those who ask.

use std::sync::Arc;

use tollgate_core::clock::Timestamp;
use tollgate_core::counter::{CounterId, Partition};

use super::Worker;
use super::agents::Agents;
use super::partition::AssignedPartition;
use crate::membership::Membership;

impl Worker {
    /// Returns the assigned partitions, those included that are being handed over.
    pub fn assigned(&self) -> impl Iterator<Item = (Partition, &AssignedPartition)> {
        self.assigned.iter().map(|(partition, assigned)| (*partition, assigned))
    }

    /// Returns the assigned partitions that are not restored yet, whose reading positions the worker needs.
    pub fn restoring(&self) -> impl Iterator<Item = Partition> {
        self.partitions_where(|assigned| !assigned.counting.restored)
    }

    /// Returns the number of partitions that this aggregator owns and that are not assigned yet.
    #[must_use]
    pub fn unassigned(&self) -> usize {
        (0..self.partitions).filter(|partition| self.owns(*partition) && !self.assigned.contains_key(partition)).count()
    }

    /// Returns the agents that are heard.
    #[must_use]
    pub fn agents(&self) -> &Agents {
        &self.agents
    }

    /// Returns the live aggregators; nothing for one that shares with nobody.
    #[must_use]
    pub fn membership(&self) -> Option<&Membership> {
        self.membership.as_ref()
    }

    /// Returns the name of the live aggregator that coordinates the budgets of regions: the first by name of those that may.
    #[must_use]
    pub fn coordinator(&self) -> Option<&Arc<str>> {
        let own = self.settings.coordinates.then_some(&self.settings.id);
        match &self.membership {
            Some(membership) if !membership.is_settled() => None,
            Some(membership) => membership.coordinating_peers().chain(own).min(),
            None => own,
        }
    }

    /// Returns the number of batches that were counted in a partition of this aggregator; nothing while it is restored.
    #[must_use]
    pub fn batches_counted(&self, partition: Partition) -> Option<u64> {
        let assigned = self.assigned.get(&partition)?;
        (assigned.is_owned() && assigned.counting.restored).then(|| assigned.counting.tally().batches)
    }

    /// Returns the units of a counter that were admitted in the last window; nothing if this aggregator does not count it.
    #[must_use]
    pub fn used(&self, now: Timestamp, counter: CounterId) -> Option<u64> {
        let assigned = self.assigned.get(&counter.partition(self.partitions))?;
        assigned.counting.counter(counter).map(|counter| counter.used(now))
    }

    /// Returns the number of live aggregators, this one included.
    #[must_use]
    pub fn members(&self) -> usize {
        self.membership.as_ref().map_or(1, Membership::members)
    }
}
