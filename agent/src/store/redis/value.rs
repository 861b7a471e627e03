//! The value of a counter in Redis, read into a [`StoredCounter`] and written from it.
//!
//! `lua/layout.lua` describes the layout. The script writes nearly all values; the agent writes one only when it
//! replaces a value that the script cannot use ([`conversion`](super::conversion)).

use bytes::{Buf, BufMut};
use tollgate_core::algorithm::{Algorithm, CounterState, Limit, Meter};
use tollgate_core::clock::Timestamp;
use tollgate_core::counter::{Charge, StoredCounter};
use tollgate_core::rules::Generation;
use tollgate_core::window::{Estimate, Window};

/// Largest number that a script computes exactly. Larger quotas, times and generations read as this.
pub(super) const EXACT_MAX: u64 = (1 << 53) - 1;
/// Version of the layout, in the high bits of the kind.
const VERSION: u8 = 3 << 4;
/// Algorithms by the kind of a value, from 1, and true for a sliding window with a burst.
const KINDS: [(Algorithm, bool); 9] = [
    (Algorithm::SlidingWindow(Estimate::Interpolated), false),
    (Algorithm::SlidingWindow(Estimate::Conservative), false),
    (Algorithm::FixedWindow, false),
    (Algorithm::SlidingWindow(Estimate::Interpolated), true),
    (Algorithm::SlidingWindow(Estimate::Conservative), true),
    (Algorithm::TokenBucket, false),
    (Algorithm::LeakyBucket, false),
    (Algorithm::SlidingLog, false),
    (Algorithm::Concurrency, false),
];
const HEADER_LEN: usize = 42;

pub(super) fn number(rest: &mut &[u8], len: usize) -> Option<u64> {
    rest.try_get_uint_le(len).ok()
}

pub(super) fn time(rest: &mut &[u8]) -> Option<Timestamp> {
    number(rest, 6).map(Timestamp::from_ms)
}

/// Reads a value; `None` if it is not one.
pub(super) fn read(value: &[u8]) -> Option<StoredCounter> {
    read_with(value, |rest, last, state| {
        let left = usize::try_from(number(rest, 2)?).ok()?;
        let count = usize::try_from(number(rest, 2)?).ok()?;
        for place in 0..count {
            let low = u32::try_from(number(rest, 4)?).ok()?;
            if place >= left {
                state.charge(log_time(last, low), 1);
            }
        }
        Some(())
    })
}

/// Reads a value as the script shows it in its answer: of a log only the runs of entries on which the verdict depends.
pub(super) fn read_shown(value: &[u8]) -> Option<StoredCounter> {
    read_with(value, |rest, _, state| {
        while !rest.is_empty() {
            let at = time(rest)?;
            state.charge(at, number(rest, 7)?);
        }
        Some(())
    })
}

fn read_with(
    value: &[u8],
    read_log: impl Fn(&mut &[u8], Timestamp, &mut CounterState) -> Option<()>,
) -> Option<StoredCounter> {
    let rest = &mut &*value;
    let kind = rest.try_get_u8().ok()?;
    let parts = u32::from(rest.try_get_u8().ok()?);
    let window = Window::new(number(rest, 6)?, parts).ok()?;
    let limit = Limit { algorithm: algorithm(kind)?, window, units: number(rest, 7)?, burst: number(rest, 7)? };
    let generation = number(rest, 7)?;
    let (born, last) = (time(rest)?, time(rest)?);
    let count_len = usize::from(rest.try_get_u8().ok().filter(|len| (1..=8).contains(len))?);
    // The reserve of a burst follows the charges: its state is read, not computed.
    let mut state = CounterState::new(&Limit { burst: 0, ..limit });
    match limit.algorithm {
        Algorithm::SlidingLog | Algorithm::Concurrency => read_log(rest, last, &mut state)?,
        Algorithm::TokenBucket | Algorithm::LeakyBucket => {
            let (at, level) = (time(rest)?, number(rest, 7)?);
            state = CounterState::Meter(Box::new(Meter::of(&limit, at, level)));
        }
        Algorithm::SlidingWindow(_) | Algorithm::FixedWindow => {
            let spent = if limit.burst > 0 { number(rest, 7)? } else { 0 };
            let newest = window.sub_window(last);
            let mut back = rest.len() / count_len;
            let mut counts = Vec::with_capacity(back);
            while !rest.is_empty() {
                counts.push(number(rest, count_len)?);
            }
            for units in counts.into_iter().rev() {
                back -= 1;
                state.charge(window.start_of(newest.checked_sub(back as u64)?), units);
            }
            state.advance(&limit, last);
            if let CounterState::Counts(counts) = &mut state {
                counts.set_spent(&limit, spent);
            }
        }
    }
    state.advance(&limit, last);
    Some(StoredCounter::of(state, limit, generation, born))
}

