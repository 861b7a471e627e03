//! Origins of settings, and refused settings.

use crate::support::{file, finish, tollgate};

/// Returns the value and origin of one setting, as `tollgate config` prints them.
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
    let bytes = config["rollups_bytes_per_caller_and_day"].as_u64().unwrap();
    assert!((300_000..700_000).contains(&bytes), "{bytes}");
    let text = finish(&mut tollgate(&["config", "aggregator"]));
    assert!(text.out.contains(&format!("{} MB a day for 1,000 of them.", bytes / 1_000)), "{}", text.out);
}

/// A default that is not a value of its flag is shown as well, in the words of the help.
#[test]
fn the_default_of_agents_expected_is_shown_in_the_help_and_as_a_setting() {
    for command in ["up", "agent"] {
        let help = finish(&mut tollgate(&[command, "--help"]));
        let words = help.out.split_whitespace().collect::<Vec<_>>().join(" ");
        let expected = "until heartbeats arrive [default: 10; 1 for `up` without --kafka]";
        assert!(words.contains(expected), "{}", help.out);
        let said = finish(&mut tollgate(&["config", command]));
        assert_eq!(shown(&said.out, "agents_expected").join(" "), "10; 1 for `up` without --kafka default");
        assert_eq!(shown(&said.out, "node"), ["agent-RANDOM", "default"]);
    }
    let said = finish(&mut tollgate(&["config", "agent", "--agents-expected", "3"]));
    assert_eq!(shown(&said.out, "agents_expected"), ["3", "--agents-expected"]);
    assert_eq!(shown(&said.out, "state_dir"), ["-"]);
}

#[test]
fn a_broken_file_is_reported_with_file_and_line() {
    let refuse = |text: &str| {
        let path = file("broken.yaml", text);
        let said = finish(&mut tollgate(&["agent", "--config", path.to_str().unwrap()]));
        assert_eq!((said.exit, &*said.out), (2, ""), "{}", said.err);
        said.err.replace(path.to_str().unwrap(), "tollgate.yaml").trim_end().to_owned()
    };
    insta::assert_snapshot!(refuse("\nhtpp: 127.0.0.1:1\n"), @"tollgate.yaml:2: unknown key `htpp`; did you mean `http`?");
    insta::assert_snapshot!(refuse("region: eu\nhttp: nowhere\n"), @"error: tollgate.yaml:2: `http` cannot be `nowhere`: write HOST:PORT, such as 127.0.0.1:8080, or unix:PATH");
    insta::assert_snapshot!(refuse("region: eu\nhttp: [127.0.0.1:1, 127.0.0.1:2]\n"), @"tollgate.yaml:2: `http` must be a single value");
    insta::assert_snapshot!(refuse("\nagents_expected: 0\n"), @"error: tollgate.yaml:2: `agents_expected` cannot be `0`: write a whole number from 1 to 4294967295");
    insta::assert_snapshot!(refuse("kafka_set:\n  - hunter2\n"), @"error: tollgate.yaml:2: a value of `kafka_set` cannot be used: write NAME=VALUE, such as security.protocol=SSL");
    insta::assert_snapshot!(refuse("redis: :hunter2@host\n"), @"error: tollgate.yaml:1: a value of `redis` cannot be used: not the address of a Redis (it is not a URL); write redis://[[user]:password@]host[:port][,host][/db], rediss:// for TLS, redis+sentinel://host,host/NAME, redis+cluster://host,host, or redis+unix:///path");
    let missing = finish(&mut tollgate(&["agent", "--config", "/nowhere.yaml"]));
    assert_eq!(missing.exit, 2);
    assert!(missing.err.contains("/nowhere.yaml: "), "{}", missing.err);
}

#[test]
fn a_refused_value_of_a_variable_is_reported_with_its_name() {
    let path = file("overridden.yaml", "http: 127.0.0.1:0\n");
    let refuse = |name: &str, value: &str, args: &[&str]| {
        let mut command = tollgate(&["agent", "--config", path.to_str().unwrap()]);
        let said = finish(command.args(args).env(name, value));
        assert_eq!((said.exit, &*said.out), (2, ""), "{}", said.err);
        said.err.lines().next().unwrap_or_default().to_owned()
    };
    insta::assert_snapshot!(refuse("TOLLGATE_HTTP", "nowhere", &[]), @"error: TOLLGATE_HTTP: `http` cannot be `nowhere`: write HOST:PORT, such as 127.0.0.1:8080, or unix:PATH");
    insta::assert_snapshot!(refuse("TOLLGATE_HTTP", "nowhere", &["--http", "there"]), @"error: invalid value 'there' for '--http <ADDR>': write HOST:PORT, such as 127.0.0.1:8080, or unix:PATH");
    insta::assert_snapshot!(refuse("TOLLGATE_REDIS", ":hunter2@host", &[]), @"error: TOLLGATE_REDIS: a value of `redis` cannot be used: not the address of a Redis (it is not a URL); write redis://[[user]:password@]host[:port][,host][/db], rediss:// for TLS, redis+sentinel://host,host/NAME, redis+cluster://host,host, or redis+unix:///path");
    insta::assert_snapshot!(refuse("TOLLGATE_LOG_FORMAT", "xml", &[]), @"error: TOLLGATE_LOG_FORMAT: `log_format` cannot be `xml`: write text or json");
    insta::assert_snapshot!(refuse("NO_COLOR", "1", &["--redis", "host:hunter2@"]), @"error: --redis: a value of `redis` cannot be used: not the address of a Redis (it is not a URL); write redis://[[user]:password@]host[:port][,host][/db], rediss:// for TLS, redis+sentinel://host,host/NAME, redis+cluster://host,host, or redis+unix:///path");
}

