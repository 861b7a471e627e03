//! Time: the only file that reads a clock.
//!
//! All other code takes `now` as a parameter, so that the same code runs in wall time and in virtual time, and tests
//! choose any instant.
//!
//! Every call reads the clock, and the system's monotonic clock costs more than the rest of a cheap decision. So each thread
//! keeps the millisecond that it read last, and looks at the processor's counter whether that has ended. The counter decides
//! nothing else: no error of it outlasts a millisecond, and a processor without a steady counter reads the system's clock.

use std::cell::Cell;
use std::sync::LazyLock;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};

pub use crate::timestamp::Timestamp;

/// Maximum difference, in ms, between two clocks that count as the same clock. A counter is re-based when the store's
/// time steps back by more.
pub const CLOCK_ERROR_MAX_MS: u64 = 1_000;

/// Source of `now` for the shells that perform I/O.
pub trait Clock: Send + Sync + 'static {
    /// Returns the present instant, which is never earlier than a previous result of the same clock.
    fn now(&self) -> Timestamp;
}

/// Clock that reads the system time once at its start and then advances with the monotonic clock, so that an adjustment
/// of the system time never affects windows. On Linux, the time in which the machine is suspended counts. On all
/// threads it shows the millisecond of the monotonic clock itself, as long as the processor's counter is at most a
/// quarter slower than it was at the start of the process. However wrong the counter is, the clock is never fast, and
/// it is slow only until the counter has advanced by a millisecond.
#[derive(Clone, Copy, Debug)]
pub struct SystemClock {
    started_at: Timestamp,
    /// Time of the process's clock at the start.
    started_ms: u64,
}

/// Stopwatch over the monotonic clock.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch(Duration);

/// The monotonic clock since its first use in the process, in whole milliseconds.
struct ProcessClock {
    started: Duration,
    /// The processor's counter if it is steady, or else the system's clock.
    counter: quanta::Clock,
    counts_per_ms: u64,
}

/// A millisecond that has begun. It certainly lasts for `lasts` counts of the counter, beginning at the count `from`.
#[derive(Clone, Copy)]
struct Millisecond {
    number: u64,
    from: u64,
    lasts: u64,
}

/// Clock that counts the time in which the machine is suspended, where there is one.
#[cfg(target_os = "linux")]
const MONOTONIC: ClockId = ClockId::Boottime;
#[cfg(not(target_os = "linux"))]
const MONOTONIC: ClockId = ClockId::Monotonic;

static PROCESS_CLOCK: LazyLock<ProcessClock> = LazyLock::new(ProcessClock::start);

thread_local! {
    /// Millisecond that the thread read last. It ends by the counter.
    static LAST_READ: Cell<Millisecond> = const { Cell::new(Millisecond { number: 0, from: 0, lasts: 0 }) };
}

/// Returns the time of the system since the Unix epoch. It steps when the system's clock is set, which [`SystemClock`] does not.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "the only file that reads clocks")]
pub fn unix_time() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

impl SystemClock {
    /// Starts the clock at the present system time.
    #[must_use]
    pub fn start() -> Self {
        Self { started_at: Timestamp::from_ms(whole_ms(unix_time())), started_ms: PROCESS_CLOCK.now_ms() }
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        self.started_at.plus_ms(PROCESS_CLOCK.now_ms().saturating_sub(self.started_ms))
    }
}

impl ProcessClock {
    fn start() -> Self {
        // It compares the counter with the system's clock for a millisecond, and on a busy machine for at most 200.
        let counter = quanta::Clock::new();
        let (counts, ns) = (1 << 40, counter.delta_as_nanos(0, 1 << 40));
        let counts_per_ms = (u128::from(counts * 1_000_u64) * 1_000).checked_div(ns.into()).unwrap_or(0);
        Self { started: monotonic(), counter, counts_per_ms: u64::try_from(counts_per_ms).unwrap_or(0) }
    }

    #[inline]
    fn now_ms(&self) -> u64 {
        let last = LAST_READ.get();
        if last.lasts_at(self.counter.raw()) { last.number } else { self.read_ms() }
    }

    #[cold]
    fn read_ms(&self) -> u64 {
        // The counter is read first: a thread that is suspended between the two takes the millisecond for a shorter one.
        let count = self.counter.raw();
        let read = Millisecond::at(monotonic().saturating_sub(self.started), count, self.counts_per_ms);
        LAST_READ.set(read);
        read.number
    }
}

impl Millisecond {
    /// Returns the millisecond at a time on the clock, when the counter had this count or a greater one.
    fn at(since_start: Duration, count: u64, counts_per_ms: u64) -> Self {
        let left_ns = u64::from(1_000_000 - since_start.subsec_nanos() % 1_000_000);
        // For the last quarter the clock is read again, because the counter may be slower than it was measured.
        let lasts = u128::from(left_ns) * u128::from(counts_per_ms) / 1_000_000 * 3 / 4;
        Self { number: whole_ms(since_start), from: count, lasts: u64::try_from(lasts).unwrap_or(0) }
    }

