//! Supervision of a bus on its own thread: prepares it until it is usable, and recreates topics that are deleted later.
//!
//! Readers and writers do not wait for this thread. They are idle until the bus is prepared.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use super::{Bus, BusError};

/// Maximum duration of one attempt.
const PREPARE_WAIT: Duration = Duration::from_secs(2);
const PAUSE_FAILED: Duration = Duration::from_millis(500);
const PAUSE_PREPARED: Duration = Duration::from_secs(3);

/// Calls [`Bus::prepare`] repeatedly until `stop` is set. `notify` receives the first result and each change of it: a
/// failure, a different failure, and the recovery.
///
/// # Errors
/// Returns an error if the thread cannot be spawned.
pub fn supervise<B: Bus>(
    bus: B,
    stop: Arc<AtomicBool>,
    notify: impl Fn(Result<(), &BusError>) + Send + 'static,
) -> std::io::Result<JoinHandle<()>> {
    std::thread::Builder::new().name("tollgate-bus".into()).spawn(move || {
        let mut known = None;
        while !stop.load(Ordering::Relaxed) {
            let found = bus.prepare(PREPARE_WAIT);
            if known.as_ref().is_none_or(|known| has_changed(known, &found)) {
                notify(found.as_ref().copied());
            }
            std::thread::park_timeout(if found.is_ok() { PAUSE_PREPARED } else { PAUSE_FAILED });
            known = Some(found);
        }
    })
}

/// Two transient failures in a row count as the same, because their reasons differ between attempts.
fn has_changed(known: &Result<(), BusError>, found: &Result<(), BusError>) -> bool {
    match (known, found) {
        (Err(before), Err(now)) if before.is_transient() && now.is_transient() => false,
        _ => known != found,
    }
}
