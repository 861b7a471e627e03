//! Rules that change while the limiter runs.

use crate::support::{Client, Up, file, wait_for};

const OLD: &str = "rules: [{ name: per-key, per: [api_key], quota: 10/min, consistency: strict }]\n";
const NEW: &str = "rules: [{ name: per-key, per: [api_key], quota: 20/min, consistency: strict }]\n";

fn generation(client: &mut Client) -> u64 {
    client.get("/healthz", &[]).json()["generation"].as_u64().unwrap()
}

/// F3, last-good: a broken file never replaces a good set, a good one does, and the connection does not notice.
#[test]
fn a_broken_file_keeps_the_old_rules_and_a_good_one_replaces_them() {
    let path = file("reload.yaml", OLD);
    let up = Up::start(&["--rules", path.to_str().unwrap()]);
    let mut client = up.client();
    let first = generation(&mut client);
    assert_eq!(client.check("k1").header("x-ratelimit-remaining"), "9");

    file("reload.yaml", "rules: [{ name: per-key, per: [api_key], quota: 0/min }]\n");
    wait_for("the broken file to be refused", || {
        let metrics = client.get("/metrics", &[]);
        metrics.text().contains("tollgate_rules_rejected_total 1\n").then_some(())
    });
    assert_eq!(generation(&mut client), first);
    let answer = client.check("k1");
    assert_eq!((answer.header("x-ratelimit-limit"), answer.header("x-ratelimit-remaining")), ("10", "8"));

    file("reload.yaml", NEW);
    wait_for("the good file to be in force", || (generation(&mut client) > first).then_some(()));
    let answer = client.check("k1");
    assert_eq!((answer.header("x-ratelimit-limit"), answer.header("x-ratelimit-remaining")), ("20", "17"));
}
