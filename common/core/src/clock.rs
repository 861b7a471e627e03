//! Time: the only file that reads a clock.
//!
//! Everything else takes `now` as a parameter, so that the same code runs in wall time and in virtual time, and a test
//! can stand at any instant. Instants are whole milliseconds since the Unix epoch, the resolution in which stores count.

use std::fmt;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How far apart two clocks that belong together may be, in ms. A store whose time steps back by more is re-based.
pub const CLOCK_ERROR_MAX_MS: u64 = 1_000;

/// An instant: milliseconds since the Unix epoch, UTC.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(u64);

/// Where `now` comes from, for the thin shells that need to ask.
pub trait Clock: Send + Sync + 'static {
    /// The present instant. Never earlier than an answer this clock gave before.
    fn now(&self) -> Timestamp;
}

/// The system's time at start, carried on by the monotonic clock: windows never see the system's clock being set.
#[derive(Clone, Copy, Debug)]
pub struct SystemClock {
    started_at: Timestamp,
    started: Instant,
}

/// Measures how long something took.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch(Instant);

impl Timestamp {
    /// The instant `ms` milliseconds after the Unix epoch.
    #[must_use]
    pub const fn from_ms(ms: u64) -> Self {
        Self(ms)
    }

    /// Milliseconds since the Unix epoch.
    #[must_use]
    pub const fn as_ms(self) -> u64 {
        self.0
    }

    /// The instant `ms` later, at most the end of time.
    #[must_use]
    pub const fn plus_ms(self, ms: u64) -> Self {
        Self(self.0.saturating_add(ms))
    }

    /// The instant `ms` earlier, at least the epoch.
    #[must_use]
    pub const fn minus_ms(self, ms: u64) -> Self {
        Self(self.0.saturating_sub(ms))
    }

    /// How many milliseconds `self` is after `earlier`; 0 when it is not after.
    #[must_use]
    pub const fn ms_since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}ms", self.0)
    }
}

impl SystemClock {
    /// Reads the system's time once; from here on the monotonic clock counts.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "this is the one place that reads clocks")]
    pub fn start() -> Self {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { started_at: Timestamp::from_ms(whole_ms(since_epoch)), started: Instant::now() }
    }
}

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the one place that reads clocks")]
    fn now(&self) -> Timestamp {
        self.started_at.plus_ms(whole_ms(self.started.elapsed()))
    }
}

impl Stopwatch {
    /// Starts measuring.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "this is the one place that reads clocks")]
    pub fn start() -> Self {
        Self(Instant::now())
    }

    /// The time since the start.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "this is the one place that reads clocks")]
    pub fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }
}

fn whole_ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
