//! A recount of one partition of `calls`, by a plain list of units: the truth that an aggregator's count is compared with.

use std::collections::{BTreeSet, HashMap, HashSet};

use tollgate_bus::Topic;
use tollgate_core::clock::CLOCK_ERROR_MAX_MS;
use tollgate_core::counter::{CounterId, Partition};
use tollgate_core::messages::calls::Batch;
use tollgate_core::messages::signals::{LogId, Offset};
use tollgate_core::window::{Ring, Window};
use tollgate_sim::Simulation;
use tollgate_wire::Record;

/// The distinct batches of a log up to an offset, and their units.
pub(crate) struct Recount {
    pub(crate) log: LogId,
    /// Offset of the next record.
    pub(crate) next: Offset,
    pub(crate) duplicates: usize,
    pub(crate) forged: u64,
    /// Counters of the records that were read last.
    pub(crate) touched: BTreeSet<CounterId>,
    seen: HashSet<(String, u64, u64)>,
    counters: HashMap<CounterId, Recounted>,
}

/// The admitted units of one counter.
struct Recounted {
    window: Window,
    /// True while all batches wrote it with the same window.
    is_uniform: bool,
    units: HashMap<u64, u64>,
    /// Oldest sub-window that matters.
    oldest: u64,
}

impl Recount {
    pub(crate) fn new(log: LogId) -> Self {
        let (seen, counters, touched) = (HashSet::new(), HashMap::new(), BTreeSet::new());
        Self { log, next: 0, duplicates: 0, forged: 0, touched, seen, counters }
    }

    /// Reads the records up to an offset.
    pub(crate) fn read_to(&mut self, sim: &Simulation<'_>, partition: Partition, next: Offset) {
        self.touched.clear();
        let records = sim.bus().records(Topic::Calls, partition);
        while self.next < next {
            let Some(record) = records.get(usize::try_from(self.next).unwrap_or(usize::MAX)) else { return };
            self.next += 1;
            if sim.bus().is_forged(Topic::Calls, partition, record.offset) {
                self.forged += 1;
            } else if let Ok(batch) = Batch::decode(&record.payload) {
                self.count(record.appended.as_ms(), &batch);
            }
        }
    }

    fn count(&mut self, appended_ms: u64, batch: &Batch) {
        if !self.seen.insert((batch.name.agent.to_string(), batch.name.epoch, batch.name.sequence)) {
            self.duplicates += 1;
            return;
        }
        for counter in &batch.counters {
            let window = counter.window;
            let fresh = || Recounted { window, is_uniform: true, units: HashMap::new(), oldest: 0 };
            let recounted = self.counters.entry(counter.id).or_insert_with(fresh);
            recounted.is_uniform &= recounted.window == window;
        }
        for row in batch.rows.iter().filter(|row| row.outcome.is_admitted()) {
            let Some(counter) = row.counter.map(|index| &batch.counters[index as usize]) else { continue };
            let window = counter.window;
            let Some(recounted) = self.counters.get_mut(&counter.id) else { continue };
            let latest = (appended_ms + CLOCK_ERROR_MAX_MS) / window.sub_window_ms();
            let sub_window = row.sub_window.min(latest);
            recounted.oldest = recounted.oldest.max(sub_window.saturating_sub(window.sub_windows().into()));
            let units = recounted.units.entry(sub_window).or_default();
            *units = units.saturating_add_signed(row.cost);
            self.touched.insert(counter.id);
        }
    }

    pub(crate) fn counters(&self) -> impl Iterator<Item = CounterId> {
        self.counters.keys().copied()
    }

    /// Compares a counter with what an aggregator holds of it.
    ///
    /// Excused: a counter whose window changed with the rules, because its units are carried to other sub-windows; and
    /// sub-windows that have left the window before, in case the store's clock stepped back to them.
    pub(crate) fn compare(&self, counter: CounterId, held: Option<&Ring>) -> Result<(), String> {
        let Some(recounted) = self.counters.get(&counter).filter(|recounted| recounted.is_uniform) else {
            return Ok(());
        };
        let Some(ring) = held else {
            // Units that cost nothing, were given back, or have left the window leave nothing to hold.
            let matters = |(at, units): (&u64, &u64)| *units > 0 && *at >= recounted.oldest;
            return if recounted.units.iter().any(matters) {
                Err(format!("{counter} is in the log and in no count"))
            } else {
                Ok(())
            };
        };
        let newest = ring.newest();
        let oldest = newest.saturating_sub(recounted.window.sub_windows().into()).max(recounted.oldest);
        for sub_window in oldest..=newest {
            let (units, truth) = (ring.get(sub_window), recounted.units.get(&sub_window).copied().unwrap_or(0));
            if units != truth {
                return Err(format!("{counter} counts {units} in sub-window {sub_window}, the log holds {truth}"));
            }
        }
        Ok(())
    }
}
