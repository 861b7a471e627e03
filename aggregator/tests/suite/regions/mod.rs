//! Two regions over one ledger: budgets follow the demand, the coordinator is replaced, and no window holds more than the quota.

use serde_json::Value;
use tollgate_bus::{Bus, LogReader, LogWriter, ReadFrom, Topic};
use tollgate_core::clock::Stopwatch;

use region_store::{FLOOR, counter};
use world::{PATIENCE, PAUSE, QUOTA, World, regions_of};

mod region_store;
pub(crate) mod world;
mod bus_outage;
mod usage;
mod renamed_bus;
mod mixed_mirror;
mod silent_home;

const WINDOW_MS: u64 = 1_000;

/// J3: a budget moves to the demand and back, also after the coordinator's end.
#[tokio::test(flavor = "multi_thread")]
async fn a_budget_follows_the_demand_and_survives_its_coordinator() {
    const MOST: u64 = 60;
    let (mut world, [eu, us]) = (World::new(WINDOW_MS), [0, 1]);
    let first = world.start(eu, "eu-a", 11, true).await;
    let second = world.start(eu, "eu-b", 12, true).await;
    let _third = world.start(us, "us-a", 13, false).await;
    world.call_until(eu, "eu has most units", |world| world.limit(eu) >= MOST);
    assert_eq!(world.limit(us), FLOOR);
    world.call_until(us, "the units move to us", |world| world.limit(us) >= MOST);
    assert!(world.limit(eu) <= QUOTA - MOST);
    assert_eq!(regions_of(second.http)["coordinator"], "eu-a");

    drop(first);
    world.call_until(us, "the other one coordinates", |_| regions_of(second.http)["coordinator"] == "eu-b");
    world.call_until(eu, "the units move back to eu", |world| world.limit(eu) >= MOST);
    world.check_windows();

    let shown = regions_of(second.http);
    let of_counter = &shown["counters"][0];
    assert_eq!((&of_counter["quota"], &of_counter["label"]), (&QUOTA.into(), &"api_key=client".into()));
    assert_eq!(of_counter["id"], counter().to_string());
    let held: Vec<u64> =
        [eu, us].iter().map(|of| of_counter["regions"][*of]["held"].as_u64().expect("units")).collect();
    assert!(held[eu] >= MOST && held.iter().sum::<u64>() <= QUOTA, "{shown}");
    assert!(of_counter["regions"][eu]["age_ms"].is_u64(), "{shown}");
    assert_eq!(shown["rules"][0]["floors"]["us"], FLOOR);
}

/// J3: a region whose rules have another window than the ledger would spend units in another one. It asks for none, and says so.
#[tokio::test(flavor = "multi_thread")]
async fn a_region_with_another_window_has_its_floor() {
    let (mut world, [eu, us]) = (World::new(WINDOW_MS), [0, 1]);
    let _coordinator = world.start(eu, "eu-a", 31, true).await;
    let other = world.start_within(2 * WINDOW_MS, (us, "us-a"), 32, false).await;
    let error = |shown: &Value| shown["rules"][0]["error"].as_str().map(str::to_owned);
    world.call_until(us, "the terms are known", |_| error(&regions_of(other.http)).is_some());
    let said = error(&regions_of(other.http));
    assert_eq!(said.as_deref(), Some("its window is 2 s in the rules of this region, and 1 s in the ledger"));
    let waited = Stopwatch::start();
    world.call_until(us, "some calls", |_| waited.elapsed().as_secs() >= 2);
    assert_eq!(world.limit(us), FLOOR);
    assert_eq!(regions_of(other.http)["matched"], 0, "nothing is asked for");
    world.call_until(eu, "eu takes part", |world| world.limit(eu) > FLOOR);
    world.check_windows();
}

/// A region without its store asks for nothing that it cannot use, and takes part again afterwards. Records that are no entries
/// change nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_was_away_and_undecodable_records_lose_nothing() {
    let (mut world, [eu, _]) = (World::new(WINDOW_MS), [0, 1]);
    world.regions[eu].store.set_away(true);
    world.ledger.writer(Topic::Ledger).append(0, b"no entry".to_vec(), 0).expect("the queue has room");
    let only = world.start(eu, "eu-a", 21, true).await;
    let mut entries = world.ledger.reader(Topic::Ledger, &[0], ReadFrom::Next);
    world.call_until(eu, "the failure is shown", |_| regions_of(only.http)["store_error"].is_string());
    let waited = Stopwatch::start();
    while entries.poll(PAUSE, 1).is_empty() {
        assert!(waited.elapsed() < PATIENCE, "no terms came");
    }
    assert_eq!(world.limit(eu), FLOOR);
    world.regions[eu].store.set_away(false);
    world.call_until(eu, "the units are granted", |world| world.limit(eu) > FLOOR);
    let shown = regions_of(only.http);
    assert_eq!((&shown["store_error"], &shown["ledger"]["void"]), (&Value::Null, &0.into()));
    world.check_windows();
}
