//! Processor time of this process.

use std::time::Duration;

/// Tick of Linux's process accounting, in ms; `USER_HZ` is 100 on all its platforms.
const TICK_MS: u64 = 10;
/// Fields of user and system time in `/proc/self/stat`, counted after the program's name.
const USER: usize = 11;
const SYSTEM: usize = 12;

/// Returns the processor time used by all threads of this process, if the system reports it.
pub(super) fn used() -> Option<Duration> {
    let text = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The name is in brackets and may contain any character.
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = |place: usize| fields.get(place)?.parse::<u64>().ok();
    Some(Duration::from_millis((ticks(USER)? + ticks(SYSTEM)?) * TICK_MS))
}
