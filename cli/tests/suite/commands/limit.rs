//! `--limit`: rules in short form, for every command that takes them.

use crate::support::{Up, file, finish, tollgate};

const LOG: &str =
    "{\"time\": 1000, \"descriptors\": {\"ip\": \"a\"}}\n{\"time\": 2000, \"descriptors\": {\"ip\": \"a\"}}\n";

#[test]
fn a_limit_that_would_limit_nothing_is_refused_with_the_nearest_name() {
    let log = file("limit.jsonl", LOG);
    let replay = ["replay", log.to_str().unwrap()];
    let up = ["up", "--http", "127.0.0.1:0"];
    let agent = ["agent", "--http", "127.0.0.1:0"];
    for (command, limit, told) in [
        (
            &up[..],
            "100/min per IP",
            "--limit counts by `IP`, which no request has unless a rules file (--rules FILE) declares it; did you mean `ip`?",
        ),
        (&agent, "100/min per api-key", "did you mean `api_key`?"),
        (&agent, "100/min per tenant", "; known are api_key, ip, method, endpoint"),
        (&replay, "100/min per IP", "--limit counts by `IP`, which no call of the log has; did you mean `ip`?"),
        (
            &up,
            "10/s per ip and 100/min per ip",
            "repeat the flag for each limit, --limit \"10/s per ip\" --limit \"100/min per ip\"",
        ),
        (&replay, "10/s per ip and endpoint", "write names with commas, \"10/s per ip, endpoint\""),
        (
            &up,
            "10/s per ip; 20/s per ip",
            "`10/s per ip` and `20/s per ip` count the same calls in the same window; leave one out",
        ),
    ] {
        let said = finish(tollgate(command).args(["--limit", limit]));
        assert_eq!((said.exit, &*said.out), (2, ""), "{limit}: {}", said.err);
        assert!(said.err.contains(told), "{limit}: {}", said.err);
    }
}

#[test]
fn several_limits_are_a_repeated_flag() {
    let limits = ["--limit", "1/s per ip", "--limit", "1/h per ip", "--limit", "5/min per endpoint"];
    let log = file("limits.jsonl", LOG);
    let said = finish(tollgate(&["replay", log.to_str().unwrap(), "--format", "json"]).args(&limits[..4]));
    let report: serde_json::Value = serde_json::from_str(&said.out).unwrap_or_else(|_| panic!("{}", said.err));
    let denied = |rule: usize| (report["rules"][rule]["name"].clone(), report["rules"][rule]["denied"].clone());
    assert_eq!((denied(0), denied(1)), (("per-ip/s".into(), 0.into()), ("per-ip/h".into(), 1.into())));

    let up = Up::start(&limits);
    let mut client = up.client();
    let answers = [client.get("/check", &[]), client.get("/check", &[])];
    assert_eq!(answers.map(|answer| answer.status), [200, 429]);
    let both =
        Up::of(tollgate(&["up", "--http", "127.0.0.1:0"]).env("TOLLGATE_LIMIT", "7/s per ip; 9/min per api_key"));
    assert_eq!(both.client().check("k1").header("x-ratelimit-limit"), "7");
    let path = file("limits.yaml", "limit: [7/s per ip, 2/min per api_key]\n");
    let config = Up::of(&mut tollgate(&["up", "--http", "127.0.0.1:0", "--config", path.to_str().unwrap()]));
    assert_eq!(config.client().check("k1").header("x-ratelimit-limit"), "2");
}
