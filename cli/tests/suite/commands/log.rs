//! The log on standard error: its filter and its form.

use serde_json::Value;

use crate::support::{Up, file, finish, tollgate};

#[test]
fn a_log_filter_that_is_not_understood_is_refused() {
    for (command, filter, told) in [
        (
            &["up", "--http", "127.0.0.1:0"][..],
            "nonsense",
            "TOLLGATE_LOG is `nonsense`: `nonsense` is no level; write off, error, warn",
        ),
        (&["aggregator"], "debgu", "`debgu` is no level"),
        (&["rules", "validate", "../rules.yaml"], "tollgate=loud", "TOLLGATE_LOG is `tollgate=loud`: "),
    ] {
        let said = finish(tollgate(command).env("TOLLGATE_LOG", filter));
        assert_eq!((said.exit, &*said.out), (2, ""), "{}", said.err);
        assert!(said.err.contains(told), "{}", said.err);
    }
    let debug = finish(tollgate(&["rules", "validate", "../rules.yaml"]).env("TOLLGATE_LOG", "info,tollgate=debug"));
    assert_eq!(debug.exit, 0, "{}", debug.err);
}

fn objects(log: &str) -> Vec<Value> {
    log.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))).collect()
}

#[test]
fn the_log_is_json_if_flag_variable_or_file_say_so() {
    let path = file("log.yaml", "log_format: json\n");
    let up = ["up", "--http", "127.0.0.1:0"];
    for command in [
        tollgate(&up).args(["--log-format", "json"]),
        tollgate(&up).env("TOLLGATE_LOG_FORMAT", "json"),
        tollgate(&up).arg("--config").arg(&path),
    ] {
        let running = Up::of(command);
        running.signal("TERM");
        let (status, log) = running.end();
        assert!(status.success(), "{log}");
        let lines = objects(&log);
        let stopped = lines.last().expect("a line");
        assert_eq!(
            (&stopped["level"], &stopped["message"]),
            (&"INFO".into(), &"stopped; calls allowed: 0, denied: 0".into())
        );
        assert!(lines.iter().all(|line| line["timestamp"].is_string()), "{log}");
    }
    let refused = finish(tollgate(&["aggregator", "--log-format", "json"]).env("NO_COLOR", ""));
    assert_eq!((refused.exit, &objects(&refused.err)[0]["level"]), (2, &"ERROR".into()));
    let refused = finish(&mut tollgate(&["agent", "--log-format", "xml"]));
    assert!(refused.exit == 2 && refused.err.contains("[possible values: text, json]"), "{}", refused.err);
    let shown = finish(tollgate(&["config", "aggregator"]).env("TOLLGATE_LOG_FORMAT", "json"));
    let line = shown.out.lines().find(|line| line.starts_with("log_format ")).expect("it is a setting");
    assert_eq!(line.split_whitespace().collect::<Vec<_>>(), ["log_format", "json", "TOLLGATE_LOG_FORMAT"]);
}
