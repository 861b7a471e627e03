//! Files that a command line names: each has a cap, and none makes a command hang.

use std::path::PathBuf;
use std::process::Command;

use tollgate_core::clock::Stopwatch;

use crate::support::{file, finish, tollgate};

/// Time within which a command has read a file or refused it: longer than the writer of a pipe may send nothing.
const PATIENCE_S: u64 = 20;

fn fifo(name: &str) -> PathBuf {
    let path = file(name, "");
    std::fs::remove_file(&path).expect("a file");
    assert!(Command::new("mkfifo").arg(&path).status().expect("mkfifo").success());
    path
}

/// Returns the commands with this path as each file that a user may name.
fn commands(path: &str) -> Vec<Vec<String>> {
    let good = file("files-good.yaml", "rules: [{ name: a, per: [ip], quota: 1/s }]");
    let good = good.to_str().expect("UTF-8");
    let named: [&[&str]; 17] = [
        &["rules", "validate", path],
        &["rules", "show", path, "ip=1"],
        &["rules", "diff", good, path],
        &["rules", "import", path],
        &["rules", "publish", path, "--redis", "redis://127.0.0.1:1"],
        &["config", "--config", path],
        &["check", "a=b", "--agent", "https://127.0.0.1:1", "--ca", path],
        &["regions", "cut", "us", "--token-file", path],
        &["aggregator", "--kafka", "127.0.0.1:1", "--http", "127.0.0.1:0", "--rules", path],
        &["agent", "--redis", "rediss://127.0.0.1:1", "--limit", "1/s per ip", "--redis-ca", path],
        &["up", "--http", "127.0.0.1:0", "--rules", path],
        &["up", "--http", "127.0.0.1:0", "--jwks", path],
        &["up", "--http", "127.0.0.1:0", "--digest-key-file", path],
        &["up", "--http", "127.0.0.1:0", "--token-file", path],
        &["up", "--http", "127.0.0.1:0", "--tls-cert", path, "--tls-key", path],
        &["up", "--http", "127.0.0.1:0", "--redis", "redis://127.0.0.1:1", "--redis-password-file", path],
        &[
            "up",
            "--http",
            "127.0.0.1:0",
            "--kafka",
            "127.0.0.1:1",
            "--kafka-sasl",
            "plain",
            "--kafka-user",
            "u",
            "--kafka-password-file",
            path,
        ],
    ];
    named.iter().map(|args| args.iter().map(|arg| (*arg).to_owned()).collect()).collect()
}

#[test]
fn a_device_without_end_and_a_pipe_without_a_writer_are_refused_as_each_file() {
    let silent = fifo("files-silent");
    for path in ["/dev/zero", silent.to_str().expect("UTF-8")] {
        let refused: Vec<_> = std::thread::scope(|scope| {
            let commands = commands(path);
            let run = |args: Vec<String>| {
                scope.spawn(move || {
                    let words: Vec<&str> = args.iter().map(String::as_str).collect();
                    let began = Stopwatch::start();
                    (finish(&mut tollgate(&words)), began.elapsed(), args)
                })
            };
            let running: Vec<_> = commands.into_iter().map(run).collect();
            running.into_iter().map(|command| command.join().expect("an end")).collect()
        });
        for (refused, took, args) in refused {
            assert!(took.as_secs() < PATIENCE_S, "{args:?}: {took:?}");
            assert!(matches!(refused.exit, 1 | 2), "{args:?}: {} {}", refused.exit, refused.err);
            let why = ["longer than the", "no regular file", "nothing was written to it", "no text in UTF-8"];
            assert!(
                refused.err.contains(path) && why.iter().any(|why| refused.err.contains(why)),
                "{args:?}: {}",
                refused.err
            );
        }
    }
}
