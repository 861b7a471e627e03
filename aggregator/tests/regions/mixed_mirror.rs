//! A mirror of the ledger that goes on with the entries of a ledger that was created again.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tollgate_aggregator::regions::{HomeBuses, RegionBuses};
use tollgate_bus::embedded::EmbeddedBus;
use tollgate_bus::{Bus, BusError, ReadFrom, Topic};
use tollgate_core::clock::Stopwatch;
use tollgate_core::counter::Partition;
use tollgate_core::messages::signals::{LogId, Offset};

use super::WINDOW_MS;
use super::region_store::FLOOR;
use super::world::{World, regions_of};

/// Units of a region that alone has a demand.
const MOST: u64 = 60;

/// Bus whose topics get another identity by hand.
#[derive(Clone)]
struct RenamedBus {
    bus: EmbeddedBus,
    log: Arc<AtomicU64>,
}

impl RenamedBus {
    fn new(bus: &EmbeddedBus, log: u64) -> Self {
        Self { bus: bus.clone(), log: Arc::new(AtomicU64::new(log)) }
    }

    fn recreate(&self) {
        self.log.fetch_add(100, Ordering::Relaxed);
    }
}

impl Bus for RenamedBus {
    type Writer = <EmbeddedBus as Bus>::Writer;
    type Reader = <EmbeddedBus as Bus>::Reader;

    fn prepare(&self, wait: Duration) -> Result<(), BusError> {
        self.bus.prepare(wait)
    }

    fn partitions(&self, topic: Topic) -> u32 {
        self.bus.partitions(topic)
    }

    fn log_id(&self, _: Topic) -> LogId {
        self.log.load(Ordering::Relaxed)
    }

    fn writer(&self, topic: Topic) -> Self::Writer {
        self.bus.writer(topic)
    }

    fn reader(&self, topic: Topic, partitions: &[Partition], from: ReadFrom) -> Self::Reader {
        self.bus.reader(topic, partitions, from)
    }

    fn next_offset(&self, topic: Topic, partition: Partition) -> Option<Offset> {
        self.bus.next_offset(topic, partition)
    }
}

/// J3: the region names the remedy, and uses nothing that it reads in such a mirror. It takes part again once the mirror was created again.
#[tokio::test(flavor = "multi_thread")]
async fn a_region_takes_no_part_by_a_mirror_of_two_ledgers() {
    let (mut world, [eu, us]) = (World::new(WINDOW_MS), [0, 1]);
    let (home, mirror) = (RenamedBus::new(&world.ledger, 1), RenamedBus::new(&world.ledger, 2));
    let ledger = HomeBuses { home: home.clone(), mirror: Some(mirror.clone()) };
    let buses = RegionBuses { usage: ledger.clone(), ledger };
    let _coordinator = world.start(eu, "eu-a", 41, true).await;
    let far = world.start_on(&buses, WINDOW_MS, (us, "us-a"), 42, false).await;
    let error = || regions_of(far.http)["ledger"]["error"].as_str().map(str::to_owned);
    world.call_until(us, "us has most units", |world| world.limit(us) >= MOST);
    // Two comparisons have seen the first identity.
    let seen = Stopwatch::start();
    world.call_until(us, "the identities are known", |_| seen.elapsed() >= Duration::from_secs(11));
    assert_eq!(error(), None);

    home.recreate();
    world.call_until(us, "the mirror is shown as mixed", |_| error().is_some());
    let said = error().expect("an error");
    assert!(said.contains("delete the mirrored topic"), "{said}");
    world.call_until(us, "it does not act", |_| regions_of(far.http)["ledger"]["read_to_end"] == false);
    world.call_until(us, "the term has ended", |world| world.limit(us) == FLOOR);

    mirror.recreate();
    world.call_until(us, "us takes part again", |world| world.limit(us) >= MOST);
    assert_eq!(error(), None);
    world.check_windows();
}
