//! Waiting for a bus that is away, on a thread of its own: nobody else waits for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use super::{Bus, Unusable};

/// How long one attempt may take.
const WAIT: Duration = Duration::from_secs(2);
/// How long after a failed attempt the next one follows.
const PAUSE: Duration = Duration::from_millis(500);

/// Prepares a bus until that succeeds or `stop` is set; `tell` hears each change of what is wrong, and of its
/// end.
///
/// # Errors
/// When the system gives it no thread.
pub fn keep_prepared<B: Bus>(
    bus: B,
    stop: Arc<AtomicBool>,
    tell: impl Fn(Result<(), &Unusable>) + Send + 'static,
) -> std::io::Result<JoinHandle<()>> {
    std::thread::Builder::new().name("tollgate-bus".into()).spawn(move || {
        let mut known = None;
        while !stop.load(Ordering::Relaxed) {
            match bus.prepare(WAIT) {
                Ok(()) if known.is_none() => return,
                Ok(()) => return tell(Ok(())),
                Err(unusable) => {
                    if known.as_ref() != Some(&unusable) {
                        tell(Err(&unusable));
                    }
                    known = Some(unusable);
                }
            }
            std::thread::park_timeout(PAUSE);
        }
    })
}
