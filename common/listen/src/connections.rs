//! Open connections of a process, and which of them make room at the cap.
//!
//! A connection counts the periods in which it had nothing to do. At the cap, those with the highest number are closed. One that
//! worked in the last period stays, so the connections of busy gateways stay, and a new connection is refused if all are busy.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use atomic_waker::AtomicWaker;

/// Part of the connections that is closed at the cap at once, so that not each new one looks at all.
const EVICTED_PERCENT: usize = 1;
/// Part of the cap below which the cap counts as left again.
const LEFT_PERCENT: usize = 90;

/// Open connections of a process.
pub(crate) struct Connections {
    open: Mutex<Open>,
    max: usize,
}

#[derive(Default)]
struct Open {
    activities: HashMap<u64, Arc<Activity>>,
    next: u64,
    /// True from reaching the cap until enough connections are closed.
    is_full: bool,
}

/// Activity of one connection.
#[derive(Default)]
pub(crate) struct Activity {
    /// Periods without a response, up to now.
    pub(crate) idle_periods: AtomicU32,
    /// True if the connection must close to make room.
    pub(crate) is_evicted: AtomicBool,
    pub(crate) waker: AtomicWaker,
}

/// Entry of a connection among those that are open; it ends with the value.
pub(crate) struct ConnectionEntry {
    connections: Arc<Connections>,
    number: u64,
    pub(crate) activity: Arc<Activity>,
}

impl Connections {
    pub(crate) fn new(max: usize) -> Self {
        Self { open: Mutex::default(), max: max.max(1) }
    }

    /// Returns the entry of a new connection; none if the cap is reached and all connections work.
    pub(crate) fn enter(self: &Arc<Self>) -> Option<ConnectionEntry> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if open.activities.len() >= self.max {
            if !open.is_full {
                tracing::warn!(
                    connections = self.max,
                    "the cap on connections is reached: idle ones are closed, and new ones are refused if none is idle; find out who connects, or raise --connections-max"
                );
            }
            open.is_full = true;
            open.evict(self.max.div_ceil(100 / EVICTED_PERCENT));
        }
        if open.activities.len() >= self.max {
            return None;
        }
        let number = open.next;
        open.next += 1;
        let activity = Arc::new(Activity::default());
        open.activities.insert(number, activity.clone());
        Some(ConnectionEntry { connections: self.clone(), number, activity })
    }
}

impl Open {
    /// Closes up to `count` connections, those that are idle for longest.
    fn evict(&mut self, count: usize) {
        let idle = |activity: &Arc<Activity>| activity.idle_periods.load(Ordering::Relaxed);
        let mut longest: Vec<_> = self.activities.iter().map(|(number, activity)| (idle(activity), *number)).collect();
        longest.retain(|(periods, _)| *periods > 0);
        longest.sort_unstable_by(|a, b| b.cmp(a));
        for (_, number) in longest.into_iter().take(count) {
            if let Some(activity) = self.activities.remove(&number) {
                activity.is_evicted.store(true, Ordering::Release);
                activity.waker.wake();
            }
        }
    }
}

impl Drop for ConnectionEntry {
    fn drop(&mut self) {
        let mut open = self.connections.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.activities.remove(&self.number);
        if open.is_full && open.activities.len() * 100 < self.connections.max * LEFT_PERCENT {
            open.is_full = false;
            tracing::info!(connections = open.activities.len(), "the number of connections is below its cap again");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_idle_connection_makes_room_and_busy_ones_stay() {
        let connections = Arc::new(Connections::new(3));
        let entries: Vec<_> = (0..3).map(|_| connections.enter().expect("room")).collect();
        assert!(connections.enter().is_none(), "all have just begun");
        for (entry, periods) in entries.iter().zip([2, 3, 0]) {
            entry.activity.idle_periods.store(periods, Ordering::Relaxed);
        }
        let evicted =
            || entries.iter().map(|entry| entry.activity.is_evicted.load(Ordering::Acquire)).collect::<Vec<_>>();
        let first = connections.enter();
        assert_eq!((first.is_some(), evicted()), (true, vec![false, true, false]));
        let second = connections.enter();
        assert_eq!((second.is_some(), evicted()), (true, vec![true, true, false]));
        assert!(connections.enter().is_none(), "nobody is idle");
        drop(second);
        assert!(connections.enter().is_some());
    }

    /// The end of an evicted connection does not take away the entry of a newer one.
    #[test]
    fn the_end_of_an_evicted_connection_frees_nothing() {
        let connections = Arc::new(Connections::new(1));
        let evicted = connections.enter().expect("room");
        evicted.activity.idle_periods.store(1, Ordering::Relaxed);
        let _newer = connections.enter().expect("the idle one makes room");
        drop(evicted);
        assert!(connections.enter().is_none());
    }
}
