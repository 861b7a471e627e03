//! Threads and tasks of an agent. They execute the effects of the engine's state machines and decide nothing.

mod bus_threads;
mod maintenance_task;

use std::sync::Arc;
use std::task::{Wake, Waker};
use std::thread::Thread;
use std::time::Duration;

pub(crate) use bus_threads::{BusListeners, BusThreads, SignalObserver};
pub(crate) use maintenance_task::{MaintenanceParts, MaintenanceTask};

/// Deadline of a request to the store that no call waits for.
pub(crate) const BACKGROUND_DEADLINE: Duration = Duration::from_millis(50);

/// Waker of a thread that parks itself.
struct ThreadWaker(Thread);

impl ThreadWaker {
    /// Returns the waker of the current thread.
    fn current() -> Waker {
        Waker::from(Arc::new(Self(std::thread::current())))
    }
}

impl Wake for ThreadWaker {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}
