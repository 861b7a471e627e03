//! The demo: a fleet, an abuser and an outage of the store, in ten seconds.
//!
//! Three production agents and the production aggregator run in wall time, over embedded parts or over real servers,
//! for five hundred callers and one abuser. In the middle the store becomes unavailable and recovers; at the end an
//! exact count of all admissions measures the error. The outage is a switch in this process even with real servers,
//! because others may use those.

mod store;
mod load;
mod record;
mod board;
mod summary;

use std::io::Write;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tollgate::store::{AnyStore, MemoryStore, RedisSettings};
use tollgate::{Agent, Quota, Rule, RuleSet};
use tollgate_aggregator::{Aggregator, WorkerSettings};
use tollgate_bus::Bus;
use tollgate_bus::embedded::EmbeddedBus;
use tollgate_bus::kafka::KafkaSettings;
use tollgate_core::clock::{Clock, Stopwatch, SystemClock};

use board::Board;
use record::Recorder;
use store::SwitchedStore;

use crate::error::ExperimentError;
use crate::servers::{RunName, clear_kafka, connect_kafka, connect_redis};

const AGENTS: u32 = 3;
const PARTITIONS: u32 = 4;
const CALLERS: u32 = 500;
const QUOTA_UNITS: u64 = 100;
const QUOTA_WIDTH_MS: u64 = 2_000;
const LENGTH: Duration = Duration::from_secs(10);
const STORE_FAILS_AT: Duration = Duration::from_secs(4);
const STORE_RECOVERS_AT: Duration = Duration::from_secs(7);

/// Runs the demo inside a tokio runtime and displays it on `out`: as a live table on a terminal, otherwise as plain lines.
/// A part without a server is embedded. On servers, keys and topics carry a name that only this run uses.
///
/// # Errors
/// If a named server does not answer, an agent does not start, or `out` cannot be written.
pub async fn run(
    out: &mut (dyn Write + Send),
    terminal: bool,
    redis: Option<RedisSettings>,
    kafka: Option<KafkaSettings>,
) -> Result<(), ExperimentError> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::start());
    let name = RunName::new("demo");
    let mut addresses = Vec::new();
    let store = match redis {
        Some(redis) => {
            let store = connect_redis(&name.redis(&redis), clock.clone()).await?;
            addresses.push(store.address().to_owned());
            AnyStore::Redis(store)
        }
        None => AnyStore::Memory(MemoryStore::new(clock.clone())),
    };
    let Some(kafka) = kafka else {
        let bus = EmbeddedBus::new(clock.clone(), PARTITIONS);
        return run_over(bus, store, clock, Board::new(out, terminal, addresses)).await;
    };
    addresses.push(format!("Kafka at {}", kafka.brokers));
    let kafka = name.kafka(&kafka);
    let bus = connect_kafka(&kafka)?;
    let done = run_over(bus.clone(), store, clock, Board::new(out, terminal, addresses)).await;
    tokio::task::spawn_blocking(move || clear_kafka(&bus, &kafka)).await.map_err(std::io::Error::other)?;
    done
}

fn quota() -> Quota {
    Quota::new(QUOTA_UNITS, QUOTA_WIDTH_MS).expect("neither is zero")
}

async fn run_over<B: Bus>(
    bus: B,
    store: AnyStore,
    clock: Arc<dyn Clock>,
    mut board: Board<'_>,
) -> Result<(), ExperimentError> {
    let settings = WorkerSettings::new("aggregator");
    let mut aggregator = Aggregator::start(&bus, settings, None, clock.clone())?;
    let store = Arc::new(SwitchedStore::new(store));
    let rules = RuleSet::new(1, [Rule::per("per-key", &["api_key"], quota()).strict()]);
    let recorder = Arc::new(Mutex::new(Recorder::new(quota())));
    let mut agents = Vec::new();
    for number in 1..=AGENTS {
        let builder = Agent::builder().node(format!("agent-{number}")).clock(clock.clone()).rules(rules.clone());
        let builder = builder.agents_expected(NonZeroU32::new(AGENTS).unwrap_or(NonZeroU32::MIN)).bus(bus.clone());
        let (recorder, clock) = (recorder.clone(), clock.clone());
        // All agents read the same signals; the lag of each is recorded once.
        let builder = match number {
            1 => builder.observe_signals(move |batch, _| recorder.lock().received(batch, clock.now())),
            _ => builder,
        };
        agents.push(builder.store(store.clone()).start_with_store()?);
    }
    board.begin()?;
    let since = Stopwatch::start();
    let callers = load::start(&agents, &recorder, since);
    let mut ticks = tokio::time::interval(board.interval());
    // The first tick is immediate.
    ticks.tick().await;
    while since.elapsed() < LENGTH {
        ticks.tick().await;
        let at = since.elapsed();
        let up = at < STORE_FAILS_AT || at >= STORE_RECOVERS_AT;
        if store.switch(up) {
            board.event(
                at,
                if up { "the store recovers, with its old counts" } else { "the store becomes unavailable" },
            )?;
        }
        let figures = recorder.lock().figures();
        board.show(at, &figures, up)?;
    }
    callers.join_all().await;
    for agent in &agents {
        agent.shutdown().await;
    }
    tokio::task::spawn_blocking(move || aggregator.stop()).await.map_err(std::io::Error::other)?;
    let summary = recorder.lock().summary();
    Ok(board.end(&summary)?)
}
