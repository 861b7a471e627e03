//! The agents of a run: two fleets over the same Redis, one with Kafka and one without.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::Mutex;
use tollgate::{Agent, KafkaSettings, RuleSet};
use tollgate_core::clock::Clock;

use super::limiting::{CallMix, Limiting};
use super::servers::FaultyServers;
use super::settings::{AGENTS, FLEET_SIZE, TOPIC_PREFIX};
use super::signal_receipts::SignalReceipts;
use crate::error::ExperimentError;

const STATE_INTERVAL: Duration = Duration::from_millis(2);

pub(super) struct FaultedFleet {
    pub(super) has_kafka: bool,
    pub(super) agents: Vec<Agent>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StateChange {
    pub(super) fleet: usize,
    pub(super) agent: usize,
    /// Time of the change, in ms since the epoch.
    pub(super) at_ms: u64,
    /// True if the breaker is open.
    pub(super) is_open: bool,
    /// True if the breaker is open or unsynced units wait for the store.
    pub(super) needs_store: bool,
}

/// Thread that records the changes of all agents' states.
pub(super) struct StateWatch {
    changes: Arc<Mutex<Vec<StateChange>>>,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl FaultedFleet {
    pub(super) fn start_all(
        servers: &FaultyServers,
        clock: &Arc<dyn Clock>,
        receipts: &SignalReceipts,
        mix: CallMix,
    ) -> Result<Vec<Self>, ExperimentError> {
        let fleets = [Some(receipts), None].into_iter();
        fleets.map(|receipts| Self::start(servers, clock, receipts, mix)).collect()
    }

    /// Starts the agents of one fleet. It has Kafka if receipts of its signals are recorded.
    fn start(
        servers: &FaultyServers,
        clock: &Arc<dyn Clock>,
        receipts: Option<&SignalReceipts>,
        mix: CallMix,
    ) -> Result<Self, ExperimentError> {
        let has_kafka = receipts.is_some();
        let rules = RuleSet::new(1, Limiting::rules(mix));
        let prefix = if has_kafka { "with-kafka:" } else { "alone:" };
        let redis = servers.redis_settings().prefixed(prefix);
        let agent = |number| -> Result<Agent, ExperimentError> {
            let mut builder = Agent::builder().node(format!("agent-{number}")).clock(clock.clone());
            builder = builder.rules(rules.clone()).redis(redis.clone()).agents_expected(FLEET_SIZE);
            if let Some(receipts) = receipts.cloned() {
                let kafka = KafkaSettings::new(&servers.bus.brokers());
                builder = builder.kafka(kafka.prefixed(TOPIC_PREFIX));
                builder = builder.observe_signals(move |batch, _| receipts.received(number, batch.partition));
            }
            Ok(builder.start()?)
        };
        Ok(Self { has_kafka, agents: (0..AGENTS).map(agent).collect::<Result<_, _>>()? })
    }

    /// Returns true if the fleet can limit with and without the store.
    pub(super) fn is_ready(&self) -> bool {
        let engines = || self.agents.iter().map(Agent::engine);
        engines().all(|engine| engine.has_reached_store() && (!self.has_kafka || engine.has_read_signals()))
    }

    pub(super) async fn stop(&self) {
        for agent in &self.agents {
            agent.shutdown().await;
        }
    }
}

impl StateWatch {
    pub(super) fn start(fleets: &[FaultedFleet], clock: Arc<dyn Clock>) -> std::io::Result<Self> {
        let (changes, stop) = (Arc::<Mutex<Vec<StateChange>>>::default(), Arc::new(AtomicBool::new(false)));
        let agents: Vec<(usize, usize, Agent)> = fleets
            .iter()
            .enumerate()
            .flat_map(|(fleet, of)| of.agents.iter().cloned().enumerate().map(move |(agent, of)| (fleet, agent, of)))
            .collect();
        let (record, stopped) = (changes.clone(), stop.clone());
        let watch = move || {
            let mut last = vec![(false, false); agents.len()];
            while !stopped.load(Ordering::Relaxed) {
                for ((fleet, agent, of), last) in agents.iter().zip(&mut last) {
                    let (is_open, needs_store) = (of.engine().is_degraded(), of.engine().needs_store());
                    if *last != (is_open, needs_store) {
                        *last = (is_open, needs_store);
                        let (fleet, agent, at_ms) = (*fleet, *agent, clock.now().as_ms());
                        record.lock().push(StateChange { fleet, agent, at_ms, is_open, needs_store });
                    }
                }
                std::thread::sleep(STATE_INTERVAL);
            }
        };
        let thread = std::thread::Builder::new().name("failure-states".into()).spawn(watch)?;
        Ok(Self { changes, stop, thread })
    }

    /// Ends the thread and returns the changes in order.
    pub(super) fn stop(self) -> Vec<StateChange> {
        self.stop.store(true, Ordering::Relaxed);
        if self.thread.join().is_err() {
            tracing::error!("the thread that reads the agents' states panicked; openings of the breaker are missing");
        }
        std::mem::take(&mut self.changes.lock())
    }
}
