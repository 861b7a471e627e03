//! Restore and hand-over: a count is announced as complete once the log is read to the end that it had at the assignment,
//! and a partition that is counted stays counted until its next owner has restored it.
//!
//! Excused: a gap that follows the end of an aggregator, if the last holder had restored the partition before an
//! announcement of the ended one can have arrived, because it may trust that announcement; and counts of a topic that
//! was recreated, also those of another aggregator that has not noticed it, as long as its announcement may be on its
//! way.

use std::collections::{BTreeMap, BTreeSet};

use tollgate_bus::Topic;
use tollgate_core::clock::Timestamp;
use tollgate_core::counter::Partition;
use tollgate_core::messages::signals::{LogId, Offset};
use tollgate_sim::{Observation, SimNode, Simulation};

/// Maximum time for which an announcement is on its way, in ms.
const ANNOUNCEMENT_MS_MAX: u64 = 2_000;
/// Maximum time for which a record may wait for its owner in a quiet simulation, in ms.
const LAG_MS_MAX: u64 = 500;

/// The partitions of all aggregators.
#[derive(Default)]
pub(crate) struct HandOver {
    held: BTreeMap<(usize, Partition), Held>,
    /// For each partition that is counted, the newest instant at which a holder had restored it, and the log that it counts.
    counted: BTreeMap<Partition, (Timestamp, LogId)>,
    ended_at: Option<Timestamp>,
    /// Instant at which an aggregator last counted a topic that no longer exists, by partition.
    outdated_at: BTreeMap<Partition, Timestamp>,
    pub(crate) restored: usize,
    /// Partitions that two aggregators owned at once.
    pub(crate) doubled: BTreeSet<Partition>,
}

/// A partition that is assigned to an aggregator.
#[derive(Clone, Copy)]
struct Held {
    log: LogId,
    /// End of the log at the assignment.
    end: Offset,
    restored_at: Option<Timestamp>,
}

impl HandOver {
    pub(crate) fn observe(&mut self, now: Timestamp, observation: &Observation<'_>) {
        if let Observation::Ended(SimNode::Aggregator(aggregator)) = observation {
            self.ended_at = Some(now);
            self.held.retain(|(of, _), _| of != aggregator);
        }
    }

    pub(crate) fn check(&mut self, sim: &Simulation<'_>) -> Result<(), String> {
        let (now, mut owned) = (sim.now(), BTreeSet::new());
        for (index, aggregator) in sim.aggregators().iter().enumerate() {
            let Some(worker) = aggregator.worker() else { continue };
            self.held.retain(|(of, partition), _| {
                *of != index || worker.assigned().any(|(assigned, _)| assigned == *partition)
            });
            for (partition, assigned) in worker.assigned() {
                if assigned.is_owned() && assigned.counting.restored && !owned.insert(partition) {
                    self.doubled.insert(partition);
                }
                let end = sim.bus().end(Topic::Calls, partition);
                let held = self.held.entry((index, partition)).or_insert(Held {
                    log: assigned.counting.log,
                    end,
                    restored_at: None,
                });
                if assigned.counting.restored && held.restored_at.is_none() {
                    held.restored_at = Some(now);
                    self.restored += 1;
                    let read = assigned.counting.read.map_or(0, |(offset, _)| offset + 1);
                    if read < held.end && assigned.counting.log == sim.bus().log_id {
                        return Err(format!(
                            "restore: partition {partition} is announced after {read} records of {}",
                            held.end
                        ));
                    }
                }
            }
        }
        self.check_gaps(sim)
    }

    fn check_gaps(&mut self, sim: &Simulation<'_>) -> Result<(), String> {
        let mut counted: BTreeMap<Partition, (Timestamp, LogId)> = BTreeMap::new();
        for ((_, partition), held) in &self.held {
            if let Some(restored_at) = held.restored_at {
                let newest = counted.entry(*partition).or_insert((restored_at, held.log));
                *newest = (restored_at, held.log).max(*newest);
            }
        }
        for ((_, partition), held) in &self.held {
            if held.log != sim.bus().log_id {
                self.outdated_at.insert(*partition, sim.now());
            }
        }
        for (partition, (restored_at, log)) in std::mem::replace(&mut self.counted, counted) {
            let is_recent = |at: &Timestamp| sim.now().ms_since(*at) <= ANNOUNCEMENT_MS_MAX;
            let is_excused = log != sim.bus().log_id
                || self.outdated_at.get(&partition).is_some_and(is_recent)
                || self.ended_at.is_some_and(|ended_at| ended_at.plus_ms(ANNOUNCEMENT_MS_MAX) >= restored_at);
            if !is_excused && !self.counted.contains_key(&partition) {
                return Err(format!("hand-over: nobody counts partition {partition} any more"));
            }
        }
        Ok(())
    }

    /// Checks that each partition has one owner, which counts up to the end of the log.
    pub(crate) fn finish(sim: &Simulation<'_>) -> Result<(), String> {
        for partition in 0..sim.bus().partitions {
            let owners: Vec<_> = (sim.aggregators().iter())
                .filter_map(|aggregator| aggregator.worker()?.assigned().find(|(assigned, _)| *assigned == partition))
                .map(|(_, assigned)| assigned)
                .filter(|assigned| assigned.is_owned() && assigned.counting.restored)
                .collect();
            let [owner] = owners[..] else {
                return Err(format!("hand-over: partition {partition} has {} owners in the end", owners.len()));
            };
            let next = owner.counting.read.map_or(0, |(offset, _)| offset + 1);
            let records = sim.bus().records(Topic::Calls, partition);
            let unread = records.get(usize::try_from(next).unwrap_or(usize::MAX));
            if unread.is_some_and(|record| sim.now().ms_since(record.appended) > LAG_MS_MAX) {
                return Err(format!("hand-over: partition {partition} is counted up to {next} of {}", records.len()));
            }
        }
        Ok(())
    }
}
