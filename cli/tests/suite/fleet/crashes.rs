//! exactly-counted with kill -9: agents, aggregators, Redis and Kafka die at random instants, and the counts still equal the
//! log.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};

use fastrand::Rng;
use tollgate_bus::kafka::KafkaBus;
use tollgate_servers::scaled;

use super::fleet_of_processes::{Fleet, Member, have_read_all};
use super::log;
use crate::support::{Client, wait_for};

const CALLS: u64 = 200_000;
const KEYS: u64 = 200;
const AGENTS: [&str; 2] = ["gw-1", "gw-2"];
/// Number of deaths of each victim: both agents, both aggregators, Redis and Kafka.
const KINDS: u64 = 6;
const DEATHS_OF_EACH: u64 = 2;
const DEATHS: u64 = KINDS * DEATHS_OF_EACH;
/// Rules that deny half of the calls, and admit all while the store is unavailable.
const RULES: &str = "
rules:
  - { name: per-key, per: [api_key], quota: QUOTA/1h, consistency: strict, on_failure: open }
  - { name: exact, match: { api_key: key-1* }, per: [api_key], quota: 60/1h, algorithm: sliding_log, on_failure: open }
";

/// Processes and servers that are killed.
struct Victims {
    fleet: Fleet,
    agents: [Member; 2],
    aggregators: [Member; 2],
    bus: KafkaBus,
    /// Answered calls of each agent that died with it before they reached the log.
    lost: [u64; 2],
}

impl Victims {
    fn kill(&mut self, kind: u64, progress: &Progress) -> &'static str {
        match kind {
            which @ (0 | 1) => {
                let which = usize::from(which == 1);
                self.wait_until_logged(which, progress.answered(which));
                self.agents[which].kill();
                self.lost[which] = progress.answered(which).saturating_sub(self.logged(which));
                self.agents[which].restart();
                AGENTS[which]
            }
            which @ (2 | 3) => {
                let aggregator = &mut self.aggregators[usize::from(which == 3)];
                aggregator.kill();
                aggregator.restart();
                "an aggregator"
            }
            4 => {
                self.fleet.redis.kill();
                self.fleet.redis.restart();
                "Redis"
            }
            _ => {
                self.fleet.kafka.kill();
                self.fleet.kafka.restart();
                "Kafka"
            }
        }
    }

    fn logged(&self, agent: usize) -> u64 {
        log::calls_of(&self.bus, AGENTS[agent])
    }

    /// Waits until all answered calls of an agent are in the log, except those that died with it before.
    fn wait_until_logged(&self, agent: usize, answered: u64) {
        wait_for(&format!("{answered} calls of {} in the log", AGENTS[agent]), || {
            (self.logged(agent) + self.lost[agent] >= answered).then_some(())
        });
    }
}

/// Progress of the load, and the number of calls before the next death.
struct Progress {
    made: AtomicU64,
    may: AtomicU64,
    answered: [AtomicU64; 2],
}

impl Progress {
    fn answered(&self, agent: usize) -> u64 {
        self.answered[agent].load(Ordering::Relaxed)
    }

    fn made(&self) -> u64 {
        self.made.load(Ordering::Relaxed)
    }

    /// Waits as long as there is progress.
    fn wait_until(&self, moment: u64) {
        while self.made() < moment {
            let before = self.made();
            wait_for("another call", || (self.made() > before).then_some(()));
        }
    }
}

/// Calls one agent until all callers together have made enough calls. While the agent is dead it waits.
fn load(agent: usize, address: SocketAddr, progress: &Progress, calls: u64) {
    let mut rng = Rng::with_seed(agent as u64 + 1);
    let mut client: Option<Client> = None;
    while progress.made() < calls {
        let may = || progress.made() < progress.may.load(Ordering::Relaxed);
        wait_for("the next death", || may().then_some(()));
        let key = format!("key-{}", rng.u64(0..KEYS));
        let asked = client.as_mut().and_then(|client| client.try_check(&key));
        if asked.is_some() {
            progress.answered[agent].fetch_add(1, Ordering::Relaxed);
            progress.made.fetch_add(1, Ordering::Relaxed);
        } else {
            client = Some(wait_for("an agent", || Client::connect(address)));
        }
    }
}

