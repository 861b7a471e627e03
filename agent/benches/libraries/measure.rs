//! Measurements: the time of a call, its allocations, and the bytes of a counter.
//!
//! A contender and its reference take short turns, so that a change of the machine's speed meets both; a ratio is the
//! median of the ratios within each round. No other contender runs between: cached denials would all be due for their
//! check, which a gateway sees at most four times a second. Times are the CPU times of the calling threads, because
//! other processes use the machine, too. A thread that waits for a lock uses no CPU, so the wall time is measured
//! beside it.

use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use allocation_counter::AllocationInfo;
use rustix::time::{ClockId, clock_gettime};
use tollgate_core::clock::Stopwatch;

use super::contenders::{Contender, Exceptions};
use super::key_set::KeySet;

/// Maximum number of calls of a thread between two flushes, so that their rows find room however late the publishing thread
/// runs.
const ROWS_LEN_MAX: usize = 100_000;
/// Maximum number of calls of one turn of a contender with a bus. A turn that is measured follows one that is not.
const PUBLISHED_CALLS_MAX: usize = ROWS_LEN_MAX / 2;
/// Number of calls of a key after which every contender decides all later ones as its name says.
const FIRST_CALLS: usize = 2;

/// Size of a run.
#[derive(Clone, Copy)]
pub(crate) struct Effort {
    pub(crate) rounds: usize,
    /// Time of one contender in one round. Both threads end at that time, so that they run at once.
    pub(crate) turn: Duration,
}

/// Time of a call in one turn, in ns.
#[derive(Clone, Copy)]
pub(crate) struct Turn {
    pub(crate) cpu_ns: f64,
    pub(crate) wall_ns: f64,
    /// Part of the calls that were checked at the counter.
    pub(crate) checked: f64,
    unexpected: usize,
}

/// Turns of a contender and of its reference, in the order of the rounds.
#[derive(Default)]
pub(crate) struct Turns {
    pub(crate) own: Vec<Turn>,
    /// Empty for a contender that is its own reference.
    pub(crate) reference: Vec<Turn>,
}

/// Makes every key known to a contender. Returns the bytes that a counter holds.
pub(crate) fn fill(contender: &Contender, keys: &[String]) -> f64 {
    let held = allocation_counter::measure(|| {
        for chunk in keys.chunks(ROWS_LEN_MAX / FIRST_CALLS) {
            for _ in 0..FIRST_CALLS {
                (contender.decide)(chunk);
            }
            flush(contender);
        }
    });
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    let bytes = held.bytes_current as f64 / keys.len() as f64;
    bytes
}

/// Returns the allocations of a call on the calling thread.
#[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
pub(crate) fn allocations(contender: &Contender, keys: &KeySet, effort: Effort) -> f64 {
    turn(contender, keys.blocks(0, 0), effort.turn);
    let mut calls = 0;
    let AllocationInfo { count_total, .. } = allocation_counter::measure(|| {
        (calls, _) = turn(contender, keys.blocks(0, 0), effort.turn);
    });
    flush(contender);
    count_total as f64 / calls as f64
}

