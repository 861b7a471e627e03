//! What an aggregator does for rules: it reads those that are published on the bus, knows from them how far back its counts
//! reach, and lays them down in Redis, where agents find them while Kafka is away.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::time::timeout;
use tollgate_aggregator::pump::Reach;
use tollgate_bus::{Bus, BusRecord, LogReader, ReadFrom, Topic};
use tollgate_core::clock::Stopwatch;
use tollgate_core::messages::rules::Published;
use tollgate_core::messages::signals::Offset;
use tollgate_core::rules::RuleSet;
use tollgate_redis::RuleMirror;
use tollgate_wire::Record;

/// How long a start waits for the rules that are published already.
const START_WAIT: Duration = Duration::from_secs(2);
const POLL_WAIT: Duration = Duration::from_millis(500);
const RECORDS_MAX: usize = 100;
/// How often the rules are laid down in Redis, which may have lost them.
const LAY_DOWN_EVERY: Duration = Duration::from_secs(5);
const REDIS_WAIT: Duration = Duration::from_millis(500);

/// Reads rules on a thread of its own.
pub(crate) struct Relay {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

struct Work<R> {
    reader: R,
    read_through: Option<Offset>,
    reach: Reach,
    newest: Option<(Offset, Published)>,
    mirror: Option<RuleMirror>,
}

impl Relay {
    /// Starts; what is published already is known when it returns, if the bus answers.
    pub(crate) fn start<B: Bus>(
        bus: &B,
        pinned: Option<&RuleSet>,
        mirror: Option<RuleMirror>,
        reach: &Reach,
    ) -> anyhow::Result<Self> {
        if let Some(rules) = pinned {
            reach.cover(rules);
        }
        let reader = bus.reader(Topic::Rules, &[0], ReadFrom::Oldest);
        let mut work = Work { reader, read_through: None, reach: reach.clone(), newest: None, mirror };
        if let Some(last) = bus.next_offset(Topic::Rules, 0).and_then(|next| next.checked_sub(1)) {
            work.catch_up(last);
        }
        let stop = Arc::new(AtomicBool::new(false));
        let (stopped, runtime) = (stop.clone(), Handle::current());
        let thread = std::thread::Builder::new().name("tollgate-rules".into());
        let thread = thread.spawn(move || work.until(&stopped, &runtime))?;
        Ok(Self { stop, thread })
    }

    pub(crate) fn stop(self) {
        self.stop.store(true, Ordering::Relaxed);
        if self.thread.join().is_err() {
            tracing::error!(
                "the relay of rules had died; agents that start while Kafka is away may find old rules in Redis"
            );
        }
    }
}

impl<R: LogReader> Work<R> {
    fn until(&mut self, stop: &AtomicBool, runtime: &Handle) {
        let mut laid_down: Option<(Offset, Stopwatch)> = None;
        while !stop.load(Ordering::Relaxed) {
            self.read(POLL_WAIT);
            let (Some((generation, published)), Some(mirror)) = (&self.newest, &self.mirror) else { continue };
            let done = |(offset, since): &(Offset, Stopwatch)| offset == generation && since.elapsed() < LAY_DOWN_EVERY;
            if !laid_down.as_ref().is_some_and(done) && runtime.block_on(lay_down(mirror, *generation, published)) {
                laid_down = Some((*generation, Stopwatch::start()));
            }
        }
    }

    /// Reads what is there already. The last record may be one of Kafka's own, which no reader is handed: a poll that brings
    /// nothing is the end, too.
    fn catch_up(&mut self, last: Offset) {
        let started = Stopwatch::start();
        while self.read_through < Some(last) && started.elapsed() < START_WAIT {
            if self.read(POLL_WAIT) == 0 {
                break;
            }
        }
    }

    /// How many records there were.
    fn read(&mut self, wait: Duration) -> usize {
        let records = self.reader.poll(wait, RECORDS_MAX);
        let count = records.len();
        for BusRecord { offset, payload, .. } in records {
            self.read_through = Some(offset);
            let rules = Published::decode(&payload).map_err(|error| error.to_string());
            match rules.and_then(|published| {
                Ok((tollgate_rules::read_published(&published, offset).map_err(|e| e.to_string())?, published))
            }) {
                Ok((rules, published)) => {
                    self.reach.cover(&rules);
                    tracing::info!(generation = offset, file = published.name, "rules are published");
                    self.newest = Some((offset, published));
                }
                Err(error) => tracing::error!(
                    topic = "rules",
                    offset,
                    "published rules cannot be read, older ones stay in force: {error}"
                ),
            }
        }
        count
    }
}

/// Whether the rules are in Redis now.
async fn lay_down(mirror: &RuleMirror, generation: Offset, published: &Published) -> bool {
    timeout(REDIS_WAIT, mirror.publish(Some(generation), published)).await.is_ok_and(|stored| stored.is_ok())
}

#[cfg(test)]
mod tests {
    use tollgate_bus::{LogReader, ReadFrom};
    use tollgate_core::clock::Timestamp;
    use tollgate_core::counter::Partition;

    use super::*;

    /// What each poll brings, and whether it was asked once too often.
    struct Script(Vec<Vec<BusRecord>>);

    impl LogReader for Script {
        fn poll(&mut self, _: Duration, _: usize) -> Vec<BusRecord> {
            assert!(!self.0.is_empty(), "nobody waits any longer");
            self.0.remove(0)
        }

        fn add(&mut self, _: Partition, _: ReadFrom) {}

        fn remove(&mut self, _: Partition) {}

        fn next(&self, _: Partition) -> Option<Offset> {
            None
        }

        fn missed(&self) -> u64 {
            0
        }
    }

    fn record(offset: Offset, text: &str) -> Vec<BusRecord> {
        let payload = Published { name: "rules.yaml".into(), text: text.into() }.encode();
        vec![BusRecord { partition: 0, offset, appended: Timestamp::from_ms(1), payload }]
    }

    /// Follows this script up to a last record; the generation that it knows then.
    fn caught_up(script: Vec<Vec<BusRecord>>, last: Offset) -> Option<Offset> {
        let reader = Script(script);
        let mut work = Work { reader, read_through: None, reach: Reach::default(), newest: None, mirror: None };
        work.catch_up(last);
        assert!(work.reader.0.is_empty(), "all of it is read");
        work.newest.map(|(generation, _)| generation)
    }

    #[test]
    fn a_start_waits_no_longer_than_there_is_something_to_read() {
        assert_eq!(caught_up(vec![record(0, "rules: []"), record(1, "rules: []")], 1), Some(1));
        assert_eq!(caught_up(vec![record(0, "rules: []"), Vec::new()], 1), Some(0), "the last one is not for readers");
        assert_eq!(caught_up(vec![Vec::new()], 1), None, "nor is any");
        assert_eq!(caught_up(vec![record(0, "rules: []"), record(1, "no rules")], 1), Some(0), "broken ones count");
    }
}
