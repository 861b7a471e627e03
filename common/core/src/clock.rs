//! Time: the only file that reads a clock.
//!
//! All other code takes `now` as a parameter, so that the same code runs in wall time and in virtual time, and tests
//! choose any instant. Instants are whole milliseconds since the Unix epoch, which is also the resolution of the
//! stores.

use std::fmt;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Maximum difference, in ms, between two clocks that count as the same clock. A counter is re-based when the store's
/// time steps back by more.
pub const CLOCK_ERROR_MAX_MS: u64 = 1_000;

/// Instant in milliseconds since the Unix epoch, UTC.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(u64);

/// Source of `now` for the shells that perform I/O.
pub trait Clock: Send + Sync + 'static {
    /// Returns the present instant, which is never earlier than a previous result of the same clock.
    fn now(&self) -> Timestamp;
}

/// Clock that reads the system time once at its start and then advances with the monotonic clock. An adjustment of the
/// system time therefore never affects windows.
#[derive(Clone, Copy, Debug)]
pub struct SystemClock {
    started_at: Timestamp,
    started: Instant,
}

/// Stopwatch over the monotonic clock.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch(Instant);

impl Timestamp {
    /// Returns the instant `ms` milliseconds after the Unix epoch.
    #[must_use]
    pub const fn from_ms(ms: u64) -> Self {
        Self(ms)
    }

    /// Returns the milliseconds since the Unix epoch.
    #[must_use]
    pub const fn as_ms(self) -> u64 {
        self.0
    }

    /// Returns the instant `ms` later; saturates at the maximum.
    #[must_use]
    pub const fn plus_ms(self, ms: u64) -> Self {
        Self(self.0.saturating_add(ms))
    }

    /// Returns the instant `ms` earlier; saturates at the epoch.
    #[must_use]
    pub const fn minus_ms(self, ms: u64) -> Self {
        Self(self.0.saturating_sub(ms))
    }

    /// Returns the milliseconds from `earlier` to `self`, or 0 if `self` is not later.
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
    /// Starts the clock at the present system time.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "the only file that reads clocks")]
    pub fn start() -> Self {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { started_at: Timestamp::from_ms(whole_ms(since_epoch)), started: Instant::now() }
    }
}

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "the only file that reads clocks")]
    fn now(&self) -> Timestamp {
        self.started_at.plus_ms(whole_ms(self.started.elapsed()))
    }
}

impl Stopwatch {
    /// Starts a measurement.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "the only file that reads clocks")]
    pub fn start() -> Self {
        Self(Instant::now())
    }

    /// Returns the time since the start.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "the only file that reads clocks")]
    pub fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }
}

fn whole_ms(duration: Duration) -> u64 {
    duration.as_secs().saturating_mul(1_000).saturating_add(duration.subsec_millis().into())
}
