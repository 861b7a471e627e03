//! Stripes: copies of a value of which each thread uses one, so that calls on several threads write to no common cache line.
//!
//! A thread takes the next stripe when it first asks for one and keeps it for its life. When there are more threads than
//! stripes, some share one, so the value is an atomic number or is locked.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Number of stripes.
#[doc(hidden)]
pub const STRIPES: usize = 16;
/// Number of consecutive calls that a stripe numbers.
const CALLS_BLOCK: u64 = 1_024;

static NEXT_STRIPE: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static STRIPE: Cell<usize> = Cell::new(NEXT_STRIPE.fetch_add(1, Ordering::Relaxed) % STRIPES);
}

/// Copies of a value, one or [`STRIPES`].
#[derive(Debug)]
pub(crate) struct Stripes<T>(Box<[Stripe<T>]>);

/// One copy, on cache lines of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Stripe<T>(T);

/// Numbers of calls: unique, and consecutive in blocks.
#[derive(Debug, Default)]
pub(crate) struct CallNumbers(Stripes<AtomicU64>);

/// Sets the stripe of the current thread, for a simulation of several threads.
#[doc(hidden)]
pub fn use_stripe(index: usize) {
    STRIPE.set(index % STRIPES);
}

impl<T: Default> Stripes<T> {
    /// Creates so many copies.
    pub(crate) fn of_len(len: usize) -> Self {
        Self((0..len).map(|_| Stripe::default()).collect())
    }
}

impl<T: Default> Default for Stripes<T> {
    fn default() -> Self {
        Self::of_len(STRIPES)
    }
}

impl<T> Stripes<T> {
    /// Returns the copy of the current thread.
    pub(crate) fn own(&self) -> &T {
        &self.0[STRIPE.get() % self.0.len()].0
    }

    /// Returns all copies.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.iter().map(|stripe| &stripe.0)
    }

    /// Returns the copy at this index.
    pub(crate) fn get(&self, index: usize) -> &T {
        &self.0[index].0
    }
}

impl CallNumbers {
    /// Returns the next number.
    pub(crate) fn next(&self) -> u64 {
        let (stripe, calls) = (STRIPE.get() as u64, self.0.own().fetch_add(1, Ordering::Relaxed));
        (calls / CALLS_BLOCK * STRIPES as u64 + stripe) * CALLS_BLOCK + calls % CALLS_BLOCK
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::thread;

    use super::*;

    #[test]
    fn calls_of_several_threads_have_different_numbers() {
        let numbers = CallNumbers::default();
        let number = |_| (0..3_000).map(|_| numbers.next()).collect::<Vec<_>>();
        let all: Vec<_> = thread::scope(|scope| {
            let threads: Vec<_> = (0..20).map(|thread| scope.spawn(move || number(thread))).collect();
            threads.into_iter().flat_map(|thread| thread.join().expect("numbers")).collect()
        });
        assert_eq!((all.len(), all.iter().collect::<HashSet<_>>().len()), (60_000, 60_000));
    }
}