/// Returns the turns of each contender and of its reference, which alternate.
///
/// # Panics
/// If a contender did not do the work that its name says.
pub(crate) fn rounds(contenders: &[Contender], keys: &KeySet, threads: usize, effort: Effort) -> Vec<Turns> {
    let barrier = &Barrier::new(threads);
    let take_turn = move |contender: &Contender, thread: usize, round: usize| {
        let mut blocks = keys.blocks(thread, round);
        turn(contender, &mut blocks, effort.turn / 4);
        barrier.wait();
        let timed = timed_turn(contender, &mut blocks, effort.turn);
        if barrier.wait().is_leader() {
            flush(contender);
        }
        barrier.wait();
        timed
    };
    let run = move |thread: usize| -> Vec<Turns> {
        pin(thread);
        let alternate = |(position, contender): (usize, &Contender)| {
            let mut turns = Turns::default();
            for round in 0..effort.rounds {
                if contender.reference != position {
                    turns.reference.push(take_turn(&contenders[contender.reference], thread, round));
                }
                turns.own.push(take_turn(contender, thread, round));
            }
            turns
        };
        contenders.iter().enumerate().map(alternate).collect()
    };
    let by_thread: Vec<Vec<Turns>> = thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|thread| scope.spawn(move || run(thread))).collect();
        running.into_iter().map(|thread| thread.join().expect("no contender panics")).collect()
    });
    let mean_of = |position: usize, turns: fn(&Turns) -> &Vec<Turn>| -> Vec<Turn> {
        let of_round = |round| Turn::mean(by_thread.iter().map(|by_position| &turns(&by_position[position])[round]));
        (0..turns(&by_thread[0][position]).len()).map(of_round).collect()
    };
    let joined = |(position, contender): (usize, &Contender)| {
        let turns = Turns {
            own: mean_of(position, |turns| &turns.own),
            reference: mean_of(position, |turns| &turns.reference),
        };
        let unexpected: usize = turns.own.iter().map(|turn| turn.unexpected).sum();
        assert_eq!((unexpected, flush(contender)), (0, 0), "{}: unexpected decisions, dropped rows", contender.name);
        turns
    };
    contenders.iter().enumerate().map(joined).collect()
}

impl Turn {
    /// Returns the turn of several threads: the means of their times, and the sum of their unexpected calls.
    #[expect(clippy::cast_precision_loss, reason = "one or two")]
    fn mean<'a>(of_threads: impl Iterator<Item = &'a Self> + Clone) -> Self {
        let mean =
            |value: fn(&Self) -> f64| of_threads.clone().map(value).sum::<f64>() / of_threads.clone().count() as f64;
        Self {
            cpu_ns: mean(|turn| turn.cpu_ns),
            wall_ns: mean(|turn| turn.wall_ns),
            checked: mean(|turn| turn.checked),
            unexpected: of_threads.map(|turn| turn.unexpected).sum(),
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
fn timed_turn<'a>(contender: &Contender, blocks: impl Iterator<Item = &'a [String]>, time: Duration) -> Turn {
    let (wall, cpu_ns) = (Stopwatch::start(), thread_cpu_ns());
    let (calls, Exceptions { checked, unexpected }) = turn(contender, blocks, time);
    let calls = calls as f64;
    let cpu_ns = (thread_cpu_ns() - cpu_ns) as f64 / calls;
    Turn { cpu_ns, wall_ns: wall.elapsed().as_nanos() as f64 / calls, checked: checked as f64 / calls, unexpected }
}

/// Decides calls for some time, with a bus at most [`PUBLISHED_CALLS_MAX`]. Returns their number, and the numbers of those
/// that were not decided as the name says.
fn turn<'a>(contender: &Contender, blocks: impl Iterator<Item = &'a [String]>, time: Duration) -> (usize, Exceptions) {
    let watch = Stopwatch::start();
    let (mut calls, mut all) = (0, Exceptions::default());
    for block in blocks {
        calls += block.len();
        let exceptions = (contender.decide)(block);
        all.checked += exceptions.checked;
        all.unexpected += exceptions.unexpected;
        let is_over = contender.flush.is_some() && calls >= PUBLISHED_CALLS_MAX;
        if is_over || watch.elapsed() >= time {
            break;
        }
    }
    (calls, all)
}

pub(crate) fn median(numbers: impl Iterator<Item = f64>) -> f64 {
    let mut numbers: Vec<f64> = numbers.collect();
    numbers.sort_by(f64::total_cmp);
    numbers[numbers.len() / 2]
}

fn flush(contender: &Contender) -> u64 {
    contender.flush.as_ref().map_or(0, |flush| flush())
}

/// Binds the calling thread to a processor, because the scheduler may otherwise keep both threads on one. A failure
/// changes nothing.
#[cfg(target_os = "linux")]
fn pin(processor: usize) {
    let mut set = rustix::thread::CpuSet::new();
    set.set(processor);
    let _ = rustix::thread::sched_setaffinity(None, &set);
}

#[cfg(not(target_os = "linux"))]
fn pin(_: usize) {}

fn thread_cpu_ns() -> i64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}
