//! Changes of the rules at run time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tollgate_servers::scaled;

use crate::support::{Client, Up, file, wait_for};

const OLD: &str = "rules: [{ name: per-key, per: [api_key], quota: 10/min, consistency: strict }]\n";
const NEW: &str = "rules: [{ name: per-key, per: [api_key], quota: 20/min, consistency: strict }]\n";

fn generation(client: &mut Client) -> u64 {
    client.get("/healthz", &[]).json()["generation"].as_u64().unwrap()
}

/// F3, last-good: a broken file never replaces a valid set, a valid one does, and connections stay open.
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

/// SIGHUP reloads the rules, keeps the old ones when the file is broken, and logs what happened in each case.
#[test]
fn a_hang_up_reloads_the_rules_and_says_what_happened() {
    let versioned = |version: u64, rules: &str| file("hang-up.yaml", &format!("version: {version}\n{rules}"));
    let path = versioned(7, OLD);
    let mut up = Up::start(&["--rules", path.to_str().unwrap()]);
    let mut log = up.log();
    let mut hang_up = |expected: &str| {
        up.signal("HUP");
        log.find(|line| line.contains("SIGHUP: reading")).expect("the signal is logged");
        let results = ["rules are unchanged", "rules reloaded", expected];
        let told = log.find(|line| results.iter().any(|result| line.contains(result))).expect("the result is logged");
        // The file may have been reloaded before the signal, because it had changed.
        assert!(told.contains(expected) || expected == "rules reloaded", "{told}");
        generation(&mut up.client())
    };
    assert_eq!(hang_up("rules are unchanged"), 7);
    versioned(6, NEW);
    assert_eq!(hang_up("version 6 is not newer than 7"), 7);
    versioned(8, "rules: [{ name: per-key, per: [api_key], quota: 0/min }]\n");
    assert_eq!(hang_up("a quota of 0 would deny every call"), 7);
    versioned(9, NEW);
    assert_eq!(hang_up("rules reloaded"), 9);
    assert_eq!(up.client().check("k1").header("x-ratelimit-limit"), "20");

    let mut short = Up::start(&["--limit", "5/min per api_key"]);
    let mut log = short.log();
    short.signal("HUP");
    log.find(|line| line.contains("nothing is reloaded: this agent has no such file")).expect("it is logged");
    assert_eq!(short.client().check("k1").header("x-ratelimit-limit"), "5");
}

/// Number of reloads of the full test.
const RELOADS: u64 = 100;

/// F3: rules are reloaded again and again under load: no call fails, no connection is dropped, and each set is in force in
/// turn.
#[test]
fn reloads_under_load_fail_no_call() {
    let rules = |quota: u64| {
        let key = format!("{{ name: per-key, per: [api_key], quota: {quota}/min, consistency: strict }}");
        format!("rules: [{key}, {{ name: all, per: [], quota: 1M/s, algorithm: token_bucket, burst: 1M }}]\n")
    };
    let path = file("reload_under_load.yaml", &rules(1));
    let up = Up::start(&["--rules", path.to_str().unwrap()]);
    let done = Arc::new(AtomicBool::new(false));
    let callers: Vec<_> = (0..3)
        .map(|caller| {
            let (mut client, done) = (up.client(), done.clone());
            std::thread::spawn(move || {
                let mut answered = 0_u64;
                while !done.load(Ordering::Relaxed) {
                    let answer = client.check(&format!("k{caller}-{}", answered % 50));
                    assert!([200, 429].contains(&answer.status), "{}: {}", answer.status, answer.text());
                    assert!(answer.find("x-ratelimit-limit").is_some());
                    answered += 1;
                }
                answered
            })
        })
        .collect();
    let mut client = up.client();
    for reload in 2..scaled(RELOADS) + 2 {
        file("reload_under_load.yaml", &rules(reload));
        wait_for("the next rules to be in force", || {
            let limit = client.check(&format!("observer-{reload}")).header("x-ratelimit-limit").to_owned();
            (limit == reload.to_string()).then_some(())
        });
    }
    done.store(true, Ordering::Relaxed);
    let answered: u64 = callers.into_iter().map(|caller| caller.join().expect("no call fails")).sum();
    assert!(answered > scaled(RELOADS) * 10, "{answered} calls were made meanwhile");
    let metrics = client.get("/metrics", &[]);
    assert!(metrics.text().contains("tollgate_rules_rejected_total 0\n"), "{}", metrics.text());
}