/// Flags that exclude each other are named as variables if they are, with a remedy that works.
#[test]
fn a_variable_that_excludes_a_flag_is_named() {
    let run = |variables: &[(&str, &str)], args: &[&str]| {
        let said = finish(tollgate(args).envs(variables.iter().copied()));
        (said.exit, said.err.lines().find(|line| line.starts_with("error:")).unwrap_or_default().to_owned())
    };
    let regions = ["up", "--regions", "3", "--http", "192.0.2.1:8080"];
    let fleet = [("TOLLGATE_REDIS", "redis://10.0.0.5"), ("TOLLGATE_KAFKA", "broker:9092")];
    let told = "error: --regions excludes TOLLGATE_REDIS and TOLLGATE_KAFKA of the environment; run `unset TOLLGATE_REDIS TOLLGATE_KAFKA`";
    assert_eq!(run(&fleet, &regions), (2, told.to_owned()));
    let (_, told) = run(&[], &regions);
    assert!(told.contains("192.0.2.1"), "without them, it goes on to listen: {told}");
    let (exit, told) = run(&[], &["up", "--regions", "3", "--redis", "redis://10.0.0.5"]);
    assert!(exit == 2 && told.contains("'--regions <N>' cannot be used with"), "{told}");
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
    for args in [
        &["rules", "publish", "../rules.yaml", "--redis", url][..],
        &["config", "agent", "--redis", url],
        &["up", "--redis", "unix:///run/redis.sock?db=1&pass=hunter2"],
        &["up", "--kafka-set", "sasl.username=u,sasl.password=hunter2"],
    ] {
        let said = finish(&mut tollgate(args));
        assert_eq!((said.exit, &*said.out), (2, ""), "{args:?}: {}", said.err);
        assert!(said.err.contains("holds a password") && !said.err.contains("hunter2"), "{args:?}: {}", said.err);
    }
}

#[test]
fn values_of_kafka_settings_may_hold_commas_and_are_not_repeated() {
    let set = "a.hosts=h:1,h:2,sasl.password=hunter2,hunter2,c.d=3";
    let said = finish(tollgate(&["config"]).env("TOLLGATE_KAFKA_SET", set));
    assert_eq!(shown(&said.out, "kafka_set")[0], "a.hosts=h:1,h:2,sasl.password=***,c.d=3");
    let path = file("commas.yaml", "kafka_set: ['a.hosts=h:1,h:2', 'sasl.password=hunter2,hunter2']\n");
    let said = finish(&mut tollgate(&["config", "--config", path.to_str().unwrap()]));
    assert_eq!(shown(&said.out, "kafka_set")[..2], ["a.hosts=h:1,h:2,", "sasl.password=***"]);
    let said = finish(tollgate(&["agent", "--limit", "1/s per ip"]).env("TOLLGATE_KAFKA_SET", "hunter2,=hunter2"));
    assert_eq!((said.exit, &*said.out), (2, ""));
    assert!(said.err.contains("NAME=VALUE") && !said.err.contains("hunter2"), "{}", said.err);
}

#[test]
fn an_empty_variable_is_none() {
    let empty =
        |args: &[&str], variables: &[&str]| finish(tollgate(args).envs(variables.iter().map(|name| (*name, ""))));
    let variables = [
        "TOLLGATE_CONFIG",
        "TOLLGATE_RULES",
        "TOLLGATE_LIMIT",
        "TOLLGATE_REDIS",
        "TOLLGATE_REDIS_PREFIX",
        "TOLLGATE_KAFKA",
        "TOLLGATE_KAFKA_PARTITIONS",
        "TOLLGATE_KAFKA_SET",
        "TOLLGATE_NODE",
        "TOLLGATE_REGION",
        "TOLLGATE_STATE_DIR",
        "TOLLGATE_AGENTS_EXPECTED",
        "TOLLGATE_DIGEST_KEY_FILE",
        "TOLLGATE_JWKS",
        "TOLLGATE_JWT_ISSUER",
        "TOLLGATE_JWT_AUDIENCE",
        "TOLLGATE_HTTP",
        "TOLLGATE_FORMAT",
    ];
    let (bare, with_empty) = (finish(&mut tollgate(&["config"])), empty(&["config"], &variables));
    assert_eq!((with_empty.exit, with_empty.out), (0, bare.out), "{}", with_empty.err);
    let (bare, with_empty) = (finish(&mut tollgate(&["agent"])), empty(&["agent"], &variables));
    assert_eq!((with_empty.exit, with_empty.err), (2, bare.err));
    let publish = empty(&["rules", "publish", "../rules.yaml"], &variables);
    assert!(publish.err.contains("name where the rules are published"), "{}", publish.err);
}

