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
        (&["up", "--http", "127.0.0.1:0"], "nonsense=5", "no line is from `nonsense`; write off, error, warn"),
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
        let mut running = Up::of(command);
        running.signal("TERM");
        assert_eq!(running.line(), "", "hints are for people");
        let (status, log) = running.end();
        assert!(status.success(), "{log}");
        let lines = objects(&log);
        let stopped = lines.last().expect("a line");
        assert_eq!(
            (&stopped["level"], &stopped["message"]),
            (&"INFO".into(), &"stopped; calls allowed: 0, denied: 0".into())
        );
        let started = lines.iter().find(|line| line["message"] == "the agent is started").expect("a start line");
        assert!(started["http"].as_str().is_some_and(|url| url.starts_with("http://127.0.0.1:")), "{started}");
        assert_eq!((&started["version"], &started["rules"]), (&env!("CARGO_PKG_VERSION").into(), &1.into()));
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

/// Also before the log has started, and when the process ends with an error.
#[test]
fn each_line_of_standard_error_is_json() {
    let broken = file("log-broken.yaml", "rules:\n- { name: a, per: [ip], quota: 0/s }\n- { name: b, quota: x }\n");
    let broken = broken.to_str().expect("UTF-8");
    for (args, variables, told) in [
        (&["up", "--bogus"][..], &[][..], "unexpected argument '--bogus'"),
        (&["up", "--http", "nowhere"], &[], "invalid value 'nowhere'"),
        (&["up", "--rules", broken], &[("TOLLGATE_KAFAK", "x")], "quota"),
        (&["up"], &[("TOLLGATE_LOG", "nonsense=5")], "no line is from `nonsense`"),
        (&["aggregator"], &[], "an aggregator needs --kafka"),
        (&["agent", "--config", "/nowhere"], &[], "/nowhere"),
    ] {
        let run = |format: &[&str], variables: &[(&str, &str)]| {
            let ended = finish(tollgate(args).args(format).envs(variables.iter().copied()));
            let lines = objects(&ended.err);
            let last = lines.last().expect("a line");
            assert_eq!((ended.exit, &last["level"]), (2, &"ERROR".into()), "{args:?}: {}", ended.err);
            assert!(last["message"].as_str().is_some_and(|text| text.contains(told)), "{args:?}: {}", ended.err);
            assert!(!ended.err.contains("\\n"), "{args:?}: {}", ended.err);
        };
        run(&["--log-format", "json"], variables);
        run(&[], &[variables, &[("TOLLGATE_LOG_FORMAT", "json")]].concat());
    }
}

/// A log has one line for an event, and the sign for a line break in none.
#[test]
fn the_problems_of_a_reloaded_file_are_one_line() {
    let rules = file("log-reload.yaml", "rules: [{ name: a, per: [ip], quota: 1/s }]");
    let mut up = Up::start(&["--rules", rules.to_str().expect("UTF-8")]);
    let mut log = up.log();
    file("log-reload.yaml", "rules: [{ name: a, per: [ip], quota: 0/s }, { name: b, quota: x }]");
    let rejected = log.find(|line| line.contains("rules rejected")).expect("a line");
    assert!(rejected.contains("it is reloaded automatically: ") && !rejected.contains("\\n"), "{rejected}");
    assert_eq!(rejected.matches("log-reload.yaml:1: ").count(), 3, "{rejected}");
}

#[test]
fn signals_for_the_rotation_of_logs_do_not_end_the_process() {
    let mut up = Up::start(&[]);
    let mut log = up.log();
    for name in ["USR1", "USR2"] {
        up.signal(name);
        let told = log.find(|line| line.contains("changes nothing")).expect("a line");
        assert!(told.contains(&format!("SIG{name} ")), "{told}");
    }
    assert_eq!(up.client().check("k1").status, 200);
}
