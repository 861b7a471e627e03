//! The demo: a fleet, an abuser and an outage of the store, in ten seconds.
//!
//! Three production agents and the production aggregator run in wall time, over embedded parts or over real servers,
//! for five hundred callers and one abuser. In the middle the store becomes unavailable and recovers; at the end an
//! exact count of all admissions measures the error. The outage is a switch in this process even with real servers,
//! because others may use those.

mod settings;
mod store;
mod load;
mod summary;
mod record;
mod board;

use std::io::Write;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tollgate::store::{AnyStore, ChargeStore, MemoryStore, RedisSettings};
use tollgate::{Agent, Rule, RuleSet};
use tollgate_aggregator::{Aggregator, WorkerSettings};
use tollgate_bus::Bus;
use tollgate_bus::embedded::EmbeddedBus;
use tollgate_bus::kafka::KafkaSettings;
use tollgate_command::shared_servers::{RunName, clear_kafka, connect_kafka, connect_redis};
use tollgate_core::algorithm::Algorithm;
use tollgate_core::clock::{Clock, Stopwatch, SystemClock};

use tollgate_core::window::Estimate;
use tollgate_engine::FleetPart;

use crate::board::Board;
use crate::demo::record::DemoRecord;
use record::SignalLags;
use settings::{AGENTS, LENGTH, QUOTA_WIDTH_MS, quota};
use store::SwitchedStore;

const PARTITIONS: u32 = 4;
/// Time between two drawings on a terminal.
const REDRAW: Duration = Duration::from_millis(250);
/// Maximum wait before the first call.
const JOIN_MAX: Duration = Duration::from_secs(5);
const JOIN_POLL: Duration = Duration::from_millis(20);
const STORE_FAILS_AT: Duration = Duration::from_secs(4);
const STORE_RECOVERS_AT: Duration = Duration::from_secs(7);

/// Runs the demo inside a tokio runtime and displays it on `out`: as a live table on a terminal, otherwise as plain lines.
/// A part without a server is embedded. On servers, keys and topics carry a name that only this run uses.
pub(super) async fn run(
    out: &mut (dyn Write + Send),
    terminal: bool,
    redis: Option<RedisSettings>,
    kafka: Option<KafkaSettings>,
) -> anyhow::Result<()> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::start());
    let name = RunName::new("demo");
    let mut addresses = Vec::new();
    let store = match redis {
        Some(redis) => {
            let store = connect_redis(&name.redis(&redis), clock.clone()).await?;
            addresses.push(store.address().to_owned());
            AnyStore::Redis(store)
        }
        None => AnyStore::Memory(Arc::new(MemoryStore::new(clock.clone()))),
    };
    let Some(kafka) = kafka else {
        let bus = EmbeddedBus::new(clock.clone(), PARTITIONS);
        return run_over(bus, store, clock, Board::new(out, terminal, REDRAW), &addresses).await;
    };
    addresses.push(format!("Kafka at {}", kafka.brokers));
    let kafka = name.kafka(&kafka);
    let bus = connect_kafka(&kafka)?;
    let done = run_over(bus.clone(), store, clock, Board::new(out, terminal, REDRAW), &addresses).await;
    tokio::task::spawn_blocking(move || clear_kafka(&bus, &kafka)).await?;
    done
}

/// Waits until each agent has its part of the quotas. Before, it denies calls that the store answers late.
async fn know_each_other<S: ChargeStore>(agents: &[Agent<S>]) {
    let part = NonZeroU32::new(AGENTS).map(FleetPart::OneOf);
    let is_known = || agents.iter().all(|agent| Some(agent.engine().fleet_part()) == part);
    let known = async {
        while !is_known() {
            tokio::time::sleep(JOIN_POLL).await;
        }
    };
    // A fleet whose bus does not answer begins without.
    let _ = tokio::time::timeout(JOIN_MAX, known).await;
}

async fn run_over<B: Bus>(
    bus: B,
    store: AnyStore,
    clock: Arc<dyn Clock>,
    mut board: Board<'_>,
    servers: &[String],
) -> anyhow::Result<()> {
    let settings = WorkerSettings::new("aggregator");
    let mut aggregator = Aggregator::start(&bus, settings, None, clock.clone())?;
    let store = Arc::new(SwitchedStore::new(store));
    // On a busy machine the store is late, and `bounded` rules admit callers nevertheless.
    let exact = Algorithm::SlidingWindow(Estimate::Conservative);
    let rule = Rule::per("per-key", &["api_key"], quota()).counted_by(exact);
    let sub_window_ms = rule.all_policies().next().map_or(QUOTA_WIDTH_MS, |policy| policy.window.sub_window_ms());
    let rules = RuleSet::new(1, [rule]);
    let (record, lags) = (Arc::new(Mutex::new(DemoRecord::default())), Arc::new(Mutex::new(SignalLags::new())));
    let mut agents = Vec::new();
    for number in 1..=AGENTS {
        let builder = Agent::builder().node(format!("agent-{number}")).clock(clock.clone()).rules(rules.clone());
        let builder = builder.agents_expected(NonZeroU32::new(AGENTS).unwrap_or(NonZeroU32::MIN)).bus(bus.clone());
        let (lags, clock) = (lags.clone(), clock.clone());
        // All agents read the same signals; the lag of each is recorded once.
        let builder = match number {
            1 => builder.observe_signals(move |batch, _| lags.lock().received(batch, clock.now())),
            _ => builder,
        };
        agents.push(builder.store(store.clone()).start_with_store()?);
    }
    know_each_other(&agents).await;
    board::begin(&mut board, servers)?;
    let since = Stopwatch::start();
    let callers = load::start(&agents, &record, since);
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
        let (figures, lag_ms) = (record::figures(&mut record.lock()), lags.lock().lag_ms.value_at_quantile(0.5));
        board::show(&mut board, at, &figures, lag_ms, up)?;
    }
    callers.join_all().await;
    for agent in &agents {
        agent.shutdown().await;
    }
    tokio::task::spawn_blocking(move || aggregator.stop()).await?;
    let summary = record::summary(&record.lock(), &lags.lock(), (quota(), sub_window_ms));
    Ok(board.write(&format!("\n{summary}"))?)
}
