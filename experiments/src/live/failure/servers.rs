//! The servers of a run, and what a fault does to them.

use std::fs;
use std::io;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use tollgate_servers::{Kafka, Redis, Server, ServerError, ServerKind, free_port};

use super::faults::ServerFault;
use super::proxy::{Network, Proxy};
use super::settings::TOPIC_PREFIX;

/// Settings of Redis: it keeps its data when it is killed, and can be made to load slowly and to be busy.
const REDIS_SETTINGS: [&str; 12] = [
    "--appendonly",
    "yes",
    "--appendfsync",
    "no",
    "--auto-aof-rewrite-percentage",
    "0",
    "--enable-debug-command",
    "local",
    "--loading-process-events-interval-bytes",
    "1024",
    "--busy-reply-threshold",
    "50",
];
/// Folder with the data of Redis in its own folder.
const REDIS_DATA: &str = "appendonlydir";
const PASSWORD: &str = "unknown-to-the-agents";
/// Keys that Redis loads beside those of the agents, so that a load takes long.
const LOADED_KEYS: u128 = 3_000;
const AGGREGATORS: usize = 2;

/// Programs of the servers.
#[derive(Clone, Debug)]
pub struct Programs {
    /// Program of Redis.
    pub redis_server: String,
    /// Folder of Apache Kafka, with its jars in `libs`.
    pub kafka: PathBuf,
    /// Program `tollgate`, which runs as aggregator.
    pub tollgate: PathBuf,
}

/// Aggregator in a process of its own, so that it can be killed.
pub(super) struct AggregatorKind;

pub(super) struct FaultyServers {
    redis: Redis,
    pub(super) proxy: Proxy,
    pub(super) kafka: Kafka,
    aggregators: Vec<Server<AggregatorKind>>,
}

impl ServerKind for AggregatorKind {
    const NAME: &'static str = "the aggregator";

    fn is_ready(port: u16) -> bool {
        TcpStream::connect(("127.0.0.1", port)).is_ok()
    }
}

impl FaultyServers {
    pub(super) fn start(programs: &Programs) -> Result<Self, ServerError> {
        let redis = Redis::try_start(&programs.redis_server, &REDIS_SETTINGS)?;
        let proxy = Proxy::start(redis.port())?;
        let kafka = Kafka::try_start(&programs.kafka)?;
        let brokers = kafka.brokers();
        let aggregator = |number| aggregator(&programs.tollgate, &brokers, number);
        let aggregators = (0..AGGREGATORS).map(aggregator).collect::<Result<_, _>>()?;
        Ok(Self { redis, proxy, kafka, aggregators })
    }

    /// Returns the address of Redis behind the proxy.
    pub(super) fn redis_url(&self) -> String {
        format!("redis://{}", self.proxy.address)
    }

    /// Begins a fault, waits, and ends it. Returns when the server is back.
    pub(super) fn strike(&mut self, fault: ServerFault) -> Result<(), ServerError> {
        let (redis, length) = (&mut self.redis, fault.length());
        match fault {
            ServerFault::None => sleep(length),
            ServerFault::Pause | ServerFault::LongPause => {
                redis.pause();
                sleep(length);
                redis.resume();
            }
            ServerFault::Kill => {
                redis.kill();
                sleep(length);
                redis.try_restart()?;
            }
            ServerFault::EmptyRestart => {
                redis.kill();
                fs::remove_dir_all(redis.folder().join(REDIS_DATA))?;
                sleep(length);
                redis.try_restart()?;
            }
            ServerFault::Oom => between(redis, length, "CONFIG SET maxmemory 1", "CONFIG SET maxmemory 0")?,
            ServerFault::ReadOnly => {
                let master = format!("REPLICAOF 127.0.0.1 {}", free_port());
                between(redis, length, &master, "REPLICAOF NO ONE")?;
            }
            ServerFault::Auth => {
                let set = format!("CONFIG SET requirepass {PASSWORD}\r\nCLIENT KILL TYPE normal SKIPME yes");
                between(redis, length, &set, &format!("AUTH {PASSWORD}\r\nCONFIG SET requirepass \"\""))?;
            }
            ServerFault::Loading => {
                let delay_us = length.as_micros() / LOADED_KEYS;
                let load = format!("CONFIG SET key-load-delay {delay_us}\r\nDEBUG RELOAD");
                redis.try_command(&format!("DEBUG POPULATE {LOADED_KEYS} filler 200"))?;
                redis.try_command(&load)?;
                redis.try_command("CONFIG SET key-load-delay 0")?;
            }
            ServerFault::Busy => {
                let redis = &*redis;
                std::thread::scope(|scope| {
                    // It is answered when it is killed.
                    scope.spawn(|| redis.try_command("EVAL \"while true do end\" 0"));
                    sleep(length);
                    redis.try_command("SCRIPT KILL")
                })?;
            }
            ServerFault::BlackHole => self.through(Network::BlackHole, length),
            ServerFault::LostAnswers => self.through(Network::LostAnswers, length),
            ServerFault::Late4 => self.through(Network::Delayed(Duration::from_millis(4)), length),
            ServerFault::Late20 => self.through(Network::Delayed(Duration::from_millis(20)), length),
            ServerFault::Late200 => self.through(Network::Delayed(Duration::from_millis(200)), length),
            ServerFault::BrokerPause => {
                self.kafka.pause();
                sleep(length);
                self.kafka.resume();
            }
            ServerFault::BrokerKill => {
                self.kafka.kill();
                sleep(length);
                self.kafka.try_restart()?;
            }
            ServerFault::BrokerRestart => {
                self.kafka.kill();
                self.kafka.try_restart()?;
            }
            ServerFault::AggregatorKill => {
                self.aggregators[0].kill();
                sleep(length);
                self.aggregators[0].try_restart()?;
            }
            ServerFault::AggregatorPause => {
                self.aggregators[0].pause();
                sleep(length);
                self.aggregators[0].resume();
            }
        }
        Ok(())
    }

    fn through(&self, network: Network, length: Duration) {
        self.proxy.set(network);
        sleep(length);
        self.proxy.set(Network::Delayed(Duration::ZERO));
    }
}

/// Runs one command of Redis at the beginning of a fault and one at its end.
fn between(redis: &Redis, length: Duration, begin: &str, end: &str) -> io::Result<()> {
    expect_ok(redis, begin)?;
    sleep(length);
    expect_ok(redis, end)
}

fn expect_ok(redis: &Redis, lines: &str) -> io::Result<()> {
    let answer = redis.try_command(lines)?;
    if answer.contains('-') {
        return Err(io::Error::other(format!("Redis refuses `{lines}`: {answer}")));
    }
    Ok(())
}

fn aggregator(tollgate: &Path, brokers: &str, number: usize) -> Result<Server<AggregatorKind>, ServerError> {
    let port = free_port();
    let (http, node) = (format!("127.0.0.1:{port}"), format!("aggregator-{number}"));
    Server::launch(port, |_| {
        let program = tollgate.display().to_string();
        let command = [
            &*program,
            "aggregator",
            "--kafka",
            brokers,
            "--kafka-prefix",
            TOPIC_PREFIX,
            "--http",
            &http,
            "--node",
            &node,
        ];
        Ok(command.map(ToOwned::to_owned).to_vec())
    })
}
