//! What the demo notes: every decision, and when signals came.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use hdrhistogram::Histogram;
use parking_lot::Mutex;
use tollgate::{Decision, Quota, Source};
use tollgate_bus::{Bus, LogReader, ReadFrom, Topic};
use tollgate_core::clock::{Clock, Timestamp};
use tollgate_core::counter::CounterId;
use tollgate_core::messages::signals::SignalBatch;
use tollgate_wire::Record;

use super::summary::{OfSource, Summary};
use crate::oracle::Oracle;

/// The longest lag or latency that is told apart: ten seconds, in microseconds.
const MEASURED_US_MAX: u64 = 10_000_000;
/// How many callers the live view names.
const TOP_LEN: usize = 5;

/// Notes of one run.
pub(super) struct Recorder {
    quota: Quota,
    decisions: Vec<Noted>,
    viewed: usize,
    latency_us: HashMap<Source, Histogram<u64>>,
    lag_ms: Histogram<u64>,
}

/// The live view: what happened since the last one, and the leaders of the whole run.
#[derive(Clone, Debug, Default)]
pub(super) struct View {
    pub(super) allowed: u64,
    pub(super) denied: u64,
    pub(super) by_source: [u64; 4],
    pub(super) top: Vec<(u32, u64, u64)>,
    pub(super) lag_p50_ms: u64,
}

/// A thread that listens to signals as an agent does.
pub(super) struct Listening {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

#[derive(Clone, Copy)]
struct Noted {
    at: Timestamp,
    caller: u32,
    allowed: bool,
    source: Source,
}

fn histogram() -> Histogram<u64> {
    Histogram::new_with_max(MEASURED_US_MAX, 3).expect("bounds that are in order")
}

impl Recorder {
    pub(super) fn new(quota: Quota) -> Self {
        Self { quota, decisions: Vec::new(), viewed: 0, latency_us: HashMap::new(), lag_ms: histogram() }
    }

    pub(super) fn decided(&mut self, caller: u32, decision: &Decision, took: Duration) {
        let took_us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.latency_us.entry(decision.source).or_insert_with(histogram).saturating_record(took_us);
        self.decisions.push(Noted { at: decision.at, caller, allowed: decision.allowed, source: decision.source });
    }

    /// What happened since the last view.
    pub(super) fn view(&mut self) -> View {
        let mut view = View { lag_p50_ms: self.lag_ms.value_at_quantile(0.5), ..View::default() };
        for noted in &self.decisions[self.viewed..] {
            *(if noted.allowed { &mut view.allowed } else { &mut view.denied }) += 1;
            view.by_source[noted.source as usize] += 1;
        }
        self.viewed = self.decisions.len();
        let mut callers: HashMap<u32, (u64, u64)> = HashMap::new();
        for noted in &self.decisions {
            let (calls, denied) = callers.entry(noted.caller).or_default();
            *calls += 1;
            *denied += u64::from(!noted.allowed);
        }
        view.top = callers.into_iter().map(|(caller, (calls, denied))| (caller, calls, denied)).collect();
        view.top.sort_unstable_by_key(|(caller, calls, _)| (std::cmp::Reverse(*calls), *caller));
        view.top.truncate(TOP_LEN);
        view
    }

    /// Judges the whole run by an exact count.
    pub(super) fn summary(&mut self) -> Summary {
        // In the order of the store's time; of the same millisecond, in the order of the answers.
        self.decisions.sort_by_key(|noted| noted.at);
        let mut oracles: HashMap<u32, Oracle> = HashMap::new();
        let (mut over, mut under, mut worst) = (0, 0, 0);
        for noted in &self.decisions {
            let oracle = oracles.entry(noted.caller).or_insert_with(|| Oracle::new(self.quota));
            if noted.allowed {
                over += u64::from(oracle.admit(noted.at, 1));
                worst = worst.max(oracle.units().saturating_sub(self.quota.units()));
            } else {
                under += u64::from(oracle.has_room(noted.at, 1));
            }
        }
        let of_source = |source: Source| {
            let count = |allowed| self.decisions.iter().filter(|n| n.source == source && n.allowed == allowed).count();
            let latency = self.latency_us.get(&source);
            let quantile = |q| latency.map_or(0, |latency| latency.value_at_quantile(q));
            OfSource {
                source,
                allowed: count(true),
                denied: count(false),
                p50_us: quantile(0.5),
                p99_us: quantile(0.99),
            }
        };
        Summary {
            quota: self.quota,
            by_source: Source::ALL.map(of_source).into(),
            over_admitted: over,
            worst_excess: worst,
            under_admitted: under,
            signals: self.lag_ms.len(),
            lag_p50_ms: self.lag_ms.value_at_quantile(0.5),
            lag_p99_ms: self.lag_ms.value_at_quantile(0.99),
        }
    }
}

/// Listens to the signals and notes how old the newest charge in each is when it comes.
pub(super) fn listen<B: Bus>(
    bus: &B,
    clock: Arc<dyn Clock>,
    recorder: Arc<Mutex<Recorder>>,
) -> std::io::Result<Listening> {
    let partitions: Vec<_> = (0..bus.partitions(Topic::Signals)).collect();
    let mut signals = bus.reader(Topic::Signals, &partitions, ReadFrom::Next);
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = stop.clone();
    let mut newest: HashMap<CounterId, Timestamp> = HashMap::new();
    let listen = move || {
        while !stopped.load(Ordering::Relaxed) {
            for record in signals.poll(Duration::from_millis(50), 1_000) {
                let Ok(batch) = SignalBatch::decode(&record.payload) else {
                    continue;
                };
                for signal in &batch.signals {
                    // What is only said again has no lag.
                    if newest.insert(signal.counter, signal.newest_at) != Some(signal.newest_at) {
                        let lag_ms = clock.now().ms_since(signal.newest_at);
                        recorder.lock().lag_ms.saturating_record(lag_ms);
                    }
                }
            }
        }
    };
    let thread = std::thread::Builder::new().name("demo-listen".into()).spawn(listen)?;
    Ok(Listening { stop, thread })
}

impl Listening {
    pub(super) fn stop(self) {
        self.stop.store(true, Ordering::Relaxed);
        // A listener that died has noted what it heard until then.
        let _ = self.thread.join();
    }
}
