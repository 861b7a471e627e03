//! The servers of a run, and what a fault does to one Redis.

use std::fs;
use std::io;
use std::thread::sleep;
use std::time::Duration;

use tollgate::store::RedisSettings;
use tollgate_core::clock::Clock;
use tollgate_servers::{Redis, ServerError, free_port};

use super::bus_servers::BusServers;
use super::deployment::RedisDeployment;
use super::faults::ServerFault;
use super::programs::Programs;
use super::proxy::{Network, Proxy};
use super::replicated_redis::ReplicatedRedis;

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

pub(super) struct FaultyServers {
    redis: FaultyRedis,
    pub(super) bus: BusServers,
}

enum FaultyRedis {
    Single(SingleRedis),
    Replicated(Box<ReplicatedRedis>),
}

/// One Redis behind a proxy.
struct SingleRedis {
    redis: Redis,
    proxy: Proxy,
}

impl FaultyServers {
    pub(super) fn start(programs: &Programs, deployment: RedisDeployment) -> Result<Self, ServerError> {
        let redis = if deployment.fails_over() {
            FaultyRedis::Replicated(Box::new(ReplicatedRedis::start(deployment, &programs.redis_server)?))
        } else {
            FaultyRedis::Single(SingleRedis::start(programs)?)
        };
        Ok(Self { redis, bus: BusServers::start(programs)? })
    }

    pub(super) fn redis_settings(&self) -> RedisSettings {
        match &self.redis {
            FaultyRedis::Single(single) => RedisSettings::new(&format!("redis://{}", single.proxy.address)),
            FaultyRedis::Replicated(replicated) => replicated.settings(),
        }
    }

    /// Begins a fault, waits, and ends it. Returns the instant, in ms since the epoch, at which a replica had taken over, or the server
    /// was back.
    pub(super) fn strike(&mut self, fault: ServerFault, clock: &dyn Clock) -> Result<u64, ServerError> {
        match &mut self.redis {
            FaultyRedis::Replicated(replicated) => return replicated.strike(fault, clock),
            FaultyRedis::Single(_) if fault.is_of_bus() => self.bus.strike(fault)?,
            FaultyRedis::Single(single) => single.strike(fault)?,
        }
        Ok(clock.now().as_ms())
    }
}

impl SingleRedis {
    fn start(programs: &Programs) -> Result<Self, ServerError> {
        let redis = Redis::try_start(&programs.redis_server, &REDIS_SETTINGS)?;
        let proxy = Proxy::start(redis.port())?;
        Ok(Self { redis, proxy })
    }

    fn strike(&mut self, fault: ServerFault) -> Result<(), ServerError> {
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
            _ => {}
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
