//! A Redis that refuses requests, or that is none: the log names the reason and a remedy that works.

use std::io::{Read, Write};
use std::net::TcpListener;

use tollgate_servers::{Redis, finish};

use crate::support::{Up, file, tollgate, wait_for};

/// Starts an agent on a Redis at this address, and returns it with the lines of its log.
fn agent(url: &str) -> (Up, impl Iterator<Item = String> + use<>) {
    let limit = ["--limit", "5/s per api_key", "--agents-expected", "1"];
    let args = ["agent", "--http", "127.0.0.1:0", "--node", "gw-1"];
    let mut up = Up::of(tollgate(&args).args(limit).env("TOLLGATE_REDIS", url));
    let log = up.log();
    (up, log)
}

/// Returns the line with the reason, and the line about the effect on the limits.
fn told(url: &str) -> [String; 2] {
    let (_up, mut log) = agent(url);
    let reason = log.find(|line| line.contains("remedy=")).expect("a reason");
    let effect = log.find(|line| line.contains("signals decide, or each rule's on_failure")).expect("an effect");
    [reason, effect]
}

/// H4: each refusal of a Redis is one line with a remedy for it, and the line about the effect sends nobody elsewhere.
#[test]
fn a_refusal_is_a_line_with_its_own_remedy() {
    let primary = Redis::start();
    let secret = Redis::start_with(&["--requirepass", "right"]);
    let renamed = ["EVALSHA", "EVAL", "TIME"].map(|name| Redis::start_with(&["--rename-command", name, ""]));
    let primary_url = primary.url();
    let port = primary_url.rsplit(':').next().unwrap();
    let replica = Redis::start_with(&["--replicaof", "127.0.0.1", port]);
    let wrong = secret.url().replace("redis://", "redis://:wrong@");
    let mut cases = vec![
        (format!("{}/99", primary.url()), "a number below its setting databases"),
        (secret.url(), "give the password that the server has"),
        (wrong, "refuses the password or the user, which came from the address of --redis"),
        (replica.url(), "give the address of the primary"),
    ];
    cases.extend(renamed.iter().map(|redis| (redis.url(), "remove rename-command for the commands of Tollgate")));
    for (url, remedy) in cases {
        let [reason, effect] = told(&url);
        assert!(reason.contains("the store refuses to answer") && reason.contains(remedy), "{url}: {reason}");
        assert!(effect.contains("the warning about it before this one"), "{url}: {effect}");
        assert!(!effect.contains("check that it runs"), "{url}: {effect}");
    }
}

/// H4: a user who may not run the commands of Tollgate is told the rule that allows them, and it is enough.
#[test]
fn the_printed_rule_of_an_acl_is_enough() {
    let redis = Redis::start();
    assert_eq!(redis.command("ACL SETUSER limits on >secret"), "+OK");
    let (up, mut log) = agent(&redis.url().replace("redis://", "redis://limits:secret@"));
    let line = log.find(|line| line.contains("ACL SETUSER name ")).expect("a rule");
    let rule = line.split_once("ACL SETUSER name ").unwrap().1.split('"').next().unwrap();
    assert_eq!(redis.command(&format!("ACL SETUSER limits {rule}")), "+OK", "{line}");
    assert!(log.any(|line| line.contains("the store answers again and decides")));
    for written in ["ZSCORE tollgate:agents gw-1", "KEYS tollgate:witness:gw-1@*"] {
        wait_for(written, || redis.command(written).contains("\r\n").then_some(()));
    }
    assert_eq!(up.client().check("k").json()["source"], "store");
    let rules = file("published-by-limits.yaml", "rules: [{ name: r, per: [api_key], quota: 9/min }]");
    let (rules, url) = (rules.display().to_string(), redis.url().replace("redis://", "redis://limits:secret@"));
    for args in [&["publish", &rules][..], &["deny", "api_key=k", "--for", "1h"], &["history"], &["rollback", "1"]] {
        let said = finish(tollgate(&["rules"]).args(args).env("TOLLGATE_REDIS", &url));
        assert_eq!(said.exit, 0, "{args:?}: {}{} {}", said.out, said.err, redis.command("ACL LOG"));
    }
    let refused = redis.command("ACL LOG");
    up.signal("TERM");
    let refused_later: Vec<_> = log.filter(|line| line.contains("the store refuses to answer")).collect();
    assert!(refused_later.is_empty(), "{refused_later:?} {refused}");
}

/// H4: foreign values under the keys of Tollgate are named, and their deletion ends the trouble.
#[test]
fn a_foreign_value_under_an_own_key_is_named() {
    let redis = Redis::start();
    assert_eq!(redis.command("SET tollgate:agents junk"), "+OK");
    let (up, mut log) = agent(&redis.url());
    let line = log.find(|line| line.contains("was not written by Tollgate")).expect("a reason");
    assert!(line.contains("under the key tollgate:agents") && line.contains("DEL tollgate:agents"), "{line}");
    assert_eq!(redis.command("DEL tollgate:agents"), ":1");
    wait_for("the announcement", || redis.command("ZSCORE tollgate:agents gw-1").starts_with('$').then_some(()));
    assert_eq!(up.client().check("k").json()["source"], "store");
}

/// H4: an address where another kind of server listens is one line that says so.
#[test]
fn a_server_that_is_no_redis_is_one_line() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("redis://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for mut peer in listener.incoming().map_while(Result::ok) {
            let _ = peer.read(&mut [0; 1_024]);
            let page = "<!DOCTYPE HTML>\n<html>\n<body>Bad request\u{7}</body>\n</html>\n";
            let _ = peer.write_all(format!("HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n{page}").as_bytes());
        }
    });
    let (up, mut log) = agent(&url);
    let line = log.find(|line| line.contains("this is not the address of a Redis")).expect("a reason");
    assert!(line.contains("give the address of a Redis; another kind of server listens at this one"), "{line}");
    let next = log.next().expect("an effect");
    assert!(next.contains("signals decide, or each rule's on_failure"), "one line each: {next}");
    assert!(!next.contains("check that it runs"), "{next}");
    drop(up);
}
