//! The way of published rules from the bus to Redis, where agents find them while Kafka is unavailable.
//!
//! A thread reads the topic `rules`. Each rule set that it reads widens the replay window, so that a restore reads enough of
//! the log. The copy is repeated every few seconds, because Redis may lose it. Access to Redis is in
//! [`tollgate_redis::RuleMirror`].

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::time::timeout;
use tollgate_aggregator_engine::replay_window::ReplayWindow;
use tollgate_bus::{Bus, BusRecord, LogReader, ReadFrom, Topic};
use tollgate_core::clock::{Stopwatch, Timestamp};
use tollgate_core::messages::rules::{PublicationOrder, Published};
use tollgate_core::messages::signals::Offset;
use tollgate_core::rules::RuleSet;
use tollgate_redis::RuleMirror;
use tollgate_wire::Record;

use crate::regions::GlobalRules;
use crate::rules_reader::NewestRules;

/// Maximum time for which a start waits for rules that were published earlier.
const START_WAIT: Duration = Duration::from_secs(2);
const POLL_WAIT: Duration = Duration::from_millis(500);
/// Maximum number of records that one poll takes.
const RECORDS_MAX: usize = 100;
/// Interval at which unchanged rules are copied again.
const COPY_INTERVAL: Duration = Duration::from_secs(5);
const COPY_WAIT: Duration = Duration::from_millis(500);

/// Copies published rules from the bus to Redis, on a thread of its own, which ends when this is dropped.
pub struct RuleCopier {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

struct RulesTopic<R> {
    reader: R,
    replay_window: ReplayWindow,
    global_rules: Option<GlobalRules>,
    /// Rules that the page shows; none if rules are pinned.
    shown: Option<NewestRules>,
    publications: PublicationOrder,
    newest: Option<(Offset, Timestamp, Published)>,
}

impl RuleCopier {
    /// Starts the thread inside a tokio runtime. If the bus answers, the rules that were published before are known
    /// when this returns. Pinned rules only widen the replay window, and
    /// are then the global ones and those that are `shown`; without a mirror, nothing is copied.
    ///
    /// # Errors
    /// Fails if the system provides no thread.
    pub fn start<B: Bus>(
        bus: &B,
        pinned: Option<&RuleSet>,
        mirror: Option<RuleMirror>,
        replay_window: &ReplayWindow,
        global_rules: Option<&GlobalRules>,
        shown: &NewestRules,
    ) -> std::io::Result<Self> {
        if let Some(rules) = pinned {
            shown.set(rules.clone());
            replay_window.cover(rules);
            if let Some(global) = global_rules {
                global.set(rules);
            }
        }
        // Pinned rules are those that the agents enforce.
        let global_rules = global_rules.filter(|_| pinned.is_none()).cloned();
        let reader = bus.reader(Topic::Rules, &[0], ReadFrom::Oldest);
        let shown = pinned.is_none().then(|| shown.clone());
        let mut topic = RulesTopic {
            reader,
            replay_window: replay_window.clone(),
            global_rules,
            shown,
            publications: PublicationOrder::default(),
            newest: None,
        };
        if let Some(last) = bus.next_offset(Topic::Rules, 0).and_then(|next| next.checked_sub(1)) {
            topic.catch_up(last);
        }
        let stop = Arc::new(AtomicBool::new(false));
        let (stopped, runtime) = (stop.clone(), Handle::current());
        let run = move || topic.copy_until(&stopped, mirror.as_ref(), &runtime);
        let thread = Builder::new().name("tollgate-rules".into()).spawn(run)?;
        Ok(Self { stop, thread: Some(thread) })
    }
}

impl Drop for RuleCopier {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            tracing::error!(
                "the thread that copies rules to Redis panicked; agents that start while Kafka is unavailable may find old rules there"
            );
        }
    }
}

impl<R: LogReader> RulesTopic<R> {
    fn copy_until(&mut self, stop: &AtomicBool, mirror: Option<&RuleMirror>, runtime: &Handle) {
        let mut copied: Option<(Offset, Stopwatch)> = None;
        while !stop.load(Ordering::Relaxed) {
            self.read();
            let (Some((generation, at, published)), Some(mirror)) = (&self.newest, mirror) else { continue };
            let fresh = |(offset, since): &(Offset, Stopwatch)| offset == generation && since.elapsed() < COPY_INTERVAL;
            if copied.as_ref().is_some_and(fresh) {
                continue;
            }
            // Redis that is unavailable is logged by its connection; the next round copies again.
            if let Ok(Ok(stored)) =
                runtime.block_on(async { timeout(COPY_WAIT, mirror.copy(*generation, Some(*at), published)).await })
            {
                if stored > *generation && copied.is_none_or(|(before, _)| before != *generation) {
                    tracing::warn!(
                        stored,
                        generation,
                        key = mirror.key(),
                        "Redis holds newer rules than the topic, and agents follow those: rules were published to Redis alone, or the topic was recreated; delete the key in Redis, and restart the agents without their state directories"
                    );
                }
                copied = Some((*generation, Stopwatch::start()));
            }
        }
    }

