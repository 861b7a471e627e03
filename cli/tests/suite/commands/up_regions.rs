//! `tollgate up --regions`, and the switches of its regions.

use std::net::SocketAddr;

use serde_json::{Value, json};

use super::tokens::{JWKS, TOKEN};
use crate::support::{Client, Up, file, finish, tollgate, wait_for};

/// Rules of two regions, each with a floor of 10 units.
const TWO: &str =
    "regions: { eu: {}, us: {} }\nrules: [{ name: per-key, per: [api_key], quota: 1000/s, scope: global }]";

fn start(count: &str, args: &[&str]) -> Up {
    Up::of(tollgate(&["up", "--http", "127.0.0.1:0", "--regions", count]).args(args))
}

fn regions(up: &Up, args: &[&str]) -> (i32, String, String) {
    let done = finish(&mut tollgate(&[&["regions", "--aggregator", &up.url()], args].concat()));
    (done.exit, done.out, done.err)
}

/// Returns the address of a region, from the lines that are not read yet.
pub(crate) fn address_of(up: &mut Up, region: &str) -> SocketAddr {
    let prefix = format!("region {region}: http://");
    let mut addresses = std::iter::from_fn(|| Some(up.line())).filter_map(|line| {
        let rest = line.strip_prefix(&prefix)?;
        rest.split([' ', ',']).next()?.parse().ok()
    });
    addresses.next().expect("it is named")
}

/// Returns the units that a region holds of the only counter; none before it is in the ledger.
fn held(up: &Up, region: &str) -> Option<u64> {
    let body: Value = up.client().get("/regions", &[]).json();
    let regions = body["counters"].as_array()?.first()?["regions"].as_array()?.clone();
    regions.iter().find(|held| held["region"] == region)?["held"].as_u64()
}

/// The first look: calls pass at once in each region, and each line fits a terminal.
#[test]
fn the_built_in_rules_admit_calls_in_each_region_at_once() {
    for (count, floor) in [(2, 30), (3, 20), (8, 7)] {
        let mut up = start(&count.to_string(), &[]);
        let mut lines: Vec<String> = (0..count + 4).map(|_| up.line()).collect();
        let tries = lines.split_off(count);
        for (line, name) in lines.iter().zip(["eu", "us", "ap", "sa", "af", "me", "in", "au"]) {
            let address = line.strip_prefix(&format!("region {name}: http://"));
            let address = address.and_then(|rest| rest.strip_suffix(&format!(", which always has {floor} of 100/min")));
            let mut client = Client::connect(address.expect(line).parse().expect(line)).expect("it listens");
            assert_eq!([(); 5].map(|()| client.check("k").status), [200; 5], "{line}");
        }
        let url = up.url();
        let expected = [
            format!("try: curl -i {url}/check -H 'x-api-key: k1'"),
            format!("     more than {floor} times: the region gets further units within seconds"),
            format!("     tollgate regions --aggregator {url}"),
            format!("     tollgate regions cut us --aggregator {url}"),
        ];
        assert_eq!(tries, expected);
        assert!(lines.iter().chain(&tries).all(|line| line.len() <= 80), "{lines:?} {tries:?}");
    }
}

