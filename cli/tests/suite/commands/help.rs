//! Help texts, as a newcomer sees them.

use crate::support::{finish, tollgate};

#[test]
fn the_bare_command_prints_a_first_step() {
    let bare = finish(&mut tollgate(&[]));
    assert_eq!((bare.exit, &*bare.err), (0, ""));
    insta::assert_snapshot!(bare.out, @r#"
    Rate limiting for fleets of API gateways

    Usage: tollgate [OPTIONS] [COMMAND]

    Commands:
      demo         Shows a fleet of agents, an abuser and an outage, in ten seconds
      replay       Shows the callers that rules would have limited, from access logs
      up           Starts a limiter: agent and aggregator in one process
      agent        Starts an agent: limits over Redis, publishes to Kafka, listens on HTTP
      aggregator   Starts an aggregator: counts the calls of all agents in Kafka and signals them
      check        Asks a running agent whether a call may pass
      quota        Shows what a caller has used and has left, under each rule that applies to its calls
      top          Shows the calls of a fleet: the rules, the callers with the most denials, the agents
      ready        Asks a running agent or aggregator whether it is ready
      regions      Shows the budgets of regions in global quotas, and the usage of all regions
      rules        Checks, shows, compares, imports and publishes rules files
      config       Shows the settings of a command and their origins
      digest-key   Creates the key of all digests in a new file
      completions  Prints the completions of commands and flags for a shell
      man          Writes a manual page for each command into a folder

    Options:
          --config <FILE>  Settings, as YAML: each flag is a key [env: TOLLGATE_CONFIG]
      -h, --help           Print help
      -V, --version        Print version

    Start here, no server is needed:
      tollgate demo                                a fleet, an abuser, an outage
      tollgate replay LOG --limit "60/min per ip"  the callers it would have limited
      tollgate up                                  a limiter on 127.0.0.1:8080
    "#);
}

#[test]
fn an_unknown_command_or_flag_is_a_usage_error() {
    for args in [&["upp"][..], &["up", "--htp", "x"], &["up", "--http", "nowhere"], &["rules"]] {
        let refused = finish(&mut tollgate(args));
        assert_eq!((refused.exit, &*refused.out), (2, ""), "{args:?}");
        assert!(!refused.err.is_empty());
    }
}

/// The laboratory is a program of its own. Its arguments may hold a password, so they are not repeated.
#[test]
fn experiment_tells_where_the_laboratory_is() {
    for args in [&["experiment"][..], &["experiment", "live", "lag", "--redis", "redis://:hunter2@h"]] {
        let told = finish(&mut tollgate(args));
        assert_eq!((told.exit, &*told.out), (2, ""), "{args:?}");
        assert!(told.err.contains("cargo run --release -p tollgate-lab"), "{}", told.err);
        assert!(!told.err.contains("hunter2"), "{}", told.err);
    }
}
