//! The assignment of partitions: assign those that this aggregator owns, revoke those that others count, and detect
//! logs that were recreated.

use tollgate_core::clock::Timestamp;
use tollgate_core::counter::Partition;
use tollgate_core::messages::signals::LogEnd;

use super::Worker;
use super::effects::{WorkerEffect, WorkerNotice};
use super::partition::AssignedPartition;
use crate::counting::Counting;
use crate::membership::PartitionOwner;

/// Interval at which reading positions are compared with the ends of the logs, in ms; each comparison waits for the bus.
const MEASURE_MS: u64 = 5_000;
/// Minimum age of the oldest record that analytics read, in ms: minutes that an owner has not published before it ended.
const ANALYTICS_REPLAY_MS: u64 = 600_000;

impl Worker {
    /// Revokes the partitions that others count, and asks for the log ends of partitions to assign. An aggregator that
    /// shares asks for one at a time, because each answer waits for the bus, and heartbeats must not wait for all of
    /// them.
    pub(super) fn rebalance(&mut self, now: Timestamp, effects: &mut Vec<WorkerEffect>) {
        let shares = self.membership.is_some();
        let mut may_assign = !shares || self.assigning.is_empty();
        // Each round begins with another partition, so that one whose log end is unknown does not delay the others.
        self.turn = (self.turn + 1) % self.partitions;
        for partition in (self.turn..self.partitions).chain(0..self.turn) {
            let owner = self.owner(partition);
            match self.assigned.get_mut(&partition).map(|assigned| assigned.is_kept(owner, now)) {
                None if owner == PartitionOwner::Own && may_assign => {
                    if self.assigning.insert(partition) {
                        effects.push(WorkerEffect::FindLogEnd(partition));
                    }
                    may_assign = !shares;
                }
                Some(false) => {
                    effects.push(WorkerEffect::Notice(WorkerNotice::HandedOver(partition)));
                    self.revoke(partition, effects);
                }
                _ => {}
            }
        }
    }

    /// Asks for the log end of an assigned partition, one in each round, so that no round waits for long.
    pub(super) fn measure(&mut self, now: Timestamp, effects: &mut Vec<WorkerEffect>) {
        if now.ms_since(self.measured_at) >= MEASURE_MS {
            self.measured_at = now;
            self.to_measure = self.assigned.keys().copied().collect();
        }
        let Some(partition) = self.to_measure.pop() else { return };
        if let Some(assigned) = self.assigned.get_mut(&partition) {
            assigned.next_when_asked = assigned.next();
            effects.push(WorkerEffect::FindLogEnd(partition));
        }
    }

    pub(super) fn on_log_end(
        &mut self,
        now: Timestamp,
        partition: Partition,
        end: Option<LogEnd>,
        effects: &mut Vec<WorkerEffect>,
    ) {
        let assigning = self.assigning.remove(&partition);
        let Some(end) = end else {
            // The bus does not answer: the next rebalance or comparison asks again.
            self.to_measure.clear();
            return;
        };
        let owns = self.owns(partition);
        match self.assigned.get_mut(&partition) {
            Some(assigned) => {
                assigned.lag_records = Some(end.next.saturating_sub(assigned.next()));
                // Compared with the position at the question: records may have come before the answer.
                if end.next < assigned.next_when_asked || end.log != assigned.counting.log {
                    effects.push(WorkerEffect::Notice(WorkerNotice::Recreated(partition)));
                    self.revoke(partition, effects);
                }
            }
            None if assigning && owns => self.assign(now, partition, end, effects),
            None => {}
        }
    }

    /// Returns true if a partition is one of this aggregator, assigned or not yet.
    #[must_use]
    pub fn owns(&self, partition: Partition) -> bool {
        self.owner(partition) == PartitionOwner::Own
    }

    fn owner(&self, partition: Partition) -> PartitionOwner {
        self.membership.as_ref().map_or(PartitionOwner::Own, |membership| membership.owner(partition))
    }

    fn assign(&mut self, now: Timestamp, partition: Partition, end: LogEnd, effects: &mut Vec<WorkerEffect>) {
        let counting = Counting::new(end.log, self.settings.counters_max, self.settings.analytics);
        self.assigned.insert(partition, AssignedPartition::new(counting, end.next));
        effects.push(WorkerEffect::Read { partition, since: self.read_since(now) });
    }

    /// Returns the append time of the oldest record to read. The minutes in which an earlier owner ended must be read, too.
    fn read_since(&self, now: Timestamp) -> Option<Timestamp> {
        let since = self.settings.replay_window.start(now)?;
        Some(if self.settings.analytics.is_some() { since.min(now.minus_ms(ANALYTICS_REPLAY_MS)) } else { since })
    }

    fn revoke(&mut self, partition: Partition, effects: &mut Vec<WorkerEffect>) {
        self.assigned.remove(&partition);
        effects.push(WorkerEffect::StopReading(partition));
    }
}
