//! The thread of the usage: reads the records of all regions, and reports the counters of this aggregator.
//!
//! It is apart from the thread of the budgets, so that no limit waits for it. It counts in slices, so that no signal waits for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tollgate_aggregator_engine::usage::OwnUsage;
use tollgate_bus::{Bus, BusRecord, LogReader, LogWriter, ReadFrom, Topic};
use tollgate_core::clock::{Clock, Timestamp};
use tollgate_core::counter::Partition;
use tollgate_core::messages::ledger::Region;
use tollgate_core::messages::usage::{UsageOfRule, UsageRecord};
use tollgate_wire::Record;

use super::dead_entries::DeadEntries;
use super::home_buses::HomeBuses;
use super::metrics::RegionMetrics;
use super::role_settings::RegionRoleSettings;
use super::usage_state::UsageState;
use crate::queries::{AggregatorState, Queries};

/// Interval of records while calls are counted, in ms.
const WRITE_MS: u64 = 1_000;
/// Interval of records while none are, in ms. It is below the age at which a region is unknown.
const REPEAT_MS: u64 = 5_000;
/// Number of counters for which a record comes each second. With more counters, records come less often: one counter takes about 150 ns.
const COUNTERS_PER_S: u64 = 200_000;
const POLL_WAIT: Duration = Duration::from_millis(200);
/// Maximum number of records that one poll takes.
const RECORDS_MAX: usize = 1_000;
/// Maximum number of counters that are looked at between two rounds of the event loop.
const SLICE_LEN_MAX: usize = 2_000;

pub(super) struct UsageLoop<B: Bus> {
    region: Region,
    writer_id: u64,
    reader: B::Reader,
    writer: B::Writer,
    /// True while the last record is not acknowledged. Further ones would only wait behind it.
    is_waiting: bool,
    queries: Queries,
    runtime: Handle,
    state: Arc<Mutex<UsageState>>,
    metrics: RegionMetrics,
    dead_entries: DeadEntries,
    clock: Arc<dyn Clock>,
    looked_at: Timestamp,
    written_at: Option<Timestamp>,
    /// Own partitions with the number of their counted rows, as the last record contains them.
    written: Vec<(Partition, u64)>,
}

impl<B: Bus> UsageLoop<B> {
    /// Creates the loop inside a tokio runtime.
    pub(super) fn new(
        settings: &RegionRoleSettings,
        buses: &HomeBuses<B>,
        queries: Queries,
        state: Arc<Mutex<UsageState>>,
        metrics: RegionMetrics,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self {
            region: settings.region.clone(),
            writer_id: settings.writer(),
            reader: buses.source().reader(Topic::Usage, &[0], ReadFrom::Next),
            writer: buses.home.writer(Topic::Usage),
            is_waiting: false,
            queries,
            runtime: Handle::current(),
            state,
            dead_entries: DeadEntries::new(Topic::Usage, settings.dead_letters.clone(), metrics.dead_letters.clone()),
            metrics,
            looked_at: clock.now(),
            clock,
            written_at: None,
            written: Vec::new(),
        }
    }

    pub(super) fn run(&mut self, stop: &AtomicBool) {
        while !stop.load(Ordering::Relaxed) {
            let records = self.reader.poll(POLL_WAIT, RECORDS_MAX);
            let now = self.clock.now();
            self.read(now, &records);
            if now.ms_since(self.looked_at) >= WRITE_MS {
                self.looked_at = now;
                self.metrics.show_usage(now, &self.state.lock());
                self.write(now, stop);
            }
        }
    }

    fn read(&mut self, now: Timestamp, records: &[BusRecord]) {
        for record in records {
            let decoded = UsageRecord::decode(&record.payload).map_err(|error| error.to_string());
            let read = decoded.and_then(|usage| {
                let is_read = self.state.lock().view.read(now, usage);
                if is_read { Ok(()) } else { Err("there are too many regions or writers".to_owned()) }
            });
            if let Err(reason) = read {
                self.dead_entries.keep(now, record, reason);
            }
        }
    }

