//! The pump: the only loop of the aggregator. Poll, step, publish, on a thread of its own.
//!
//! It counts the partitions that are its own (all of them when no other aggregator can be there), replays what it needs
//! when it gains one, and answers questions about what it holds.

mod metrics;
mod part;
mod reach;
mod aside;
mod view;
mod others;
mod run;
mod answer;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use prometheus_client::registry::Registry;
use tollgate_bus::Bus;
use tollgate_core::clock::{Clock, Timestamp};

pub use aside::Aside;
pub use reach::Reach;
pub use view::{Filter, PartStatus, Shown, Status, View, Window};

/// How many counters are held unless told otherwise.
const COUNTERS_MAX_DEFAULT: usize = 1_000_000;
/// From which part of its quota on a counter is signalled unless told otherwise, in thousandths.
pub const THRESHOLD_PERMILLE_DEFAULT: u32 = 500;

/// What an aggregator is, and its caps.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The name by which it is told apart.
    pub id: Arc<str>,
    /// Which life of it this is.
    pub epoch: Timestamp,
    /// Where it is.
    pub region: Arc<str>,
    /// From which part of its quota on a counter is signalled, in thousandths.
    pub threshold_permille: u32,
    /// How many counters it holds at most, in all partitions together.
    pub counters_max: usize,
    /// Whether other aggregators may be on the same bus, with whom it shares the partitions.
    pub shares: bool,
    /// How far back it reads to restore its counts.
    pub reach: Reach,
    /// Where other aggregators find its HTTP, as host:port; empty when they do not.
    pub http: Arc<str>,
    /// Where records that cannot be read are written.
    pub asides: Option<PathBuf>,
}

/// A running aggregator; dropped, it stops.
pub struct Pump {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
    window: Window,
}

impl Settings {
    /// An aggregator of this name, alone on its bus, with the default threshold and cap.
    #[must_use]
    pub fn new(id: &str) -> Self {
        Self {
            id: id.into(),
            epoch: Timestamp::default(),
            region: "default".into(),
            threshold_permille: THRESHOLD_PERMILLE_DEFAULT,
            counters_max: COUNTERS_MAX_DEFAULT,
            shares: false,
            reach: Reach::default(),
            http: "".into(),
            asides: None,
        }
    }
}

impl Pump {
    /// Starts counting. A bus that is away is waited for.
    ///
    /// # Errors
    /// When the system gives it no thread.
    pub fn start<B: Bus>(
        bus: &B,
        settings: &Settings,
        clock: Arc<dyn Clock>,
        registry: &mut Registry,
    ) -> std::io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let (window, questions) = Window::open();
        let mut run = run::Run::new(bus.clone(), settings.clone(), clock, registry, questions);
        let keeper = run.keep_bus(stop.clone())?;
        let stopped = stop.clone();
        let pump = std::thread::Builder::new().name("tollgate-pump".into()).spawn(move || run.until(&stopped))?;
        Ok(Self { stop, threads: vec![keeper, pump], window })
    }

    /// A way to look at what is counted.
    #[must_use]
    pub fn window(&self) -> Window {
        self.window.clone()
    }

    /// Counts what is there, says it, and stops.
    pub fn stop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            thread.thread().unpark();
            if thread.join().is_err() {
                tracing::error!("the pump had died; its counts start anew with the log");
            }
        }
    }
}

impl Drop for Pump {
    fn drop(&mut self) {
        self.stop();
    }
}
