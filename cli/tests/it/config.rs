//! Where settings come from, and what is refused.

use crate::support::{file, finish, tollgate};

/// The value and origin of one setting, as `tollgate config` prints it.
fn shown(out: &str, key: &str) -> Vec<String> {
    let line = out.lines().find(|line| line.split_whitespace().next() == Some(key)).unwrap_or_else(|| panic!("{out}"));
    line.split_whitespace().skip(1).map(str::to_owned).collect()
}

#[test]
fn a_flag_wins_over_a_variable_over_the_file_over_the_default() {
    let path = file("tollgate.yaml", "http: 127.0.0.1:1111\nregion: eu\nnode: file\nkafka_set: [a.b=1, c.d=2]\n");
    let mut command = tollgate(&["--config", path.to_str().unwrap(), "config", "agent", "--node", "flag"]);
    let said = finish(command.env("TOLLGATE_NODE", "variable").env("TOLLGATE_REGION", "us"));
    assert_eq!(said.exit, 0, "{}", said.err);
    assert_eq!(shown(&said.out, "node"), ["flag", "--node"]);
    assert_eq!(shown(&said.out, "region"), ["us", "TOLLGATE_REGION"]);
    assert_eq!(shown(&said.out, "http"), ["127.0.0.1:1111".to_owned(), format!("{}:1", path.display())]);
    assert_eq!(shown(&said.out, "kafka_partitions"), ["8", "default"]);
    assert_eq!(shown(&said.out, "kafka_set")[..2], ["a.b=1,", "c.d=2"]);
    let json = finish(&mut tollgate(&["config", "--format", "json", "aggregator"]));
    let config: serde_json::Value = serde_json::from_str(&json.out).unwrap();
    let settings = config["settings"].as_array().unwrap();
    assert!(settings.iter().any(|s| s["key"] == "threshold" && s["value"] == "50%" && s["origin"] == "default"));
}

#[test]
fn a_broken_file_is_told_with_file_and_line() {
    let refuse = |text: &str| {
        let path = file("broken.yaml", text);
        let said = finish(&mut tollgate(&["agent", "--config", path.to_str().unwrap()]));
        assert_eq!((said.exit, &*said.out), (2, ""), "{}", said.err);
        said.err.replace(path.to_str().unwrap(), "tollgate.yaml").trim_end().to_owned()
    };
    insta::assert_snapshot!(refuse("\nhtpp: 127.0.0.1:1\n"), @"tollgate.yaml:2: unknown key `htpp`; did you mean `http`?");
    insta::assert_snapshot!(refuse("region: eu\nhttp: nowhere\n"), @"error: tollgate.yaml:2: `http` cannot be `nowhere`: write HOST:PORT, such as 127.0.0.1:8080");
    let missing = finish(&mut tollgate(&["agent", "--config", "/nowhere.yaml"]));
    assert_eq!(missing.exit, 2);
    assert!(missing.err.contains("/nowhere.yaml: "), "{}", missing.err);
}

#[test]
fn a_password_is_refused_on_a_command_line_and_never_shown() {
    let url = "redis://:hunter2@10.0.0.5:6379";
    let said = finish(&mut tollgate(&["agent", "--redis", url]));
    assert_eq!(said.exit, 2);
    assert!(said.err.contains("TOLLGATE_REDIS") && !said.err.contains("hunter2"), "{}", said.err);
    let said =
        finish(tollgate(&["config"]).env("TOLLGATE_REDIS", url).env("TOLLGATE_KAFKA_SET", "sasl.password=hunter2"));
    assert_eq!((said.exit, said.out.contains("hunter2")), (0, false), "{}", said.out);
    assert_eq!(shown(&said.out, "redis"), ["redis://:***@10.0.0.5:6379", "TOLLGATE_REDIS"]);
}

#[test]
fn what_cannot_work_together_is_refused_with_the_remedy() {
    for (args, word) in [
        (&["agent", "--kafka", "127.0.0.1:1"][..], "--redis"),
        (&["agent", "--redis", "10.0.0.5"], "redis://"),
        (&["aggregator"], "--kafka"),
        (&["aggregator", "--kafka", "127.0.0.1:1", "--threshold", "120%"], "100%"),
        (&["agent", "--redis", "redis://h", "--kafka", "h:1", "--kafka-set", "security.protocol=SSL"], "kafka-tls"),
        (&["agent", "--digest-key-file", "/nowhere"], "openssl rand"),
        (&["rules", "publish", "../rules.yaml"], "--kafka"),
    ] {
        let said = finish(&mut tollgate(args));
        assert_eq!((said.exit, &*said.out), (2, ""), "{args:?}: {}", said.err);
        assert!(said.err.contains(word), "{args:?}: {}", said.err);
    }
}
