//! Usage of both regions over real servers, and over a link that stops forwarding.

use serde_json::{Value, json};

use super::regions::{KEY, RegionServers, TwoRegions};
use crate::support::{Client, wait_for};

/// J3, J4: each region shows the usage of both. One that is cut off is unknown until the link is healed.
#[test]
fn the_usage_of_both_regions_is_shown_until_one_is_cut_off() {
    let regions = TwoRegions::start("usage", 1, 10);
    let seen_from = |region: &RegionServers| -> Option<Vec<Value>> {
        call(&regions.home);
        call(&regions.far);
        Some(region.budgets()?["usage"]["rules"][0]["regions"].as_array()?.clone())
    };
    let is_used = |of: &Value| of["used"].as_u64() > Some(0) && of["demand"].as_u64() >= of["used"].as_u64();
    for region in [&regions.home, &regions.far] {
        let shown = wait_for("the usage of both", || seen_from(region).filter(|shown| shown.iter().all(is_used)));
        let names: Vec<&Value> = shown.iter().map(|of| &of["region"]).collect();
        assert_eq!(names, ["eu", "us"]);
    }
    regions.link.set_stopped(true);
    let unknown = json!({ "region": "us", "used": null, "demand": null });
    let shown = wait_for("an unknown region", || seen_from(&regions.home).filter(|shown| shown[1] == unknown));
    assert!(is_used(&shown[0]), "the home region sees itself: {shown:?}");
    wait_for("a region that sees none", || {
        seen_from(&regions.far).filter(|shown| shown.iter().all(|of| of["used"].is_null()))
    });
    regions.link.set_stopped(false);
    for region in [&regions.home, &regions.far] {
        wait_for("both again", || seen_from(region).filter(|shown| shown.iter().all(is_used)));
    }
}

/// Makes one call to each agent of a region.
fn call(region: &RegionServers) {
    for agent in region.agents() {
        Client::connect(agent).expect("it listens").try_check(KEY).expect("an answer");
    }
}