    /// Reads the records that are in the log already. The last one may be the bus's own record, which readers do not get, so
    /// an empty poll also means the end.
    fn catch_up(&mut self, last: Offset) {
        let started = Stopwatch::start();
        while started.elapsed() < START_WAIT && self.read().is_some_and(|read| read < last) {}
    }

    /// Reads once; returns the offset of the last record, if there is one.
    fn read(&mut self) -> Option<Offset> {
        let mut read = None;
        for BusRecord { offset, appended, payload, .. } in self.reader.poll(POLL_WAIT, RECORDS_MAX) {
            read = Some(offset);
            let published = Published::decode(&payload).map_err(|error| error.to_string());
            if published.as_ref().is_ok_and(|published| !self.publications.accept(offset, published)) {
                continue;
            }
            match published.and_then(|published| parse(published, offset)) {
                Ok((rules, published)) => {
                    self.replay_window.cover(&rules);
                    if let Some(global) = &self.global_rules {
                        global.set(&rules);
                    }
                    if let Some(shown) = &self.shown {
                        shown.set(rules);
                    }
                    tracing::info!(generation = offset, file = published.name, "rules are published");
                    self.newest = Some((offset, appended, published));
                }
                Err(error) => tracing::error!(
                    topic = "rules",
                    offset,
                    "published rules are invalid and ignored; the previous ones stay in force: {error}"
                ),
            }
        }
        read
    }
}

fn parse(published: Published, offset: Offset) -> Result<(RuleSet, Published), String> {
    let rules = tollgate_rules::read_published(&published, offset).map_err(|problems| problems.to_string())?;
    Ok((rules, published))
}

#[cfg(test)]
mod tests {
    use tollgate_bus::embedded::EmbeddedBus;
    use tollgate_core::clock::SystemClock;
    use tollgate_core::counter::Partition;

    use super::*;

    /// The records of each poll.
    struct ScriptedReader(Vec<Vec<BusRecord>>);

    impl LogReader for ScriptedReader {
        fn poll(&mut self, _: Duration, _: usize) -> Vec<BusRecord> {
            assert!(!self.0.is_empty(), "one poll too many");
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
        let payload = Published::new("rules.yaml", text).encode();
        vec![BusRecord { partition: 0, offset, appended: Timestamp::from_ms(1), payload }]
    }

    /// Reads polls up to a last record; returns the generation that is known then.
    fn caught_up(polls: Vec<Vec<BusRecord>>, last: Offset) -> Option<Offset> {
        let reader = ScriptedReader(polls);
        let replay_window = ReplayWindow::default();
        let publications = PublicationOrder::default();
        let mut topic =
            RulesTopic { reader, replay_window, global_rules: None, shown: None, publications, newest: None };
        topic.catch_up(last);
        assert!(topic.reader.0.is_empty(), "all polls are used");
        topic.newest.map(|(generation, ..)| generation)
    }

    #[tokio::test]
    async fn a_copier_that_is_dropped_ends_its_thread() {
        let bus = EmbeddedBus::new(Arc::new(SystemClock::start()), 1);
        let copier = RuleCopier::start(&bus, None, None, &ReplayWindow::default(), None, &NewestRules::default())
            .expect("a thread");
        let shared_with_thread = copier.stop.clone();
        drop(copier);
        assert_eq!(Arc::strong_count(&shared_with_thread), 1);
    }

    #[test]
    fn a_start_reads_the_published_rules_and_waits_no_longer() {
        let cases = [
            ("all", vec![record(0, "rules: []"), record(1, "rules: []")], 1, Some(1)),
            ("the last record is not for readers", vec![record(0, "rules: []"), vec![]], 1, Some(0)),
            ("no record is for readers", vec![vec![]], 1, None),
            ("an invalid one is read, too", vec![record(0, "rules: []"), record(1, "no rules")], 1, Some(0)),
        ];
        for (name, polls, last, generation) in cases {
            assert_eq!(caught_up(polls, last), generation, "{name}");
        }
    }
}
