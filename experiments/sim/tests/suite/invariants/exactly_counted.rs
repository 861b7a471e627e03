//! exactly-counted: each count of each aggregator, and each signal, equals the distinct batches in the log.
//!
//! Counts that are being restored are compared, too, with the part of the log that they have read. Excused: counters past
//! the cap of a partition, counters whose window changed, and counts of a log that was recreated, until their owner notices.

use std::collections::BTreeMap;

use tollgate_aggregator_engine::counting::Counting;
use tollgate_aggregator_engine::worker::{AssignedPartition, Worker};
use tollgate_core::counter::Partition;
use tollgate_core::messages::signals::SignalBatch;
use tollgate_sim::{Observation, SimNode, Simulation};

use super::recount::Recount;

/// Interval at which all counters of a count are compared and not only those that changed, in ms.
const WHOLE_INTERVAL_MS: u64 = 1_000;

/// A recount beside each count.
#[derive(Default)]
pub(crate) struct ExactlyCounted {
    recounts: BTreeMap<(usize, Partition), Recount>,
    published: Vec<(usize, SignalBatch)>,
    whole_at: u64,
    pub(crate) compared: usize,
    pub(crate) duplicates: usize,
}

impl ExactlyCounted {
    pub(crate) fn observe(&mut self, observation: &Observation<'_>) {
        match observation {
            Observation::Ended(SimNode::Aggregator(ended)) => {
                self.recounts.retain(|(aggregator, _), _| aggregator != ended);
            }
            Observation::Published(aggregator, batch) => self.published.push((*aggregator, batch.clone())),
            _ => {}
        }
    }

    pub(crate) fn check(&mut self, sim: &Simulation<'_>) -> Result<(), String> {
        let now = sim.now().as_ms();
        let is_whole = now >= self.whole_at;
        if is_whole {
            self.whole_at = now + WHOLE_INTERVAL_MS;
        }
        self.check_counts(sim, is_whole)?;
        for (aggregator, batch) in std::mem::take(&mut self.published) {
            self.check_signals(sim, aggregator, &batch)?;
        }
        Ok(())
    }

    pub(crate) fn finish(&mut self, sim: &Simulation<'_>) -> Result<(), String> {
        self.check_counts(sim, true)
    }

    fn check_counts(&mut self, sim: &Simulation<'_>, is_whole: bool) -> Result<(), String> {
        for (aggregator, one) in sim.aggregators().iter().enumerate() {
            let Some(worker) = one.worker() else { continue };
            self.recounts.retain(|(of, partition), _| {
                *of != aggregator || worker.assigned().any(|(assigned, _)| assigned == *partition)
            });
            for (partition, assigned) in worker.assigned() {
                let counting = &assigned.counting;
                if counting.log != sim.bus().log_id {
                    self.recounts.remove(&(aggregator, partition));
                    continue;
                }
                self.check_count(sim, (aggregator, partition), counting, is_whole)?;
            }
        }
        Ok(())
    }

    fn check_count(
        &mut self,
        sim: &Simulation<'_>,
        key: (usize, Partition),
        counting: &Counting,
        is_whole: bool,
    ) -> Result<(), String> {
        let next = counting.read.map_or(0, |(offset, _)| offset + 1);
        let recount = self.recounts.entry(key).or_insert_with(|| Recount::new(counting.log));
        if next == recount.next && !is_whole {
            return Ok(());
        }
        let before = recount.duplicates;
        recount.read_to(sim, key.1, next);
        self.duplicates += recount.duplicates - before;
        self.compared += 1;
        let wrong = |what: String| format!("exactly-counted: aggregator {}, partition {}: {what}", key.0, key.1);
        if counting.tally().dead_letters != recount.forged {
            return Err(wrong(format!("{} dead letters of {}", counting.tally().dead_letters, recount.forged)));
        }
        // Past the cap rows are only tallied, and a counter that finds a place later lacks its earlier ones.
        if counting.tally().uncounted > 0 {
            return Ok(());
        }
        for counter in counting.counters() {
            if is_whole || recount.touched.contains(&counter.id) {
                recount.touched.remove(&counter.id);
                recount.compare(counter.id, Some(&counter.admitted)).map_err(wrong)?;
            }
        }
        if is_whole {
            let held: std::collections::HashSet<_> = counting.counters().map(|counter| counter.id).collect();
            recount.touched.extend(recount.counters().filter(|counter| !held.contains(counter)).collect::<Vec<_>>());
        }
        for counter in &recount.touched {
            recount.compare(*counter, None).map_err(wrong)?;
        }
        Ok(())
    }

    /// Compares the signals of a batch, if the recount is still where the batch says that it counted to.
    fn check_signals(&self, sim: &Simulation<'_>, aggregator: usize, batch: &SignalBatch) -> Result<(), String> {
        let mut assigned = sim.aggregators()[aggregator].worker().into_iter().flat_map(Worker::assigned);
        let is_whole = |assigned: &AssignedPartition| assigned.counting.tally().uncounted == 0;
        if !assigned.any(|(partition, assigned)| partition == batch.partition && is_whole(assigned)) {
            return Ok(());
        }
        let Some(recount) = self.recounts.get(&(aggregator, batch.partition)) else { return Ok(()) };
        if (recount.log, recount.next) != (batch.log, batch.as_of + 1) {
            return Ok(());
        }
        for signal in &batch.signals {
            recount.compare(signal.counter, Some(&signal.admitted)).map_err(|what| {
                format!("exactly-counted: a signal of aggregator {aggregator}, partition {}: {what}", batch.partition)
            })?;
        }
        Ok(())
    }
}
