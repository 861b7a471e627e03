//! Threads and tasks of an agent. They execute the effects of the engine's state machines and decide nothing.

#[cfg(feature = "bus")]
mod bus_threads;
mod maintenance_task;

use std::time::Duration;

#[cfg(feature = "bus")]
pub(crate) use bus_threads::{BusListeners, BusThreads, SignalObserver};
pub(crate) use maintenance_task::{MaintenanceParts, MaintenanceTask};

/// Deadline of a request to the store that no call waits for.
pub(crate) const BACKGROUND_DEADLINE: Duration = Duration::from_millis(50);
