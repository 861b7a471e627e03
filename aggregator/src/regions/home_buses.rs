//! Buses of the topics that all regions share: the home cluster, and a mirror of it.
//!
//! The ledger and the usage have buses of their own, so that a missing topic of the usage does not stop the ledger.

use std::sync::Arc;

use parking_lot::Mutex;
use tollgate_bus::{Bus, BusError, Topic, supervise};

use crate::thread_group::ThreadGroup;

/// Buses of the topics that all regions share.
#[derive(Clone, Debug)]
pub struct RegionBuses<B> {
    /// Buses of the topic `ledger`.
    pub ledger: HomeBuses<B>,
    /// Buses of the topic `usage`.
    pub usage: HomeBuses<B>,
}

/// Buses of one of these topics.
#[derive(Clone, Debug)]
pub struct HomeBuses<B> {
    /// The home cluster, to which records are appended.
    pub home: B,
    /// A mirror from which records are read, if there is one.
    pub mirror: Option<B>,
}

impl<B: Bus> RegionBuses<B> {
    /// Returns one bus for both topics, without a mirror.
    pub fn on(bus: B) -> Self {
        let ledger = HomeBuses { home: bus, mirror: None };
        Self { usage: ledger.clone(), ledger }
    }
}

impl<B: Bus> HomeBuses<B> {
    /// Returns the bus from which records are read.
    pub(super) fn source(&self) -> &B {
        self.mirror.as_ref().unwrap_or(&self.home)
    }

    /// Starts threads that keep the buses prepared, and log their failures. `note` receives the error of the first one that cannot
    /// be used.
    pub(super) fn supervise(
        &self,
        topic: Topic,
        threads: &mut ThreadGroup,
        note: impl Fn(Option<String>) + Clone + Send + 'static,
    ) -> std::io::Result<()> {
        let buses: Vec<B> = std::iter::once(self.home.clone()).chain(self.mirror.clone()).collect();
        let errors: Arc<Mutex<Vec<Option<String>>>> =
            Arc::new(Mutex::new(vec![Some("not connected yet".into()); buses.len()]));
        for (number, bus) in buses.into_iter().enumerate() {
            let (errors, note) = (errors.clone(), note.clone());
            let notify = move |prepared: Result<(), &BusError>| {
                log_change(topic, number, prepared);
                let mut errors = errors.lock();
                errors[number] = prepared.err().map(ToString::to_string);
                note(errors.iter().flatten().next().cloned());
            };
            threads.start(|stop| supervise(bus, stop, notify))?;
        }
        Ok(())
    }
}

/// Logs the change of the bus of a topic, or of its mirror.
fn log_change(topic: Topic, number: usize, prepared: Result<(), &BusError>) {
    let bus = format!("{}topic `{}` of all regions", if number == 0 { "" } else { "mirror of the " }, topic.as_str());
    let (meanwhile, after) = if topic == Topic::Usage {
        let unseen = "the usage of the regions is not shown; no limit depends on it";
        (unseen, unseen)
    } else {
        ("this region keeps its units until their terms end, and then its floors", "this region has its floors only")
    };
    let flags = if number == 0 { "--ledger" } else { "--ledger-topic and --kafka" };
    match prepared {
        Ok(()) => tracing::info!("the {bus} is available"),
        Err(why) if why.is_transient() => {
            tracing::warn!(
                "waiting for the {bus}; check that its Kafka runs, and {flags}; until it is back, {meanwhile}: {why}"
            );
        }
        Err(why) => tracing::error!("the {bus} cannot be used, so {after}; correct what follows, or {flags}: {why}"),
    }
}
