//! A region whose own bus is away: it keeps the units of its demand, and its aggregator may be replaced meanwhile.

use std::time::Duration;

use tollgate_core::clock::Stopwatch;

use super::world::{QUOTA, World};

/// A demand that nobody hears falls after two seconds, and a grant ends five seconds after its last renewal.
const WINDOW_MS: u64 = 4_000;
const OUTAGE: Duration = Duration::from_secs(7);
/// Units of a region that alone has a demand.
const MOST: u64 = 60;

/// J3: calls that cannot be counted are no missing demand. The units stay for longer than a term, also at a successor that has never
/// heard of the demand and leaves the limit until it has renewed the grant, and after the bus is back.
#[tokio::test(flavor = "multi_thread")]
async fn a_region_keeps_its_units_while_its_bus_is_away() {
    let (mut world, [eu, us]) = (World::new(WINDOW_MS), [0, 1]);
    let _home = world.start(eu, "eu-a", 31, true).await;
    let first = world.start(us, "us-a", 32, false).await;
    world.call_until(us, "us has most units", |world| world.limit(us) >= MOST);

    world.regions[us].bus_link.set_cut(true);
    let keeps = |world: &mut World, case: &str, time: Duration| {
        let waited = Stopwatch::start();
        world.call_until(us, case, |world| {
            assert!(world.limit(us) >= MOST, "{case}: {} units of {QUOTA}", world.limit(us));
            waited.elapsed() >= time
        });
    };
    keeps(&mut world, "the bus is away", OUTAGE);

    drop(first);
    let _second = world.start(us, "us-b", 33, false).await;
    keeps(&mut world, "the successor has heard of no demand", OUTAGE);

    world.regions[us].bus_link.set_cut(false);
    keeps(&mut world, "the bus is back", OUTAGE);
    world.call_until(eu, "the units move to eu", |world| world.limit(eu) >= MOST);
    world.check_windows();
}
