//! Tests of the deployment in containers that need no container engine.
//!
//! They read docker-compose.yml and deploy/Dockerfile and compare them with the binary and the sources. Then they run the
//! same commands as processes, with the same environment, beside a real Redis, a real Redis Cluster and a real Kafka. They do
//! not show that the image builds, nor how the images of others start.

pub(crate) mod file;
mod image;
mod stack;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tollgate_servers::wait_for;

use crate::support::{Client, finish, tollgate};
use file::Compose;
use image::Dockerfile;
use stack::Stack;

/// The agents and their published ports, as the head of docker-compose.yml names them.
const AGENTS: [(&str, u16); 2] = [("agent-1", 8180), ("agent-2", 8280)];
const AGGREGATOR: u16 = 8090;
/// Prometheus and Grafana, with the profile `dashboards`.
const DASHBOARDS: [(&str, u16); 2] = [("prometheus", 9090), ("grafana", 3000)];
/// Agents on the Redis Cluster, with the profile `cluster`.
const CLUSTER_AGENTS: [(&str, u16); 2] = [("cluster-agent-1", 8380), ("cluster-agent-2", 8480)];
/// Other services with the profile `cluster`.
const CLUSTER: [&str; 5] = ["certificates", "cluster", "redis-1", "redis-2", "redis-3"];
/// Quota of each key in rules.yaml, and the cost of one call of the test.
const QUOTA: u64 = 100;
const COST: u64 = 10;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace is above").to_owned()
}

/// Final base image: libc, libgcc and certificates of one Debian release, a user without rights, and no shell.
const DISTROLESS: &str = "gcr.io/distroless/cc-debian12:nonroot";

/// Returns true if the tag fixes a version. An image without such a tag may change at any time.
fn is_pinned(image: &str) -> bool {
    let version = image.rsplit_once(':').map_or("", |(_, tag)| tag.trim_start_matches('v'));
    version.starts_with(|c: char| c.is_ascii_digit())
}

#[test]
fn every_reference_in_the_compose_file_resolves() {
    let compose = Compose::read(&root());
    let services = compose.services();
    assert_eq!(compose.start_order().len(), services.len(), "each service starts once, after its dependencies");
    let mut published = BTreeSet::new();
    for service in &services {
        let name = service.name;
        assert!(is_pinned(&service.text("image")), "{name}: {}", service.text("image"));
        let is_of_dashboards = DASHBOARDS.iter().any(|(of_dashboards, _)| *of_dashboards == name);
        let of_cluster = CLUSTER_AGENTS.iter().map(|(agent, _)| agent).chain(&CLUSTER);
        let is_of_cluster = of_cluster.into_iter().any(|of_cluster| *of_cluster == name);
        let profiles = [("dashboards", is_of_dashboards), ("cluster", is_of_cluster)];
        let profiles: Vec<&str> = profiles.iter().filter(|(_, is_of)| *is_of).map(|(profile, _)| *profile).collect();
        assert_eq!(service.profiles(), profiles, "{name}");
        for (other, condition) in service.depends_on() {
            let other = compose.service(&other);
            let starts = other.profiles().is_empty() || other.profiles() == service.profiles();
            assert!(starts, "{name} waits for {}, which may not start", other.name);
            let needed = if other.ends() { "service_completed_successfully" } else { "service_healthy" };
            assert_eq!(condition, needed, "{name} waits for {}", other.name);
            assert_eq!(
                other.ends(),
                other.health().is_none(),
                "{}: a service that keeps running needs a health check",
                other.name
            );
        }
        for volume in service.volumes() {
            let there = volume.file.as_ref().map_or(compose.declares_volume(&volume.source), |path| path.exists());
            assert!(there, "{name}: {} does not exist", volume.source);
        }
        for port in service.ports() {
            assert!(published.insert(port.published), "{} is published twice", port.published);
            assert_eq!(port.address, "127.0.0.1", "{name} is published beyond this machine");
            assert_eq!(Some(port.inside), service.listens_on(), "{name}");
        }
    }
    let named = AGENTS.iter().chain(&DASHBOARDS).chain(&CLUSTER_AGENTS).map(|(_, port)| *port);
    let expected: BTreeSet<u16> = named.chain([AGGREGATOR]).collect();
    assert_eq!(published, expected);
    for agents in [AGENTS, CLUSTER_AGENTS] {
        let number = compose.service(agents[0].0).environment()["TOLLGATE_AGENTS_EXPECTED"].clone();
        assert_eq!(number, agents.len().to_string());
    }
}

