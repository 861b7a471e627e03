//! A mirror of the ledger that goes on with the entries of a ledger that was created again.

use std::time::Duration;

use tollgate_aggregator::regions::{HomeBuses, RegionBuses};
use tollgate_core::clock::Stopwatch;

use super::WINDOW_MS;
use super::region_store::FLOOR;
use super::renamed_bus::RenamedBus;
use super::world::{World, regions_of};

/// Units of a region that alone has a demand.
const MOST: u64 = 60;

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
