//! `--otlp` as a setting, and in a binary that is built without it.

use crate::support::{finish, tollgate};

/// Each wrong flag is refused with what to write instead.
#[test]
fn wrong_flags_are_refused_with_a_remedy() {
    let url = "http://127.0.0.1:4318";
    let cases: [(&[&str], &str); 5] = [
        (&["up", "--otlp", "https://collector:4318"], "such as http://127.0.0.1:4318"),
        (&["aggregator", "--otlp", "collector"], "such as http://127.0.0.1:4318"),
        (&["agent", "--otlp-sample", "5%"], "--otlp <URL>"),
        (&["agent", "--otlp", url, "--otlp-sample", "5"], "such as 1% or 0.05%"),
        (&["up", "--regions", "2", "--otlp", url], "--otlp <URL>"),
    ];
    for (args, told) in cases {
        let refused = finish(&mut tollgate(args));
        assert!(refused.exit == 2 && refused.err.contains(told), "{args:?}: {}", refused.err);
    }
}

/// The flag is a setting of every binary, so that a settings file is the same for all.
#[test]
fn the_collector_is_shown_as_a_setting() {
    for command in ["agent", "up", "aggregator"] {
        let shown = finish(tollgate(&["config", command]).env("TOLLGATE_OTLP", "http://127.0.0.1:4318"));
        let line = shown.out.lines().find(|line| line.starts_with("otlp ")).unwrap_or_else(|| panic!("{}", shown.out));
        let words: Vec<_> = line.split_whitespace().collect();
        assert_eq!(words, ["otlp", "http://127.0.0.1:4318", "TOLLGATE_OTLP"], "{command}");
        assert_eq!(shown.out.contains("\notlp_sample "), command != "aggregator", "{command}");
    }
}

#[cfg(not(feature = "otlp"))]
#[test]
fn a_binary_without_the_feature_refuses_the_flag_with_the_command_that_builds_it() {
    for args in [&["up"][..], &["agent", "--limit", "1/s per ip"], &["aggregator", "--kafka", "127.0.0.1:1"]] {
        let mut command = tollgate(&[args, &["--http", "127.0.0.1:0", "--otlp", "http://127.0.0.1:4318"]].concat());
        let refused = finish(&mut command);
        let remedy = "`cargo build --release --features otlp`";
        assert!(refused.exit == 2 && refused.err.contains(remedy), "{args:?}: {}", refused.err);
        assert_eq!(refused.out, "", "{args:?}");
    }
}
