//! Two regions under test: servers, agents and aggregators, and the link between them.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::thread;

use serde_json::Value;
use tollgate_servers::{Kafka, MirrorMaker, Proxy, Redis, free_port};

use super::calls::{quota, width_ms};
use crate::support::{Client, Up, file, tollgate, wait_for};

pub(crate) const KEY: &str = "k";

/// The ledger is in the Kafka of the first region, which the second one reaches by a proxy.
pub(crate) struct TwoRegions {
    pub(crate) link: Proxy,
    pub(crate) home: RegionServers,
    pub(crate) far: RegionServers,
    rules: PathBuf,
}

pub(crate) struct RegionServers {
    name: &'static str,
    redis: Redis,
    pub(crate) kafka: Kafka,
    agents: Vec<Up>,
    pub(crate) aggregators: Vec<Process>,
}

/// Aggregator that can be killed and restarted.
pub(crate) struct Process {
    args: Vec<String>,
    up: Option<Up>,
}

impl TwoRegions {
    /// Starts the servers, two agents for each region, an aggregator for the second one, and `home_aggregators` for the first.
    /// A region holds `floor_percent` of the quota always.
    pub(crate) fn start(name: &str, home_aggregators: usize, floor_percent: u64) -> Self {
        let mut regions = Self::servers(name, floor_percent);
        regions.launch(home_aggregators, &[]);
        regions
    }

    /// Starts the same with a `MirrorMaker` of these properties, in which the names stand for the brokers of the two regions. The
    /// second region reads the ledger from this topic of its own Kafka.
    pub(crate) fn start_mirrored(
        name: &str,
        floor_percent: u64,
        (properties, [home, far], topic): (&str, [&str; 2], &str),
    ) -> (Self, MirrorMaker) {
        let mut regions = Self::servers(name, floor_percent);
        assert!([home, far].iter().all(|name| properties.contains(name)), "the properties name the brokers");
        let properties = properties.replace(home, &regions.ledger_by_link());
        let mirror = MirrorMaker::start(&properties.replace(far, &regions.far.kafka.brokers()));
        regions.launch(1, &["--ledger-topic", topic]);
        (regions, mirror)
    }

    fn servers(name: &str, floor_percent: u64) -> Self {
        let rules = format!(
            "regions: {{ eu: {{ floor: {floor_percent}% }}, us: {{ floor: {floor_percent}% }} }}
rules:
  - {{ name: shared, per: [api_key], quota: {}/{}s, scope: global, sub_windows: 100, deadline: 100ms }}",
            quota(),
            width_ms() / 1_000
        );
        let link = Proxy::start();
        let (home, far) = thread::scope(|scope| {
            let far = scope.spawn(|| RegionServers::start("us", Kafka::start()));
            (RegionServers::start("eu", Kafka::start_behind(&link)), far.join().expect("no panic"))
        });
        Self { link, home, far, rules: file(&format!("{name}.yaml"), &rules) }
    }

    /// Starts aggregators and agents, and waits until both regions know the terms.
    fn launch(&mut self, home_aggregators: usize, far_flags: &[&str]) {
        let (ledger, link) = (self.home.kafka.brokers(), self.ledger_by_link());
        for _ in 0..home_aggregators {
            self.home.start_aggregator(&self.rules, &["--ledger", &ledger]);
        }
        self.far.start_aggregator(&self.rules, &[&["--ledger", &link], far_flags].concat());
        for region in [&mut self.home, &mut self.far] {
            region.start_agents(&self.rules);
        }
        wait_for("the terms in both regions", || {
            let knows = |region: &RegionServers| {
                region.budgets().is_some_and(|body| !body["rules"].as_array().is_some_and(Vec::is_empty))
            };
            (knows(&self.home) && knows(&self.far)).then_some(())
        });
    }

    /// Returns the address of the Kafka with the ledger, as the second region reaches it.
    fn ledger_by_link(&self) -> String {
        format!("127.0.0.1:{}", self.link.port())
    }

    /// Returns the number of the home aggregator that coordinates.
    pub(crate) fn coordinator(&self) -> usize {
        wait_for("a coordinator", || {
            let coordinator = self.home.budgets()?["coordinator"].as_str()?.to_owned();
            self.home.aggregators.iter().position(|process| process.args.contains(&coordinator))
        })
    }
}

impl RegionServers {
    fn start(name: &'static str, kafka: Kafka) -> Self {
        Self { name, redis: Redis::start(), kafka, agents: Vec::new(), aggregators: Vec::new() }
    }

    fn args(&self, command: &str, rules: &Path, node: &str) -> Vec<String> {
        let (redis, kafka, http) = (self.redis.url(), self.kafka.brokers(), format!("127.0.0.1:{}", free_port()));
        let rules = rules.display().to_string();
        let args = [command, "--region", self.name, "--redis", &redis, "--kafka", &kafka, "--rules", &rules];
        args.iter().chain(&["--http", &http, "--node", node]).map(ToString::to_string).collect()
    }

    fn start_agents(&mut self, rules: &Path) {
        for number in 0..2 {
            let args = self.args("agent", rules, &format!("{}-{number}", self.name));
            self.agents.push(Up::of(&mut tollgate(&args.iter().map(String::as_str).collect::<Vec<_>>())));
        }
        for agent in &self.agents {
            wait_for("an agent", || (agent.client().get("/readyz", &[]).status == 200).then_some(()));
        }
    }

    fn start_aggregator(&mut self, rules: &Path, more: &[&str]) {
        let node = format!("aggregator-{}-{}", self.name, self.aggregators.len());
        let mut process = Process { args: self.args("aggregator", rules, &node), up: None };
        process.args.extend(more.iter().map(ToString::to_string));
        process.restart();
        self.aggregators.push(process);
    }

    pub(crate) fn agents(&self) -> Vec<SocketAddr> {
        self.agents.iter().map(|agent| agent.address).collect()
    }

    /// Returns the answer of the first aggregator that runs to `/regions`.
    pub(crate) fn budgets(&self) -> Option<Value> {
        self.aggregators.iter().find_map(|process| process.get("/regions"))
    }
}

impl Process {
    /// Starts the process, which has ended.
    pub(crate) fn restart(&mut self) {
        self.up = Some(Up::of(&mut tollgate(&self.args.iter().map(String::as_str).collect::<Vec<_>>())));
    }

    fn get(&self, path: &str) -> Option<Value> {
        let answer = Client::connect(self.up.as_ref()?.address)?.get(path, &[]);
        (answer.status == 200).then(|| answer.json())
    }

    /// Sends SIGKILL.
    pub(crate) fn kill(&mut self) {
        self.up = None;
    }
}
