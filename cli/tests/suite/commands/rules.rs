//! `tollgate rules validate`.

use std::process::{Command, Stdio};

use tollgate_core::clock::Stopwatch;

use crate::support::{file, finish, tollgate};

const GOOD: &str = "\
rules:
  - name: per-key
    per: [api_key]
    quota: 100/min
  - name: search
    match: { endpoint: /search*, method: GET }
    per: [api_key, endpoint]
    quota: 25/10s
    sub_windows: 4
    consistency: strict
    on_failure: closed
  - name: login
    match: { endpoint: /login }
    per: []
    quota: 5/15min
    algorithm: sliding_log
    consistency: strict
    on_failure: limit 5/15min
";

#[test]
fn a_valid_file_is_shown_as_it_will_be_enforced() {
    let path = file("valid.yaml", GOOD);
    let said = finish(&mut tollgate(&["rules", "validate", path.to_str().unwrap()]));
    assert_eq!(said.exit, 0);
    let lines: Vec<&str> = said.out.lines().map(str::trim_end).collect();
    insta::assert_snapshot!(lines.join("\n"), @r"
    RULE     CALLS                         LIMIT
    per-key  every call                    100/min
             per api_key                   sliding_window, 12 x 5 s, interpolated
                                           consistency bounded; on_failure share
    search   endpoint=/search* method=GET  25/10s
             per api_key, endpoint         sliding_window, 4 x 2500 ms,
                                           conservative
                                           consistency strict; on_failure closed
    login    endpoint=/login               5/15min
             one counter                   sliding_log, exact
                                           consistency strict; on_failure limit
                                           5/15min

    RULE     BOUND WHILE REDIS ANSWERS
    per-key  A counter admits at most 100 in any 1min by its estimate, and at most
             200 in bursts around an edge.
    search   A counter admits at most 25 in any 10s.
    login    A counter admits at most 5 in any 15min.

    The table shows the most units in a window, and in parentheses those of many
    calls around the edge of a sub-window or of a fixed window. The other bounds
    are for a fleet of 10 (--agents). REDIS LATE: Redis answers one agent after the
    deadline, or all of them. An agent that restarts meanwhile adds its part again.
    REDIS DOWN: the units that Redis admitted or leased before are contained. The
    signals of two agents can differ by 3 s, in which further calls pass: once
    in a window, and twice around an edge. Each time that Redis loses its data, a
    window may hold the units of REDIS UP once more: twice after one loss, six times
    after five. With Kafka, agents enter most of the lost units again.
    REDIS FAILS OVER (Sentinel, Cluster): what the replica lacked is such a loss. A
    primary that is cut off and still takes writes is the same one: set
    min-replicas-to-write 1.

    RULE     REDIS UP   REDIS LATE        REDIS DOWN               REDIS AND KAFKA
                                                                   DOWN
    per-key  100 (200)  110 to 200 (300)  190 (290), and calls of  200 (300)
                                          3 (6) s
    search   25         25                25                       25
    login    5          5                 5, and calls of 3 s      55

    Redis without Kafka: no signals, so the last column holds while Redis is down.
    Kafka without Redis: refused, because no rule is `consistency: eventual`.
    One process without servers: all rules are counted exactly, in its memory.
    ");
    let err = said.err.replace(path.to_str().unwrap(), "valid.yaml");
    insta::assert_snapshot!(err, @r"
    valid.yaml: valid, 3 rules, 0 warnings
    ");
}

#[test]
fn a_valid_file_can_be_read_by_programs() {
    let path = file("valid-json.yaml", GOOD);
    let said = finish(&mut tollgate(&["rules", "validate", path.to_str().unwrap(), "--format", "json"]));
    let set: serde_json::Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!((said.exit, set["valid"].as_bool()), (0, Some(true)));
    assert_eq!(set["warnings"].as_array().unwrap().len(), 0);
    assert_eq!(
        set["rules"][0]["outage"]["with_store"],
        serde_json::json!({
            "units": 100, "at_worst": 200,
            "late": { "one_agent": 110, "all_agents": 200, "all_calls_pass": false },
            "more_per_loss": 100, "more_per_fail_over": 100,
        })
    );
    let bound = serde_json::json!([{ "of": null, "text": "A counter admits at most 5 in any 15min." }]);
    assert_eq!(set["rules"][2]["bounds"], bound);
    let search = &set["rules"][1];
    assert_eq!(search["match"]["endpoint"], "/search*");
    assert_eq!((&search["units"], &search["window_ms"]), (&25.into(), &10_000.into()));
    assert_eq!((&search["sub_windows"], &search["estimate"]), (&4.into(), &"conservative".into()));
}

#[test]
fn all_problems_are_reported_with_file_and_line() {
    let path = file("invalid.yaml", "rules:\n  - name: a\n    per: [ip]\n    quotta: 1/s\n    quota: 0/min\n");
    let path = path.to_str().unwrap();
    let said = finish(&mut tollgate(&["rules", "validate", path]));
    assert_eq!((said.exit, &*said.out), (2, ""));
    insta::assert_snapshot!(said.err.replace(path, "invalid.yaml"), @r"
    invalid.yaml:4: unknown field `quotta` in a rule; did you mean `quota`?
    invalid.yaml:5: a quota of 0 would deny every call; write at least 1, or leave the rule out
    ");
    let up = finish(&mut tollgate(&["up", "--rules", path]));
    assert_eq!((up.exit, up.err), (2, said.err), "`up` refuses in the same words");
    let json = finish(&mut tollgate(&["rules", "validate", path, "--format", "json"]));
    let problems: serde_json::Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!(json.exit, 2);
    assert_eq!(problems["problems"][0]["place"], format!("{path}:4"));
}

#[test]
fn a_missing_file_is_named() {
    let said = finish(&mut tollgate(&["rules", "validate", "/nowhere/rules.yaml"]));
    assert_eq!((said.exit, &*said.out), (2, ""));
    assert!(said.err.contains("/nowhere/rules.yaml: "), "{}", said.err);
    assert!(said.err.contains("check the path"), "{}", said.err);
}

/// `rules validate /dev/zero` once read 22 GB. The limit of the address space lets the test fail before the machine does.
#[test]
fn a_file_without_end_is_read_up_to_its_cap() {
    let commands: [&[&str]; 8] = [
        &["rules", "validate", "/dev/zero"],
        &["rules", "diff", "/dev/zero", "/dev/zero"],
        &["rules", "import", "/dev/zero"],
        &["rules", "publish", "/dev/zero"],
        &["up", "--rules", "/dev/zero"],
        &["agent", "--config", "/dev/zero"],
        &["up", "--limit", "1/s per ip", "--digest-key-file", "/dev/zero"],
        &["up", "--limit", "1/s per ip", "--jwks", "/dev/zero", "--jwt-issuer", "i", "--jwt-audience", "a"],
    ];
    let capped = |script: &str, args: &[&str]| {
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("ulimit -v 2000000; {script}"), env!("CARGO_BIN_EXE_tollgate")]).args(args);
        finish(shell.env_clear().env("PATH", "/usr/bin:/bin").stdin(Stdio::null()))
    };
    for args in commands {
        let said = capped("exec \"$0\" \"$@\"", args);
        assert_eq!((said.exit, &*said.out), (2, ""), "{args:?}: {}", said.err);
        assert!(
            said.err.contains("/dev/zero: longer than the ") && said.err.contains("check the path"),
            "{}",
            said.err
        );
    }
    let said = capped("yes | \"$0\" \"$@\"", &["rules", "validate", "/dev/stdin"]);
    assert!(said.exit == 2 && said.err.contains("/dev/stdin: longer than the 4194304 bytes"), "{}", said.err);
}

#[test]
fn a_pipe_is_read_once() {
    let path = file("piped.yaml", GOOD);
    let validate = |script: &str| {
        let mut shell = Command::new("sh");
        finish(shell.args(["-c", script, env!("CARGO_BIN_EXE_tollgate"), path.to_str().unwrap()]))
    };
    let said = validate("cat \"$1\" | \"$0\" rules validate /dev/stdin");
    assert!(said.exit == 0 && said.err.contains("/dev/stdin: valid, 3 rules"), "{}", said.err);
}

/// A file of somebody else must not move the cursor of a terminal, or write lines that look like those of the command.
#[test]
fn control_characters_of_a_file_are_escaped() {
    let name = "rules: [{ name: \"a\\e[2Jb\\nok.yaml: valid\", per: [ip], quota: 1/s }]";
    let value = "rules: [{ name: a, match: { endpoint: \"/x\\e[2J\\ny\" }, per: [ip], quota: 1/s }]";
    for (text, exit, told) in [(name, 2, "a\\u{1b}[2Jb\\nok.yaml: valid"), (value, 0, "endpoint=/x\\u{1b}[2J\\ny")] {
        let path = file("control.yaml", text);
        let said = finish(&mut tollgate(&["rules", "validate", path.to_str().unwrap()]));
        let all = format!("{}{}", said.out, said.err);
        assert_eq!(said.exit, exit, "{all}");
        let words: String = all.split_whitespace().collect();
        assert!(words.contains(&told.replace(' ', "")), "{all}");
        assert!(!all.contains('\u{1b}'), "{all}");
    }
}

/// A Kafka that is away is told in one sentence, without the texts of its client.
#[test]
fn publishing_to_a_kafka_that_is_away_fails_within_seconds() {
    let began = Stopwatch::start();
    let failed = finish(&mut tollgate(&["rules", "publish", "../rules.yaml", "--kafka", "127.0.0.1:1"]));
    assert!(began.elapsed().as_secs() < 30, "{:?}", began.elapsed());
    let told = "error: Kafka at 127.0.0.1:1 does not answer within 5 s; start it, or correct the address\n";
    assert_eq!((failed.exit, &*failed.out, &*failed.err), (1, "", told));
}

#[test]
fn a_rules_file_is_read_from_standard_input() {
    let rules = std::fs::File::open("../rules.yaml").expect("a file");
    let said = finish(tollgate(&["rules", "validate", "-"]).stdin(rules));
    assert!(said.exit == 0 && said.err.contains("-: valid, 3 rules"), "{}", said.err);
    assert!(said.out.lines().all(|line| line.trim_end() == line), "no line ends with blanks: {}", said.out);
}