    /// Appends a record if calls were counted since the last one, or that one is old.
    fn write(&mut self, now: Timestamp, stop: &AtomicBool) {
        self.is_waiting &= self.writer.reports().is_empty();
        let Some((counted, counters)) = self.ask(own_partitions).filter(|(own, _)| !self.is_waiting && !own.is_empty())
        else {
            return;
        };
        let interval_ms = if counted == self.written { REPEAT_MS } else { interval_ms(counters) };
        if self.written_at.is_some_and(|at| now.ms_since(at) < interval_ms) {
            return;
        }
        let Some(rules) = self.count(&counted, stop) else { return };
        let record = UsageRecord {
            region: self.region.clone(),
            writer: self.writer_id,
            at: now,
            partitions: counted.iter().map(|(partition, _)| *partition).collect(),
            rules,
        };
        if self.writer.append(0, record.encode(), 0).is_ok() {
            (self.is_waiting, self.written_at, self.written) = (true, Some(now), counted);
        }
    }

    /// Returns the usage of the counters of these partitions; nothing if the event loop does not answer, or this thread is to end.
    fn count(&self, partitions: &[(Partition, u64)], stop: &AtomicBool) -> Option<Vec<UsageOfRule>> {
        let rules = self.state.lock().rules.shown();
        let mut usage = OwnUsage::of(rules.iter().map(|rule| rule.name.clone()));
        for (partition, _) in partitions {
            let mut place = Some(0);
            while let Some(from) = place {
                if stop.load(Ordering::Relaxed) {
                    return None;
                }
                let partition = *partition;
                (usage, place) = self.ask(move |state| count_slice(state, partition, from, usage))?;
            }
        }
        Some(usage.into_rules())
    }

    fn ask<T: Send + 'static>(&self, answer: impl FnOnce(&AggregatorState<'_>) -> T + Send + 'static) -> Option<T> {
        self.runtime.block_on(self.queries.ask(answer)).ok()
    }
}

/// Returns the partitions that this aggregator counts, each with the number of its rows, and the number of all counters.
fn own_partitions(state: &AggregatorState<'_>) -> (Vec<(Partition, u64)>, u64) {
    let own = state.worker.assigned().filter(|(_, assigned)| assigned.is_owned() && assigned.counting.restored);
    let tallies: Vec<_> = own.map(|(partition, assigned)| (partition, assigned.counting.tally())).collect();
    let counters = tallies.iter().map(|(_, tally)| tally.counters as u64).sum();
    (tallies.into_iter().map(|(partition, tally)| (partition, tally.rows)).collect(), counters)
}

/// Returns the minimum interval of records of so many counters, in ms. The loop itself looks once a second.
fn interval_ms(counters: u64) -> u64 {
    (counters * WRITE_MS / COUNTERS_PER_S).min(REPEAT_MS)
}

/// Adds the next counters of a partition. Returns the place of those that follow, if there are any. A counter that moves meanwhile
/// may be left out or added twice.
fn count_slice(
    state: &AggregatorState<'_>,
    partition: Partition,
    from: usize,
    mut usage: OwnUsage,
) -> (OwnUsage, Option<usize>) {
    let Some((_, assigned)) = state.worker.assigned().find(|(number, _)| *number == partition) else {
        return (usage, None);
    };
    let mut counters = assigned.counting.counters().skip(from);
    counters.by_ref().take(SLICE_LEN_MAX).for_each(|counter| usage.add(state.now, counter));
    let next = counters.next().map(|_| from + SLICE_LEN_MAX);
    (usage, next)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_of_many_counters_come_less_often() {
        for (counters, expected) in [(0, 0), (10_000, 50), (200_000, 1_000), (600_000, 3_000), (50_000_000, REPEAT_MS)]
        {
            assert_eq!(interval_ms(counters), expected, "{counters}");
        }
    }
}
