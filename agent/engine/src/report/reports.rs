//! Reports of one agent: its metrics, and the notices that wait for the log.

use std::task::Waker;

use atomic_waker::AtomicWaker;
use parking_lot::Mutex;
use tollgate_core::clock::Timestamp;
use tollgate_core::log_throttle::LogThrottle;

use crate::report::metrics::EngineMetrics;
use crate::report::notice::{Notice, NoticeQueue};

/// Metrics and notices of one agent.
#[derive(Default)]
pub(crate) struct Reports {
    metrics: EngineMetrics,
    notices: Mutex<NoticeQueue>,
    /// Throttles of notices that each call could cause.
    late_denials: Mutex<LogThrottle>,
    lost_counters: Mutex<LogThrottle>,
    /// Wakes the shell of the maintenance, which hands out notices and sends what waits for the store.
    maintenance: AtomicWaker,
}

impl Reports {
    #[inline]
    pub(crate) fn metrics(&self) -> &EngineMetrics {
        &self.metrics
    }

    /// Tells an operator of a change.
    pub(crate) fn notify(&self, notice: Notice) {
        self.notices.lock().push(notice);
        self.wake_maintenance();
    }

    /// Tells an operator that calls are denied because the store is late, at most once a minute.
    pub(crate) fn note_late_denial(&self, now: Timestamp) {
        // Another thread that counts tells it.
        let Some(mut throttle) = self.late_denials.try_lock() else { return };
        if throttle.count(now).is_some() {
            self.notify(Notice::StoreLate);
        }
    }

    /// Tells an operator that single counters are lost, at most once a minute.
    pub(crate) fn note_lost_counter(&self, now: Timestamp) {
        if self.lost_counters.lock().count(now).is_some() {
            self.notify(Notice::CountersLost);
        }
    }

    pub(crate) fn notices_due_at(&self) -> Option<Timestamp> {
        self.notices.lock().due_at()
    }

    pub(crate) fn take_notices(&self, now: Timestamp, write: impl FnMut(Notice)) {
        self.notices.lock().take(now, write);
    }

    pub(crate) fn wake_maintenance(&self) {
        self.maintenance.wake();
    }

    /// Registers the waker of the maintenance's shell.
    pub(crate) fn register_maintenance(&self, shell: &Waker) {
        self.maintenance.register(shell);
    }
}