/// E2, I11, exactly-counted: the counts of both aggregators equal a recount of the log after every death.
#[test]
fn counts_equal_the_log_whatever_dies() {
    let calls = scaled(CALLS);
    let seed = std::env::var("TOLLGATE_TEST_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(4);
    println!("seed {seed}; TOLLGATE_TEST_SEED sets another");
    let mut rng = Rng::with_seed(seed);
    let fleet = Fleet::start("crashes", &RULES.replace("QUOTA", &(calls / KEYS / 2).to_string()));
    let agents = AGENTS.map(|name| fleet.agent(name));
    let aggregators = [fleet.aggregator("counting-1"), fleet.aggregator("counting-2")];
    aggregators.iter().for_each(Member::wait_until_ready);
    let addresses = agents.each_ref().map(Member::address);
    let bus = log::bus(&fleet.kafka.brokers());
    let mut victims = Victims { fleet, agents, aggregators, bus, lost: [0; 2] };
    let mut kinds: Vec<u64> = (0..DEATHS).map(|death| death % KINDS).collect();
    rng.shuffle(&mut kinds);

    let mut moments: Vec<u64> = (0..DEATHS).map(|_| rng.u64(0..calls * 9 / 10)).collect();
    moments.sort_unstable();
    let progress = Progress { made: AtomicU64::new(0), may: AtomicU64::new(0), answered: Default::default() };
    let ahead = calls / DEATHS / 2;
    std::thread::scope(|scope| {
        for (agent, address) in addresses.into_iter().enumerate() {
            let progress = &progress;
            scope.spawn(move || load(agent, address, progress, calls));
        }
        for (moment, kind) in moments.into_iter().zip(kinds) {
            // Calls go on while something is dead, but not so far that nothing is left for the next one.
            progress.may.store(moment + ahead, Ordering::Relaxed);
            progress.wait_until(moment);
            let (dead, since) = (victims.kill(kind, &progress), progress.made() - moment);
            println!("at call {moment} {dead} was killed, back {since} calls later");
        }
        progress.may.store(u64::MAX, Ordering::Relaxed);
    });
    for agent in 0..AGENTS.len() {
        victims.wait_until_logged(agent, progress.answered(agent));
    }
    victims.agents.iter_mut().for_each(|agent| drop(agent.stop()));
    let ends = log::ends(&victims.bus);
    wait_for("the aggregators to read all", || have_read_all(&victims.aggregators, &ends).then_some(()));
    let counted = log::count(&victims.bus);
    println!("{} batches in the log, {} of them twice", counted.batches, counted.duplicates);
    for aggregator in &victims.aggregators {
        let held = aggregator.counters();
        assert_eq!(held.len(), counted.counters.len(), "any of them shows the whole");
        for (id, units) in &counted.counters {
            assert_eq!(held.get(id), Some(units), "counter {id}");
        }
    }
    assert!(counted.counters.values().any(|units| units.admitted > 0 && units.denied > 0), "something happened");
    // A killed agent loses the calls that it answered after the log was last seen to hold all its calls. That was at
    // the moment of the death or later, and the load goes at most `ahead` calls past that moment.
    let lost_max = 2 * DEATHS_OF_EACH * (ahead + 2);
    let (answered, in_log) = (progress.made(), counted.by_agent.values().sum::<u64>());
    println!("{answered} calls were answered, {in_log} are in the log, {:?} died with the agents", victims.lost);
    assert!(
        in_log + lost_max >= answered,
        "{in_log} of {answered} calls in the log, but {lost_max} at most may be lost"
    );
}
