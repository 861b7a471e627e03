//! Threads and tasks of an agent. They execute the effects of the engine's state machines and decide nothing.

#[cfg(feature = "bus")]
mod bus_writer;
#[cfg(feature = "bus")]
mod bus_threads;
mod deadline;
mod maintenance_task;

use std::sync::Arc;
use std::task::Wake;

use tollgate_core::clock::Timestamp;
use tollgate_core::messages::rules::Published;
use tollgate_core::rules::Generation;

#[cfg(feature = "bus")]
pub(crate) use bus_threads::{BusListeners, BusThreads, SignalObserver};
#[cfg(test)]
pub(crate) use deadline::TURNS_AFTER_DEADLINE;
pub(crate) use deadline::{answer_in_time, inside};
pub(crate) use maintenance_task::{MaintenanceParts, MaintenanceTask};

/// Receiver of published rules, with the time at which the bus appended them; a store knows none.
pub(crate) type RulesListener = Arc<dyn Fn(Generation, Option<Timestamp>, Published) + Send + Sync>;

struct WakeFn<F>(F);

impl<F: Fn() + Send + Sync + 'static> Wake for WakeFn<F> {
    fn wake(self: Arc<Self>) {
        self.0();
    }
}

#[cfg(feature = "bus")]
fn report_panic(joined: &std::thread::Result<()>) {
    if joined.is_err() {
        tracing::error!("a thread of the bus has panicked, and the batches that it held are lost");
    }
}
