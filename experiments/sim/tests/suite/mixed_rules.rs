//! no-waste: whatever rules a call has, leases deny no more than one store without leases would on the same calls.
//!
//! The reference makes the same calls at the same instants on one table: each rule that applies is charged by the semantics of
//! the store, all or none. Judged are the admissions in a burst, and the denials under steady demand.

#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "small numbers"
)]

use fastrand::Rng;
use tollgate::Call;
use tollgate_servers::scaled;

use crate::mixed_fleet::{Fleet, KNOWN_MS, START};

/// Traffic of one row.
#[derive(Clone, Copy)]
struct Row {
    name: &'static str,
    /// Quota that is judged: calls and its window in ms.
    quota: u64,
    width_ms: u64,
    users: usize,
    /// Cost of a call.
    cost: u64,
}

const TENANT: &str = "{ name: tenant, per: [tenant], quota: 1000/min }";

fn rules(rest: &str) -> String {
    format!("version: 1\nrules: [{rest}]")
}

fn call(row: &Row, rng: &mut Rng) -> Call<'static> {
    let user = format!("u{}", rng.usize(0..row.users));
    Call::new().with("tenant", "t").with("user", user).with("ip", "10.0.0.1").costing(row.cost)
}

fn rows() -> Vec<(Row, String)> {
    let beside = |other: &str| rules(&format!("{TENANT}, {other}"));
    let row = |name, quota, width_ms, users| Row { name, quota, width_ms, users, cost: 1 };
    vec![
        (row("alone", 1_000, 60_000, 1), rules(TENANT)),
        (row("user 100/min of 40", 1_000, 60_000, 40), beside("{ name: user, per: [user], quota: 100/min }")),
        (
            row("token bucket", 1_000, 60_000, 1),
            beside("{ name: bucket, per: [ip], quota: 100000/min, algorithm: token_bucket, burst: 50000 }"),
        ),
        (row("log", 1_000, 60_000, 1), beside("{ name: log, per: [ip], quota: 5000/min, algorithm: sliding_log }")),
        (row("shadow", 1_000, 60_000, 1), beside("{ name: shade, per: [ip], quota: 100/min, shadow: true }")),
        (row("leases off", 1_000, 60_000, 1), beside("{ name: off, per: [ip], quota: 5000/min, leases: off }")),
        (row("1000/h beside", 1_000, 60_000, 1), beside("{ name: hour, per: [tenant], quota: 100000/h }")),
        (
            row("three windows", 1_000, 60_000, 1),
            beside("{ name: s, per: [tenant], quota: 2000/s }, { name: h, per: [tenant], quota: 50000/h }"),
        ),
        (
            row("half shadow, strict", 100, 60_000, 1),
            rules(
                "{ name: a, per: [tenant], quota: 100/min, consistency: strict }, { name: b, per: [ip], quota: 10/min, shadow: true }",
            ),
        ),
    ]
}

/// no-waste in a burst of three quotas in 1.5 s: at most 3% of the quota and at least one unit less than the reference.
#[test]
fn a_burst_gets_what_one_store_admits() {
    for agents in [1, 3, 20] {
        for (row, rules) in rows() {
            let (mut fleet, mut rng) = (Fleet::new(1, agents, &rules), Rng::with_seed(7));
            let begin = fleet.sim.now().plus_ms(1_000);
            let calls = 3 * row.quota;
            for place in 0..calls {
                let at = begin.plus_ms(place * 1_500 / calls);
                let agent = rng.usize(0..agents);
                let call = call(&row, &mut rng);
                fleet.request(at, agent, vec![call]);
            }
            let tally = fleet.take();
            println!("{:<22} {agents:>2} agents: {tally:?}", row.name);
            let slack = (row.quota * 3 / 100).max(1);
            assert!(tally.admitted + slack >= tally.expected, "{} of {agents} agents: {tally:?}", row.name);
        }
    }
}

/// no-waste under steady demand at 0.7 and 0.9 of the quota: at most 0.1 points more denials than the reference where an agent has 15
/// calls of the caller per sub-window, else 0.3 points.
#[test]
fn steady_demand_is_denied_no_more_than_by_one_store() {
    let row = |name, quota, width_ms, users| Row { name, quota, width_ms, users, cost: 1 };
    let mut all = rows();
    all.push((
        row("100/min and 1000/d", 100, 60_000, 1),
        rules("{ name: m, per: [tenant], quota: 100/min }, { name: d, per: [tenant], quota: 1000/d }"),
    ));
    all.push((
        row("100/min and 1000/h", 100, 60_000, 1),
        rules("{ name: m, per: [tenant], quota: 100/min }, { name: h, per: [tenant], quota: 1000/h }"),
    ));
    all.push((
        row("20/s with 1000/d", 20, 1_000, 1),
        rules("{ name: s, per: [tenant], quota: 20/s }, { name: d, per: [tenant], quota: 1000/d }"),
    ));
    all.push((
        row("20/s with 100000/d", 20, 1_000, 1),
        rules("{ name: s, per: [tenant], quota: 20/s }, { name: d, per: [tenant], quota: 100000/d }"),
    ));
    all.push((
        row("10/s 300/min 5000/h", 300, 60_000, 1),
        rules("{ name: s, per: [tenant], quota: 10/s }, { name: m, per: [tenant], quota: 300/min }, { name: h, per: [tenant], quota: 5000/h }"),
    ));
    for agents in [1, 3, 20] {
        for (row, rules) in &all {
            for load in [0.7, 0.9] {
                let (mut fleet, mut rng) = (Fleet::new(1, agents, rules), Rng::with_seed(7));
                let per_ms = row.quota as f64 * load / row.width_ms as f64;
                let calls = (2 * row.quota + scaled(8_000)).max(2_000);
                let mut at_ms = (KNOWN_MS + 1_000) as f64;
                for _ in 0..calls {
                    at_ms -= (1.0 - rng.f64()).ln() / per_ms;
                    let agent = rng.usize(0..agents);
                    let call = call(row, &mut rng);
                    fleet.request(START.plus_ms(at_ms as u64), agent, vec![call]);
                }
                let tally = fleet.take();
                let per_sub_window = row.quota as f64 * load / 12.0 / agents as f64 / row.users as f64;
                let points = if per_sub_window >= 15.0 { 0.1 } else { 0.3 };
                let more = tally.more_denied();
                let denied = 100.0 * (tally.calls - tally.expected) as f64 / tally.calls as f64;
                println!(
                    "{:<22} {agents:>2} agents at {load}: {more:>6.2} points more than {denied:.2}%, {:.2} requests a call, {:.2} by leases",
                    row.name,
                    tally.requests as f64 / tally.calls as f64,
                    tally.leased as f64 / tally.calls as f64
                );
                assert!(more <= points, "{} of {agents} agents at {load}: {tally:?}", row.name);
            }
        }
    }
}
