//! exactly-counted, with kill -9: agents, aggregators, Redis and Kafka die at random moments, and the counts are still those
//! of the log.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};

use fastrand::Rng;
use tollgate_experiments::size::scaled;

use crate::fleet::{Fleet, Member, have_read_all};
use crate::log;
use crate::support::{Client, wait_for};

const CALLS: u64 = 200_000;
const KEYS: u64 = 200;
/// So often something dies, on average.
const DEATHS: u64 = 12;
/// Half of the calls are denied; whoever asks while the store is away passes.
const RULES: &str = "
rules:
  - { name: per-key, per: [api_key], quota: QUOTA/1h, consistency: strict, on_failure: open }
  - { name: exact, match: { api_key: key-1* }, per: [api_key], quota: 60/1h, algorithm: sliding_log, on_failure: open }
";

/// What may die.
struct Victims {
    fleet: Fleet,
    agents: [Member; 2],
    aggregators: [Member; 2],
}

impl Victims {
    fn kill_one(&mut self, rng: &mut Rng) -> &'static str {
        match rng.u8(0..6) {
            which @ (0 | 1) => {
                let agent = &mut self.agents[usize::from(which)];
                agent.kill();
                agent.restart();
                "an agent"
            }
            which @ (2 | 3) => {
                let aggregator = &mut self.aggregators[usize::from(which) - 2];
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
}

/// How far the load has come, and how far it may go before the next death.
struct Progress {
    made: AtomicU64,
    may: AtomicU64,
}

impl Progress {
    fn made(&self) -> u64 {
        self.made.load(Ordering::Relaxed)
    }

    /// However long that takes, as long as there is progress.
    fn wait_until(&self, moment: u64) {
        while self.made() < moment {
            let before = self.made();
            wait_for("another call", || (self.made() > before).then_some(()));
        }
    }
}

/// Calls one agent until enough calls were made by all; who finds it dead waits until it is there again.
fn load(address: SocketAddr, progress: &Progress, calls: u64, seed: u64) {
    let mut rng = Rng::with_seed(seed);
    let mut client: Option<Client> = None;
    while progress.made() < calls {
        let may = || progress.made() < progress.may.load(Ordering::Relaxed);
        wait_for("the next death", || may().then_some(()));
        let key = format!("key-{}", rng.u64(0..KEYS));
        let asked = client.as_mut().and_then(|client| client.try_check(&key));
        if asked.is_some() {
            progress.made.fetch_add(1, Ordering::Relaxed);
        } else {
            client = Some(wait_for("an agent", || Client::connect(address)));
        }
    }
}

/// E2, I11, exactly-counted.
#[test]
fn counts_equal_the_log_whatever_dies() {
    let calls = scaled(CALLS);
    let seed = std::env::var("TOLLGATE_TEST_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(4);
    println!("seed {seed}; TOLLGATE_TEST_SEED sets another");
    let mut rng = Rng::with_seed(seed);
    let fleet = Fleet::start("crashes", &RULES.replace("QUOTA", &(calls / KEYS / 2).to_string()));
    let agents = [fleet.agent("gw-1"), fleet.agent("gw-2")];
    let aggregators = [fleet.aggregator("counting-1"), fleet.aggregator("counting-2")];
    aggregators.iter().for_each(Member::wait_until_ready);
    let addresses = agents.each_ref().map(Member::address);
    let mut victims = Victims { fleet, agents, aggregators };

    let mut moments: Vec<u64> = (0..DEATHS).map(|_| rng.u64(0..calls * 9 / 10)).collect();
    moments.sort_unstable();
    let progress = Progress { made: AtomicU64::new(0), may: AtomicU64::new(0) };
    std::thread::scope(|scope| {
        for (address, seed) in addresses.into_iter().zip(1..) {
            let progress = &progress;
            scope.spawn(move || load(address, progress, calls, seed));
        }
        for moment in moments {
            // Calls go on while something is dead, but not so far that nothing is left for the next one.
            progress.may.store(moment + calls / DEATHS / 2, Ordering::Relaxed);
            progress.wait_until(moment);
            let (dead, since) = (victims.kill_one(&mut rng), progress.made() - moment);
            println!("at call {moment} {dead} was killed, back {since} calls later");
        }
        progress.may.store(u64::MAX, Ordering::Relaxed);
    });
    victims.agents.iter_mut().for_each(|agent| drop(agent.stop()));
    let bus = log::bus(&victims.fleet.kafka.brokers());
    let ends = log::ends(&bus);
    wait_for("the aggregators to read all", || have_read_all(&victims.aggregators, &ends).then_some(()));
    let counted = log::count(&bus);
    println!("{} batches in the log, {} of them twice", counted.batches, counted.duplicates);
    for aggregator in &victims.aggregators {
        let held = aggregator.counters();
        assert_eq!(held.len(), counted.counters.len(), "any of them shows the whole");
        for (id, units) in &counted.counters {
            assert_eq!(held.get(id), Some(units), "counter {id}");
        }
    }
    assert!(counted.counters.values().any(|units| units.admitted > 0 && units.denied > 0), "something happened");
    assert!(counted.by_agent.values().sum::<u64>() > calls / 2, "most calls reached the log");
}