#[test]
fn rules_are_published_to_the_servers_of_the_file() {
    let path = file("publish.yaml", "redis: 10.0.0.5\nkafka: 127.0.0.1:1\nkafka_set: [security.protocol=NONE]\n");
    let publish = ["--config", path.to_str().unwrap(), "rules", "publish", "../rules.yaml"];
    let said = finish(&mut tollgate(&publish));
    assert_eq!((said.exit, said.err.contains("redis://")), (2, true), "{}", said.err);
    let said = finish(tollgate(&publish).env("TOLLGATE_REDIS", "redis://127.0.0.1:1"));
    assert_eq!((said.exit, said.err.contains("security.protocol")), (2, true), "{}", said.err);
}

#[test]
fn flags_that_exclude_each_other_are_refused_with_a_remedy() {
    let tls = if cfg!(feature = "kafka-tls") { "/nowhere: No such file" } else { "--features kafka-tls" };
    for (args, word) in [
        (
            &["agent", "--kafka", "127.0.0.1:1", "--limit", "1/s per ip"][..],
            "--redis URL, or write `consistency: eventual`",
        ),
        (&["agent", "--redis", "10.0.0.5", "--http", "127.0.0.1:0"], "redis://"),
        (&["aggregator"], "--kafka"),
        (&["aggregator", "--kafka", "127.0.0.1:1", "--threshold", "120%"], "100%"),
        (&["aggregator", "--kafka", "h:1", "--kafka-ca", "/nowhere"], tls),
        (&["agent", "--limit", "1/s per ip", "--digest-key-file", "/nowhere"], "`tollgate digest-key /nowhere`"),
        (&["agent", "--limit", "1/s per ip", "--jwks", "/nowhere"], "/nowhere: "),
        (&["up", "--jwt-issuer", "https://id.example"], "--jwks FILE"),
        (&["rules", "publish", "../rules.yaml"], "--kafka"),
        (&["agent"], "--rules FILE or --limit"),
        (&["agent"], "--redis URL"),
        (&["agent", "--limit", "1/s per ip", "--rules", "rules.yaml"], "leave one out\n"),
        (&["agent", "--agents-expected", "0"], "a whole number from 1"),
    ] {
        let said = finish(&mut tollgate(args));
        assert_eq!((said.exit, &*said.out), (2, ""), "{args:?}: {}", said.err);
        assert!(said.err.contains(word), "{args:?}: {}", said.err);
    }
}

/// A file that holds something else is not to be overwritten.
#[test]
fn a_foreign_digest_key_file_is_refused_without_the_advice_to_overwrite_it() {
    let path = file("id_rsa", "-----BEGIN PRIVATE KEY-----\n");
    let path = path.to_str().unwrap();
    let said = finish(&mut tollgate(&["agent", "--limit", "1/s per ip", "--digest-key-file", path]));
    assert_eq!((said.exit, &*said.out), (2, ""), "{}", said.err);
    insta::assert_snapshot!(said.err.replace(path, "id_rsa").trim_end(), @"error: id_rsa: this is no digest key, which is 32 hexadecimal digits; check the path, or create a key in a new file with `tollgate digest-key`");
}

/// `gateway` is a flag, a variable and a key, with a closed set of names.
#[test]
fn the_gateway_is_a_setting() {
    let path = file("gateway.yaml", "gateway: caddy\n");
    let of_file = finish(&mut tollgate(&["--config", path.to_str().unwrap(), "config", "up"]));
    assert_eq!(shown(&of_file.out, "gateway"), ["caddy".to_owned(), format!("{}:1", path.display())]);
    let mut command = tollgate(&["--config", path.to_str().unwrap(), "config", "agent"]);
    let of_variable = finish(command.env("TOLLGATE_GATEWAY", "nginx"));
    assert_eq!(shown(&of_variable.out, "gateway"), ["nginx", "TOLLGATE_GATEWAY"]);
    assert_eq!(shown(&finish(&mut tollgate(&["config", "agent"])).out, "gateway"), ["any", "default"]);
    let refused = finish(tollgate(&["config", "agent"]).env("TOLLGATE_GATEWAY", "kong"));
    let expected =
        "TOLLGATE_GATEWAY: `gateway` cannot be `kong`: write nginx, ingress-nginx, envoy, traefik, caddy, haproxy, any";
    assert!(refused.exit == 2 && refused.err.contains(expected), "{}", refused.err);
}
