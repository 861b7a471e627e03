//! Standard output that cannot be written: a pipe whose reader has ended, as in `tollgate ... | head -1`, and a full disk.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::process::Stdio;

use crate::support::{Client, Up, file, finish, tollgate, wait_for};

/// Returns a pipe that nobody reads.
fn broken() -> Stdio {
    std::io::pipe().expect("a pipe").1.into()
}

#[test]
fn a_broken_pipe_ends_quietly_with_the_exit_code_of_the_result() {
    let invalid = file("pipes.yaml", "rules: [{ name: a, per: [ip], quota: 0/s }]");
    let log = file("pipes.jsonl", "{\"time\": 1, \"descriptors\": {\"ip\": \"a\"}}\n");
    let replay = ["replay", log.to_str().unwrap(), "--limit", "1/s per ip"];
    for (args, exit) in [
        (&["rules", "validate", "../rules.yaml"][..], 0),
        (&["rules", "validate", invalid.to_str().unwrap()], 2),
        (&["--help"], 0),
        (&["config"], 0),
        (&replay, 0),
        (&[&replay[..], &["--decisions", "-"]].concat(), 0),
        (&["demo"], 0),
    ] {
        let out = finish(tollgate(args).stdout(broken()));
        let quiet = !["panicked", "Broken pipe", "os error"].iter().any(|word| out.err.contains(word));
        assert!(out.exit == exit && quiet, "{args:?}: {} {}", out.exit, out.err);
        assert_eq!(finish(tollgate(args).stdout(broken()).stderr(broken())).exit, exit, "{args:?}");
    }
}

/// Returns a device that is always full.
fn full() -> Stdio {
    File::options().write(true).open("/dev/full").expect("a device of Linux").into()
}

#[test]
fn a_command_that_cannot_write_its_result_fails_and_names_standard_output() {
    let log = file("full.jsonl", "{\"time\": 1, \"descriptors\": {\"ip\": \"a\"}}\n");
    let replay = ["replay", log.to_str().unwrap(), "--limit", "1/s per ip"];
    for args in [
        &["rules", "validate", "../rules.yaml"][..],
        &["rules", "validate", "../rules.yaml", "--format", "json"],
        &[],
        &["--help"],
        &["up", "--help"],
        &["--version"],
        &["config"],
        &replay,
        &[&replay[..], &["--decisions", "-"]].concat(),
    ] {
        let said = finish(tollgate(args).stdout(full()));
        let told = "cannot write to standard output: No space left on device (os error 28)";
        assert!(said.exit == 1 && said.err.contains(told), "{args:?}: {} {}", said.exit, said.err);
    }
}

/// A limiter goes on without its standard output, and its log has the address.
#[test]
fn a_limiter_starts_although_standard_output_is_full() {
    for command in ["up", "agent"] {
        let args = [command, "--http", "127.0.0.1:0", "--limit", "5/s per api_key"];
        let mut limiter = tollgate(&args).stdout(full()).spawn().expect("the binary runs");
        let mut log = BufReader::new(limiter.stderr.take().unwrap()).lines().map_while(Result::ok);
        let line = log.find(|line| line.contains("listening on http://")).expect("the address");
        assert!(line.contains("cannot write to standard output: No space left on device (os error 28)"), "{line}");
        let address = line.rsplit_once("listening on http://").unwrap().1.trim().parse().expect("an address");
        let status = Client::connect(address).expect("it listens").check("k").status;
        limiter.kill().unwrap();
        limiter.wait().unwrap();
        assert_eq!(status, 200, "{command}");
    }
}

#[test]
fn a_limiter_outlives_the_reader_of_its_log() {
    let path = file("outlives.yaml", "rules: [{ name: a, per: [api_key], quota: 3/s }]");
    let up = Up::of(tollgate(&["up", "--http", "127.0.0.1:0"]).arg("--rules").arg(&path).stderr(broken()));
    file("outlives.yaml", "rules: [{ name: a, per: [api_key], quota: 4/s }]");
    let mut client = up.client();
    wait_for("the reload, which is logged", || (client.check("k").header("x-ratelimit-limit") == "4").then_some(()));
    up.signal("HUP");
    assert_eq!(up.client().check("k2").status, 200);
    up.signal("TERM");
    up.wait_until_closed();
}