    /// Returns true if the millisecond lasts at a count of the same counter. A counter that was set back ends it.
    #[inline]
    fn lasts_at(self, count: u64) -> bool {
        count.wrapping_sub(self.from) < self.lasts
    }
}

impl Stopwatch {
    /// Starts a measurement.
    #[must_use]
    pub fn start() -> Self {
        Self(monotonic())
    }

    /// Returns the time since the start.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        monotonic().saturating_sub(self.0)
    }
}

/// Returns the time of a clock that is never set.
fn monotonic() -> Duration {
    Duration::try_from(clock_gettime(MONOTONIC)).unwrap_or_default()
}

fn whole_ms(duration: Duration) -> u64 {
    duration.as_secs().saturating_mul(1_000).saturating_add(duration.subsec_millis().into())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::thread;

    use proptest::prelude::*;

    use super::*;

    /// Counts of the simulated counter in a millisecond, as they were measured.
    const COUNTS_PER_MS: u64 = 2_600_000;

    /// Step of a simulated machine between two readings.
    #[derive(Clone, Copy, Debug)]
    enum Step {
        /// Time passes, in ns.
        Pass(u64),
        /// Suspension of the machine: the monotonic clock stands still, and the counter goes on by so much.
        Suspended(u64),
        /// New beginning of the counter, at zero, unless it has begun again before.
        Restart,
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            20 => (0..3_000_u64).prop_map(Step::Pass),
            10 => (0..400_000_u64).prop_map(Step::Pass),
            2 => (0..5_000_000_u64).prop_map(Step::Pass),
            1 => (0..1_u64 << 50).prop_map(Step::Suspended),
            1 => Just(Step::Restart),
        ];
        prop::collection::vec(step, 1..400)
    }

    /// Runs a thread that reads the clock after each step, with a counter of this rate. Returns the ns by which the
    /// clock was slow at worst; it is never fast.
    fn slow_ns_max(permille: u64, steps: &[Step]) -> u64 {
        let (mut ns, mut count, mut slow_max, mut has_restarted) = (0_u64, 1_u64 << 60, 0, false);
        let mut last = Millisecond { number: 0, from: 0, lasts: 0 };
        for step in steps {
            match *step {
                Step::Pass(passed) => {
                    ns += passed;
                    count += passed * (COUNTS_PER_MS * permille / 1_000) / 1_000_000;
                }
                Step::Suspended(counts) => count += counts,
                Step::Restart if has_restarted => {}
                Step::Restart => (count, has_restarted) = (0, true),
            }
            if !last.lasts_at(count) {
                last = Millisecond::at(Duration::from_nanos(ns), count, COUNTS_PER_MS);
            }
            assert!(last.number <= ns / 1_000_000, "never fast");
            let is_late = last.number < ns / 1_000_000;
            slow_max = slow_max.max(if is_late { ns - (last.number + 1) * 1_000_000 + 1 } else { 0 });
        }
        slow_max
    }

    proptest! {
        #[test]
        fn a_counter_that_is_a_quarter_slower_or_goes_on_alone_or_restarts_changes_no_reading(
            permille in 750_u64..5_000,
            steps in steps(),
        ) {
            prop_assert_eq!(slow_ns_max(permille, &steps), 0);
        }

        #[test]
        fn a_counter_at_half_its_rate_makes_the_clock_slow_by_less_than_a_millisecond(
            steps in prop::collection::vec((0..400_000_u64).prop_map(Step::Pass), 1..400),
        ) {
            prop_assert!(slow_ns_max(500, &steps) <= 1_000_000);
        }
    }

    #[test]
    fn the_clock_shows_the_milliseconds_of_the_monotonic_clock() {
        let since_start = || whole_ms(monotonic().saturating_sub(PROCESS_CLOCK.started));
        let began = Stopwatch::start();
        while began.elapsed() < Duration::from_millis(50) {
            let (before, shown, after) = (since_start(), PROCESS_CLOCK.now_ms(), since_start());
            assert!((before..=after).contains(&shown), "{before} {shown} {after}");
        }
    }

    #[test]
    fn no_thread_sees_an_earlier_time_than_another_thread_saw_before() {
        let (clock, latest) = (SystemClock::start(), AtomicU64::new(0));
        let began = Stopwatch::start();
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    while began.elapsed() < Duration::from_millis(50) {
                        let before = latest.load(Ordering::Acquire);
                        let now = clock.now().as_ms();
                        assert!(before <= now);
                        latest.fetch_max(now, Ordering::AcqRel);
                    }
                });
            }
        });
        assert!(clock.now().as_ms() >= clock.started_at.as_ms() + 50);
    }
}
