//! Looking after a bus on a thread of its own: one that is away is waited for, and one that was lost is told of. Nobody else
//! waits for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use super::{Bus, Unusable};

/// How long one look may take.
const WAIT: Duration = Duration::from_secs(2);
/// How long after a failed look the next one follows, and after a good one.
const PAUSE_FAILED: Duration = Duration::from_millis(500);
const PAUSE: Duration = Duration::from_secs(3);

/// Prepares a bus again and again until `stop` is set, so that a topic that was deleted is made anew; `tell` hears each
/// change of what is wrong, and when nothing is any more.
///
/// # Errors
/// Returns an error if the system gives it no thread.
pub fn keep_prepared<B: Bus>(
    bus: B,
    stop: Arc<AtomicBool>,
    tell: impl Fn(Result<(), &Unusable>) + Send + 'static,
) -> std::io::Result<JoinHandle<()>> {
    std::thread::Builder::new().name("tollgate-bus".into()).spawn(move || {
        let mut known = Ok(());
        while !stop.load(Ordering::Relaxed) {
            let found = bus.prepare(WAIT);
            if is_news(&known, &found) {
                tell(found.as_ref().copied());
            }
            std::thread::park_timeout(if found.is_ok() { PAUSE } else { PAUSE_FAILED });
            known = found;
        }
    })
}

/// The words of a failure differ from time to time; that it goes on is no news.
fn is_news(known: &Result<(), Unusable>, found: &Result<(), Unusable>) -> bool {
    match (known, found) {
        (Ok(()), Ok(())) => false,
        (Err(before), Err(now)) => before.transient != now.transient || (!now.transient && before != now),
        _ => true,
    }
}