#[test]
fn commands_know_every_variable_of_their_service() {
    let compose = Compose::read(&root());
    for service in compose.services().iter().filter(|service| service.is_of_this_image()) {
        let command = service.command();
        let args: Vec<&str> = command.iter().map(String::as_str).chain(["--help"]).collect();
        let help = finish(&mut tollgate(&args));
        assert_eq!(help.exit, 0, "{args:?}: {}", help.err);
        let known: BTreeSet<&str> = help.out.split(|c: char| !c.is_ascii_uppercase() && c != '_').collect();
        let environment = service.environment();
        for variable in environment.keys() {
            assert!(
                known.contains(&**variable),
                "{}: `tollgate {}` knows no {variable}",
                service.name,
                command.join(" ")
            );
        }
    }
}

#[test]
fn the_image_is_built_from_existing_sources_and_has_neither_root_nor_a_shell() {
    let (compose, dockerfile) = (Compose::read(&root()), Dockerfile::read(&root()));
    let [builder_base, last_base] = dockerfile.bases().collect::<Vec<_>>()[..] else { panic!("two stages") };
    assert!(is_pinned(builder_base) && builder_base.ends_with("-bookworm"), "{builder_base}: the libc of Debian 12");
    assert_eq!(last_base, DISTROLESS);
    let ignored = std::fs::read_to_string(root().join(".dockerignore")).unwrap();
    let copied = dockerfile.copied();
    for source in &copied {
        assert!(root().join(source).exists(), "there is no {source}");
        assert!(!ignored.lines().any(|line| line == *source), "{source} is copied, and ignored");
    }
    let manifest = std::fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let (_, members) = manifest.split_once("members = [").expect("the members of the workspace");
    let (members, _) = members.split_once(']').expect("the end of the members");
    for member in members.split('"').skip(1).step_by(2) {
        assert!(copied.iter().any(|source| Path::new(member).starts_with(source)), "{member} is not copied");
    }
    let [builder, last] = dockerfile.stages() else { panic!("two stages") };
    assert!(
        builder.iter().any(|line| line.contains("cargo build --release --locked -p tollgate-cli --features kafka-tls"))
    );
    let user = image::last(last, "USER").split(':').next().unwrap();
    assert!(user.parse::<u32>().is_ok_and(|id| id > 0), "{user} may be root");
    let exposed: Vec<u16> = image::last(last, "EXPOSE").split(' ').map(|port| port.parse().unwrap()).collect();
    assert!(!last.iter().any(|line| line.starts_with("RUN ")), "RUN needs a shell");
    let owner = format!("COPY --from=builder --chown={} ", image::last(last, "USER"));
    let of_user: Vec<&str> = last.iter().filter_map(|line| line.strip_prefix(&owner)?.split(' ').nth(1)).collect();
    let builds: Vec<_> = compose.services().iter().filter_map(file::Service::dockerfile).collect();
    assert_eq!(builds, [image::DOCKERFILE], "several builds of the same image name conflict");
    for service in compose.services().iter().filter(|service| service.is_of_this_image()) {
        assert!(service.entrypoint().is_empty(), "{}: the image has one program", service.name);
        let writable = |volume: &file::Volume| volume.is_read_only || of_user.contains(&&*volume.target);
        assert!(service.volumes().iter().all(writable), "{} cannot write its volumes", service.name);
        assert!(service.listens_on().is_none_or(|port| exposed.contains(&port)), "{}", service.name);
    }
    assert_eq!(image::last(last, "ENTRYPOINT"), r#"["tollgate"]"#);
    assert!(
        last.iter().any(|line| line.ends_with("/usr/local/bin/tollgate") && line.starts_with("COPY --from=builder"))
    );
}

/// B2, B6, D8, D9: one key has one quota at both agents, and the aggregator counts its calls.
#[test]
fn the_agents_of_the_compose_file_share_one_limit() {
    let stack = Stack::start(&Compose::read(&root()), &["agent-1", "agent-2", "aggregator"]);
    let mut agents = AGENTS.map(|(_, port)| stack.client(port));
    for (agent, (name, _)) in agents.iter_mut().zip(AGENTS) {
        assert_eq!(agent.get("/readyz", &[]).status, 200);
        let answer = agent.check("k1");
        assert_eq!((answer.status, answer.header("x-gateway-node")), (200, name));
    }
    let key = spend_once(&mut agents, "k");
    let mut aggregator = stack.client(AGGREGATOR);
    let counter = wait_for("the aggregator to count what was admitted", || {
        let counters = aggregator.get(&format!("/counters?rule=per-key&label={key}"), &[]).json();
        counters["counters"].as_array().unwrap().iter().find(|counter| counter["admitted"] == QUOTA).cloned()
    });
    assert_eq!(counter["quota"], QUOTA);
    for (name, log) in stack.stop() {
        for warning in ["maxmemory-policy", "a key that everyone knows", "cannot be saved", "no --redis"] {
            assert!(!log.contains(warning), "{name}: {log}");
        }
    }
}

/// B7, N8: the profile `cluster` needs no service but the digest key. Its certificates, its nodes and the command that joins them make
/// a Redis Cluster, on which one key has one quota at both agents. A second start keeps the certificates and the cluster.
#[test]
fn the_agents_of_the_profile_cluster_share_one_limit_over_tls() {
    let compose = Compose::read(&root());
    let names = CLUSTER_AGENTS.map(|(name, _)| name);
    let without_profile = compose.with_dependencies(&names).into_iter().filter(|service| service.profiles().is_empty());
    assert_eq!(without_profile.map(|service| service.name).collect::<Vec<_>>(), ["key"]);
    let mut stack = Stack::start(&compose, &names);
    let mut agents = CLUSTER_AGENTS.map(|(_, port)| stack.client(port));
    for (agent, (name, _)) in agents.iter_mut().zip(CLUSTER_AGENTS) {
        assert_eq!(agent.check("k1").header("x-gateway-node"), name);
        wait_for("decisions of all primaries", || {
            let health = agent.get("/healthz", &[]).json();
            let nodes = health["redis"].as_array().filter(|nodes| nodes.len() == 3)?;
            let are_up = nodes.iter().all(|node| node["connected"] == true);
            (are_up && health["status"] == "ok").then_some(())
        });
    }
    spend_once(&mut agents, "first");
    stack.work_again();
    spend_once(&mut agents, "second");
    for (name, log) in stack.stop() {
        for warning in ["maxmemory-policy", "a key that everyone knows", "no --redis", "ClusterDown"] {
            assert!(!log.contains(warning), "{name}: {log}");
        }
    }
}

/// Spends the quota of a new key with this beginning at both agents in turn, and returns the key.
fn spend_once(agents: &mut [Client; 2], beginning: &str) -> String {
    let mut attempts = 0..;
    wait_for("the store to answer all calls within their deadline", || {
        let key = format!("{beginning}{:03}", attempts.next().unwrap());
        spend(agents, &key).then_some(key)
    })
}

/// Spends a quota at both agents in turn. Returns true if the store decided all calls; panics if it decided wrongly.
fn spend(agents: &mut [Client; 2], key: &str) -> bool {
    let call = json!({ "descriptors": { "api_key": key }, "cost": COST }).to_string();
    let calls = QUOTA / COST + 2;
    let answers: Vec<Value> = (0..calls).map(|i| agents[usize::from(i % 2 == 1)].post(&call).json()).collect();
    if answers.iter().any(|answer| answer["source"] != "store" && answer["source"] != "local") {
        return false; // the machine was too slow for a deadline of 15 ms
    }
    for (i, answer) in (1..).zip(&answers) {
        let left = QUOTA.checked_sub(i * COST);
        assert_eq!(answer["allowed"], left.is_some(), "{answers:?}");
        assert_eq!(answer["remaining"], left.unwrap_or(0), "{answers:?}");
        assert!(left.is_none() || answer["source"] == "store", "{answer}");
    }
    true
}
