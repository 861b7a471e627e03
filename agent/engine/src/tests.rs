//! Support of the tests of several modules.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::Wake;

use tollgate_core::clock::Timestamp;
use tollgate_core::messages::presence::{Presence, Role};

/// Waker that counts its wake-ups.
#[derive(Default)]
pub(crate) struct WakeUps(AtomicU32);

impl WakeUps {
    pub(crate) fn count(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Wake for WakeUps {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

pub(crate) fn heartbeat(id: &str, epoch: Timestamp) -> Presence {
    Presence {
        id: id.into(),
        epoch: epoch.as_ms(),
        region: "r".into(),
        role: Role::Agent,
        generation: 1,
        clock: epoch,
        open_breakers: Vec::new(),
        dropped_rows: 0,
        leaving: false,
        http: "".into(),
        partitions: Vec::new(),
        coordinates: false,
        emergency: None,
        resets: Vec::new(),
        rules_refusal: "".into(),
        rules_published: false,
    }
}
