//! A home cluster that does not answer the question for the identity of the ledger.

use std::time::Duration;

use tollgate_aggregator::regions::{HomeBuses, RegionBuses};
use tollgate_core::clock::Stopwatch;

use super::WINDOW_MS;
use super::renamed_bus::RenamedBus;
use super::world::{QUOTA, World};

/// Units of a region that alone has a demand.
const MOST: u64 = 60;
/// Longest time in which units move to the demand: the demand is measured, the units leave the window, and some ticks.
const MOVED: Duration = Duration::from_secs(6);

/// J4: the region gives its units to the other one while a question for the identity waits.
#[tokio::test(flavor = "multi_thread")]
async fn a_region_waits_for_no_identity_of_the_ledger() {
    let (mut world, [eu, us]) = (World::new(WINDOW_MS), [0, 1]);
    let home = RenamedBus::new(&world.ledger, 1);
    let ledger = HomeBuses { home: home.clone(), mirror: Some(RenamedBus::new(&world.ledger, 2)) };
    let buses = RegionBuses { usage: ledger.clone(), ledger };
    let _coordinator = world.start(eu, "eu-a", 51, true).await;
    let _far = world.start_on(&buses, WINDOW_MS, (us, "us-a"), 52, false).await;
    world.call_until(us, "us has most units", |world| world.limit(us) >= MOST);

    let silence = home.silence();
    world.call_until(us, "a question waits", |_| home.waited() > 0);
    for (busy, awaited) in [(eu, "the units move to eu"), (us, "the units move to us")] {
        let moved = Stopwatch::start();
        world.call_until(busy, awaited, |world| world.limit(busy) >= MOST);
        assert!(moved.elapsed() < MOVED, "{awaited}: {:?}", moved.elapsed());
        assert!(world.limit(eu) + world.limit(us) <= QUOTA);
    }
    assert_eq!(home.waited(), 1, "the question still waits");
    drop(silence);
    world.check_windows();
}