/// J3: the budget follows the calls, and an operator moves it.
#[test]
fn budgets_follow_the_calls_and_the_operator() {
    let rules = file("up-move.yaml", TWO);
    let up = start("2", &["--link-delay", "5ms", "--rules", rules.to_str().unwrap()]);
    let mut client = up.client();
    // Calls come until the process ends: a region without demand would give its units back.
    let mut calling = up.client();
    std::thread::spawn(move || while calling.try_check("k").is_some() {});
    // The region comes to hold many times its floor of 10 units.
    wait_for("units of eu", || held(&up, "eu").filter(|held| *held >= 100));
    let (exit, table, _) = regions(&up, &[]);
    assert_eq!(exit, 0);
    for expected in ["region", "held", "coordinator: aggregator-eu", " eu ", " us "] {
        assert!(table.contains(expected), "{expected}: {table}");
    }
    // J2, J3: the usage of all regions beside the budgets.
    let used = |region: usize| {
        let body: Value = up.client().get("/regions", &[]).json();
        body["usage"]["rules"][0]["regions"][region]["used"].as_u64()
    };
    wait_for("the usage of both regions", || used(0).zip(used(1)));
    let (_, table, _) = regions(&up, &[]);
    for expected in ["usage in the last window, which limits nothing", "used by region", "demand", " all "] {
        assert!(table.contains(expected), "{expected}: {table}");
    }
    assert!(table.lines().all(|line| line.chars().count() <= 80), "{table}");
    // J2: the explanation of an agent has the budget, its demand, its moves and its age.
    client.send("POST", "/explain", &[], r#"{"descriptors":{"api_key":"k"}}"#);
    let explained = client.receive().json()["rules"][0].clone();
    assert!(explained["budget"].as_u64().is_some_and(|units| units >= 10), "{explained}");
    assert!(explained["demand"].as_u64() >= Some(100) && explained["budget_moves"].as_u64() > Some(0), "{explained}");
    assert!(explained["budget_age_ms"].as_u64().is_some_and(|age_ms| age_ms < 60_000), "{explained}");
    let (exit, said, _) = regions(&up, &["move", "eu", "us"]);
    let moved = "eu gives back its units beside its floors (counters: 1), once they have left its window,\nand us asks for them; after one term the demand decides again";
    assert_eq!((exit, said.trim_end()), (0, moved));
    // J2: the counters of a region have its budget.
    let counter = up.client().get("/counters", &[]).json()["counters"][0].clone();
    assert!(counter["budget"].as_u64().is_some_and(|units| units >= 10), "{counter}");
    assert!(counter["budget_moves"].as_u64() > Some(0) && counter["budget_age_ms"].is_u64(), "{counter}");
    assert!(counter["demand"].as_u64() >= counter["admitted"].as_u64(), "{counter}");
    // Nobody calls in us: its units are those of eu.
    wait_for("units of us, and the floor of eu", || {
        let (eu, us) = (held(&up, "eu")?, held(&up, "us")?);
        (eu == 10 && us >= 100).then_some(())
    });
}

/// J4: a region that is cut off has its floor; it asks for units as soon as the link is healed.
#[test]
fn a_link_is_cut_and_healed() {
    let rules = file("up-cut.yaml", TWO);
    let mut up = start("2", &["--link-delay", "5ms", "--rules", rules.to_str().unwrap()]);
    let healthy = regions(&up, &["heal", "us"]).1;
    assert_eq!(healthy.trim_end(), "us was not cut off from the ledger");
    let cut = regions(&up, &["cut", "us"]).1;
    assert_eq!(
        cut.trim_end(),
        "us is cut off from the ledger: it keeps its units until their term ends, and then its floors"
    );
    let again: Value = serde_json::from_str(&regions(&up, &["cut", "us", "--format", "json"]).1).expect("JSON");
    assert_eq!(again, json!({ "region": "us", "cut": true, "was_cut": true }));
    let mut client = Client::connect(address_of(&mut up, "us")).expect("it listens");
    let admitted = (0..100).filter(|_| client.check("k").status == 200).count();
    assert!((10..=20).contains(&admitted), "{admitted} of 100 calls in one or two windows pass by a floor of 10");
    assert_eq!(held(&up, "us"), None, "no request arrives");
    let healed = regions(&up, &["heal", "us"]).1;
    assert_eq!(healed.trim_end(), "us reaches the ledger again, and asks for units as its demand is");
    wait_for("units of us", || {
        (0..50).for_each(|_| drop(client.check("k")));
        held(&up, "us").filter(|held| *held >= 100)
    });
}

/// F3, last-good: changed rules are in force in all regions and in the ledger. Invalid ones change nothing.
#[test]
fn rules_are_reloaded_in_all_regions() {
    let rules = |quota: &str| {
        let rule = format!("{{ name: per-key, per: [api_key], quota: {quota}, scope: global }}");
        file("up-reload.yaml", &format!("regions: {{ a: {{ floor: 10% }}, b: {{ floor: 10% }} }}\nrules: [{rule}]"))
    };
    let mut up = start("2", &["--rules", rules("1000/s").to_str().unwrap()]);
    let (mut log, addresses) = (up.log(), [up.address, address_of(&mut up, "b")]);
    let quota_is = |quota: u64| {
        for address in addresses {
            let mut client = Client::connect(address).expect("it listens");
            wait_for("the terms in the ledger, and the floor", || {
                let rule = client.get("/regions", &[]).json()["rules"][0].clone();
                let limit: u64 = client.check("k").header("x-ratelimit-limit").parse().expect("a number");
                (rule["quota"] == quota && rule["floors"]["b"] == quota / 10 && limit >= quota / 10).then_some(())
            });
        }
    };
    quota_is(1_000);
    rules("4000/s");
    up.signal("HUP");
    assert!(log.any(|line| line.contains("SIGHUP: reading the files with rules and keys again")));
    quota_is(4_000);
    rules("0/s");
    let mut agents = vec!["agent-a", "agent-b"];
    let mut refusals = log.filter(|line| line.contains("rules rejected"));
    let are_all = refusals.any(|line| {
        agents.retain(|agent| !line.contains(agent));
        agents.is_empty()
    });
    assert!(are_all, "each agent refuses the file");
    quota_is(4_000);
}

/// P2: each region verifies tokens, with the required audience.
#[test]
fn tokens_are_verified_in_each_region() {
    let rules = "
regions: { eu: {}, us: {} }
descriptors: { user: { jwt: sub, default: anon }, tier: { jwt: realm.tier, default: free } }
tiers: { free: { quota: 2/min }, pro: { quota: 20/min } }
rules:
  - { name: by-user, per: [user], quota: tier }
  - { name: all, per: [], quota: 100k/s, scope: global }
";
    let (rules, keys) = (file("up-tokens.yaml", rules), file("up-tokens.jwks", JWKS));
    let (rules, keys) = (rules.to_str().unwrap(), keys.to_str().unwrap());
    for (audience, expected) in [("api", "20"), ("admin", "2")] {
        let mut up = start("2", &["--rules", rules, "--jwks", keys, "--jwt-audience", audience]);
        for address in [up.address, address_of(&mut up, "us")] {
            let bearer = format!("Bearer {TOKEN}");
            let mut client = Client::connect(address).expect("it listens");
            let answer = client.get("/check", &[("authorization", &bearer)]);
            assert_eq!(answer.header("x-ratelimit-limit"), expected, "{audience}");
        }
    }
    let keys = file("up-broken.jwks", "{}");
    for (flags, expected) in [
        (["--jwks", keys.to_str().unwrap()], "up-broken.jwks"),
        (["--jwt-issuer", "me"], "give the keys with --jwks FILE"),
    ] {
        let done = finish(tollgate(&["up", "--http", "127.0.0.1:0", "--regions", "2"]).args(flags));
        assert_eq!((done.exit, done.err.contains(expected)), (2, true), "{}", done.err);
    }
}

/// A body needs no content type, and a mistake in it names one that works.
#[test]
fn a_switch_is_used_by_curl_too() {
    let up = start("2", &[]);
    let mut client = up.client();
    let form = [("content-type", "application/x-www-form-urlencoded")];
    client.send("POST", "/regions/cut", &form, "us");
    let refused = client.receive();
    let detail = refused.json()["detail"].as_str().expect("a detail").to_owned();
    assert_eq!(refused.status, 400, "{detail}");
    let (_, example) = detail.split_once("write -d '").expect("an example");
    client.send("POST", "/regions/cut", &form, example.trim_end_matches('\''));
    let cut = client.receive();
    assert_eq!((cut.status, &cut.json()["cut"]), (200, &true.into()));
    for header in [("origin", "http://elsewhere"), ("x-forwarded-for", "9.9.9.9")] {
        client.send("POST", "/regions/heal", &[header], example.trim_end_matches('\''));
        let refused = client.receive();
        assert!(refused.status == 403 && refused.text().contains("only operators"), "{header:?}: {}", refused.text());
    }
    let unknown = client.get("/region", &[]);
    let detail = unknown.json()["detail"].to_string();
    assert!(unknown.status == 404 && detail.contains("/regions, /counters, or POST /regions/move"), "{detail}");
}

#[test]
fn mistakes_name_the_remedy() {
    let up = start("2", &[]);
    let (exit, _, err) = regions(&up, &["cut", "mars"]);
    assert_eq!(exit, 1);
    assert!(err.contains("there is no region `mars`; write one of eu, us"), "{err}");
    let one = "rules: [{ name: a, per: [ip], quota: 9/s }]";
    let three = "regions: { a: {}, b: {}, c: {} }\nrules: [{ name: a, per: [ip], quota: 9/s, scope: global }]";
    for (name, text, flag, expected) in [
        ("up-none.yaml", one, "2", "names 0 regions under `regions:`, and --regions says 2; name 2 regions there"),
        (
            "up-three.yaml",
            three,
            "2",
            "names 3 regions under `regions:`, and --regions says 2; write --regions 3, or name 2 regions there",
        ),
        ("up-three.yaml", three, "1", "1 is not in 2..=8"),
    ] {
        let rules = file(name, text);
        let args = ["up", "--http", "127.0.0.1:0", "--regions", flag, "--rules", rules.to_str().unwrap()];
        let done = finish(&mut tollgate(&args));
        assert_eq!(done.exit, 2, "{}", done.err);
        assert!(done.err.contains(expected), "{}", done.err);
    }
    let (exit, _, err) = regions(&up, &["move", "eu", "eu"]);
    assert_eq!((exit, err.contains("`eu` is named twice; name another region")), (1, true), "{err}");
    for (args, expected) in [
        (&["--regions", "2", "--redis", "redis://127.0.0.1:1"][..], "cannot be used with"),
        (&["--regions", "2", "--node", "gw-1"], "cannot be used with"),
        (&["--link-delay", "5ms"], "--regions <N>"),
        (&["--regions", "2", "--link-delay", "99999h"], "write a duration, such as 40ms, up to 10s"),
        (&["--regions", "2", "--link-delay", "10001ms"], "write a duration, such as 40ms, up to 10s"),
    ] {
        let done = finish(&mut tollgate(&[&["up"], args].concat()));
        assert_eq!((done.exit, done.err.contains(expected)), (2, true), "{}", done.err);
    }
}
