//! What this process has used of the processors.

use std::time::Duration;

/// In which ticks Linux counts, in ms; `USER_HZ` is 100 on all its platforms.
const TICK_MS: u64 = 10;
/// Where user and system time stand in `/proc/self/stat`, counted from after the name of the program.
const USER: usize = 11;
const SYSTEM: usize = 12;

/// Processor time that all threads of this process have used; nothing where the system does not tell.
pub(super) fn used() -> Option<Duration> {
    let text = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The name stands in brackets and may hold anything.
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = |place: usize| fields.get(place)?.parse::<u64>().ok();
    Some(Duration::from_millis((ticks(USER)? + ticks(SYSTEM)?) * TICK_MS))
}
