//! What an aggregator does for rules: it reads those that are published on the bus, knows from them how far back its counts
//! reach, and lays them down in Redis, where agents find them while Kafka is away.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::time::timeout;
use tollgate::store::{RedisStore, Store};
use tollgate_aggregator::pump::Reach;
use tollgate_common::bus::{Bus, Delivered, From, Reader, Topic};
use tollgate_common::clock::Stopwatch;
use tollgate_common::rule::{Published, RuleSet};
use tollgate_common::signal::Offset;
use tollgate_common::wire::Record;

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
    reach: Reach,
    newest: Option<(Offset, Published)>,
    redis: Option<RedisStore>,
}

impl Relay {
    /// Starts; what is published already is known when it returns, if the bus answers.
    pub(crate) fn start<B: Bus>(
        bus: &B,
        pinned: Option<&RuleSet>,
        redis: Option<RedisStore>,
        reach: &Reach,
    ) -> anyhow::Result<Self> {
        if let Some(rules) = pinned {
            reach.cover(rules);
        }
        let reader = bus.read(Topic::Rules, &[0], From::Oldest);
        let mut work = Work { reader, reach: reach.clone(), newest: None, redis };
        let started = Stopwatch::start();
        let known = bus.next_offset(Topic::Rules, 0).and_then(|next| next.checked_sub(1));
        while known.is_some_and(|last| work.read_through() < Some(last)) && started.elapsed() < START_WAIT {
            work.read(POLL_WAIT);
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

impl<R: Reader> Work<R> {
    fn until(&mut self, stop: &AtomicBool, runtime: &Handle) {
        let mut laid_down: Option<(Offset, Stopwatch)> = None;
        while !stop.load(Ordering::Relaxed) {
            self.read(POLL_WAIT);
            let (Some((generation, published)), Some(redis)) = (&self.newest, &self.redis) else { continue };
            let done = |(offset, since): &(Offset, Stopwatch)| offset == generation && since.elapsed() < LAY_DOWN_EVERY;
            if !laid_down.as_ref().is_some_and(done) && runtime.block_on(lay_down(redis, *generation, published)) {
                laid_down = Some((*generation, Stopwatch::start()));
            }
        }
    }

    fn read(&mut self, wait: Duration) {
        for Delivered { offset, payload, .. } in self.reader.poll(wait, RECORDS_MAX) {
            let rules = Published::decode(&payload).map_err(|error| error.to_string());
            match rules.and_then(|published| Ok((published.read(offset).map_err(|e| e.to_string())?, published))) {
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
    }

    fn read_through(&self) -> Option<Offset> {
        self.newest.as_ref().map(|(offset, _)| *offset)
    }
}

/// Whether the rules are in Redis now.
async fn lay_down(redis: &RedisStore, generation: Offset, published: &Published) -> bool {
    let work = async {
        redis.ping().await.ok()?;
        redis.publish_rules(Some(generation), published).await.ok()
    };
    timeout(REDIS_WAIT, work).await.ok().flatten().is_some()
}