/// The value of a counter that was advanced to `last`.
pub(super) fn write(stored: &StoredCounter, last: Timestamp) -> Vec<u8> {
    let (limit, admitted) = (stored.limit(), stored.state().admitted());
    let window = limit.window;
    let mut bytes = Vec::with_capacity(HEADER_LEN);
    let mut put = |len, number| bytes.put_uint_le(number, len);
    put_policy(&mut put, &limit, stored.generation());
    put(6, stored.born().as_ms());
    put(6, last.as_ms());
    match stored.state() {
        CounterState::Counts(counted) => {
            let newest = window.sub_window(last);
            let back = |at| usize::try_from(newest - window.sub_window(at)).unwrap_or(usize::MAX);
            let mut counts = vec![0; admitted.first().map_or(0, |(at, _)| back(*at) + 1)];
            for (at, units) in admitted {
                counts[back(at)] = units;
            }
            let count_len = match counts.iter().max() {
                Some(0x1_0000_0000..) => 8,
                Some(0x1_0000..) => 4,
                Some(0x100..) => 2,
                _ => 1,
            };
            put(1, count_len as u64);
            if limit.burst > 0 {
                put(7, counted.spent());
            }
            for units in counts {
                put(count_len, units);
            }
        }
        CounterState::Log(_) => {
            put(1, 1);
            put(2, 0);
            put(2, admitted.len() as u64);
            for (at, _) in admitted {
                put(4, at.as_ms());
            }
        }
        CounterState::Meter(meter) => {
            let (at, level) = meter.charged();
            put(1, 1);
            put(6, at.as_ms());
            put(7, level);
        }
    }
    bytes
}

/// Puts the fields that a charge and a value have in common.
pub(super) fn put_policy(put: &mut impl FnMut(usize, u64), limit: &Limit, generation: Generation) {
    let limit = exact(limit);
    put(1, u64::from(kind(&limit)));
    put(1, u64::from(limit.window.sub_windows()));
    put(6, limit.window.width_ms());
    put(7, limit.units);
    put(7, limit.burst);
    put(7, generation.min(EXACT_MAX));
}

/// The charge in numbers that are exact in a script. The script knows its request.
pub(super) fn exact_charge(charge: &Charge) -> Charge {
    let generation = charge.generation.min(EXACT_MAX);
    Charge { request: None, limit: exact(&charge.limit), generation, ..charge.clone() }
}

/// The limit in numbers that are exact in a script, and without a burst where the algorithm has none.
fn exact(limit: &Limit) -> Limit {
    let has_burst =
        matches!(limit.algorithm, Algorithm::SlidingWindow(_) | Algorithm::TokenBucket | Algorithm::LeakyBucket);
    let burst = if has_burst { limit.burst.min(EXACT_MAX) } else { 0 };
    Limit { units: limit.units.min(EXACT_MAX), burst, ..*limit }
}

/// Time of a log's entry, of which the low 32 bits are stored: at most 49 days before the last step.
fn log_time(last: Timestamp, low: u32) -> Timestamp {
    let low_of_last = last.as_ms() & u64::from(u32::MAX);
    let ago_ms = low_of_last.wrapping_sub(u64::from(low)) & u64::from(u32::MAX);
    last.minus_ms(ago_ms)
}

fn kind(limit: &Limit) -> u8 {
    let bursts = limit.burst > 0 && matches!(limit.algorithm, Algorithm::SlidingWindow(_));
    (1..)
        .zip(KINDS)
        .find_map(|(kind, of)| (of == (limit.algorithm, bursts)).then_some(VERSION + kind))
        .unwrap_or(VERSION)
}

fn algorithm(kind: u8) -> Option<Algorithm> {
    let place = usize::from(kind ^ VERSION).checked_sub(1)?;
    KINDS.get(place).map(|(algorithm, _)| *algorithm)
}
