//! The usage of all regions, as an aggregator shows it.

use serde_json::{Value, json};
use tollgate_bus::{Bus, LogWriter, Topic};
use tollgate_core::counter::DigestKey;
use tollgate_core::window::Window;

use super::region_store::FLOOR;
use super::world::{OWN_RULE, QUOTA, World, regions_of};
use crate::support::get;

/// J2, J3: the usage of all regions is shown for global and for regional rules, and a region that is silent becomes unknown.
#[tokio::test(flavor = "multi_thread")]
async fn the_usage_of_all_regions_is_shown_for_both_scopes() {
    const CALLS: [(usize, u64, bool); 3] = [(0, 3, true), (0, 1, false), (1, 2, true)];
    let (mut world, [eu, us]) = (World::new(super::WINDOW_MS), [0, 1]);
    let own = DigestKey::default().counter(OWN_RULE, ["client"]);
    let hour = Window::new(3_600_000, 10).expect("a window");
    let first = world.start(eu, "eu-a", 31, true).await;
    let other = world.start(us, "us-a", 32, false).await;
    for (region, count, is_admitted) in CALLS {
        let now = world.clock.now();
        (0..count).for_each(|_| world.regions[region].publish(OWN_RULE, own, hour, now, is_admitted));
    }
    let of = |region: &str, used: u64, demand: u64| json!({ "region": region, "used": used, "demand": demand });
    let unknown = json!({ "region": "us", "used": null, "demand": null });
    let of_own = || regions_of(first.http)["usage"]["rules"][1].clone();
    let all = [of("eu", 15, 20), of("us", 10, 10)];
    world.call_until(eu, "the usage of both regions", |_| of_own()["regions"] == json!(all));
    let shown = of_own();
    assert_eq!((&shown["used"], &shown["demand"]), (&25.into(), &30.into()), "{shown}");
    assert_eq!(
        (&shown["scope"], &shown["quota"], &shown["over_regions"]),
        (&"regional".into(), &50.into(), &100.into())
    );
    let largest = &shown["counters"][0];
    assert_eq!((&largest["id"], &largest["label"]), (&own.to_string().into(), &"api_key=client".into()));
    assert_eq!((&largest["used"], &largest["regions"]), (&25.into(), &json!(all)));

    world.call_until(eu, "the budget of a counter", |world| {
        let of_global = &get(first.http, "/counters?rule=global")["counters"][0];
        of_global["quota"] == FLOOR && of_global["budget"] == world.limit(eu)
    });
    let of_global = &regions_of(first.http)["usage"]["rules"][0];
    assert_eq!((&of_global["scope"], &of_global["over_regions"]), (&"global".into(), &QUOTA.into()), "{of_global}");
    assert!(of_global["regions"][eu]["demand"].as_u64() > of_global["regions"][eu]["used"].as_u64(), "{of_global}");
    assert_eq!(get(first.http, "/counters?rule=own")["counters"][0]["budget"], Value::Null);

    world.ledger.writer(Topic::Usage).append(0, b"no record".to_vec(), 0).expect("the queue has room");
    let metrics = first.part.metrics();
    for expected in [
        r#"tollgate_regions_used_units{rule="own",region="us"} 10"#,
        r#"tollgate_regions_demand_units{rule="own",region="eu"} 20"#,
        r#"tollgate_regions_usage_age_seconds{region="us"} "#,
        r#"tollgate_dead_letters_total{topic="usage",reader="aggregator"} 1"#,
    ] {
        world.call_until(eu, expected, |_| metrics().contains(expected));
    }
    let moves: u64 = metrics()
        .lines()
        .find_map(|line| line.strip_prefix("tollgate_regions_moves_total ")?.parse().ok())
        .expect("a number");
    assert!(moves > 0);

    drop(other);
    world.call_until(eu, "a silent region is unknown", |_| of_own()["regions"][us] == unknown);
    let shown = regions_of(first.http)["usage"].clone();
    assert_eq!((&shown["regions"][eu]["known"], &shown["regions"][us]["known"]), (&true.into(), &false.into()));
    assert!(shown["regions"][us]["age_ms"].as_u64() >= shown["unknown_after_ms"].as_u64(), "{shown}");
    assert_eq!(of_own()["used"], 15, "the sum of the regions that are known");
    world.call_until(eu, "no units of an unknown region", |_| !metrics().contains(r#"units{rule="own",region="us"}"#));

    let _again = world.start(us, "us-a", 33, false).await;
    world.call_until(eu, "the restored usage", |_| of_own()["regions"] == json!(all));
}
