//! Stripes: copies of a value of which each thread uses one, so that calls on several threads write to no common cache line.
//!
//! A thread takes a free stripe when it first asks for one, and has it alone until it ends. It then needs no atomic
//! read-modify-write for the numbers in it: nobody else writes them. Threads that find no free stripe share the last one.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

/// Number of stripes.
#[doc(hidden)]
pub const STRIPES: usize = 16;
/// Number of consecutive calls that a stripe numbers.
const CALLS_BLOCK: u64 = 1_024;

/// The stripe that threads without one of their own share.
const SHARED: StripeOfThread = StripeOfThread { index: STRIPES - 1, is_alone: false };

/// Bit set of the stripes that a thread has alone.
static TAKEN: Mutex<u64> = Mutex::new(0);

thread_local! {
    static STRIPE: Cell<Option<StripeOfThread>> = const { Cell::new(None) };
    static LEASE: StripeLease = StripeLease::take();
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

#[derive(Clone, Copy, Debug)]
struct StripeOfThread {
    index: usize,
    /// True if no other thread writes to it.
    is_alone: bool,
}

/// Right of a thread to a stripe, which ends with the thread.
struct StripeLease(StripeOfThread);

/// A number in a stripe, from the thread of the stripe.
#[derive(Debug)]
pub(crate) struct OwnStripe<'a, T> {
    pub(crate) value: &'a T,
    is_alone: bool,
}

/// Sets the stripe of the current thread, for a simulation of several threads by one: no other may use the same engines.
#[doc(hidden)]
pub fn use_stripe(index: usize) {
    STRIPE.set(Some(StripeOfThread { index: index % STRIPES, is_alone: true }));
}

impl StripeOfThread {
    #[inline]
    fn current() -> Self {
        STRIPE.get().unwrap_or_else(Self::take)
    }

    /// Takes a stripe for the thread. A thread that ends has none of its own any more.
    #[cold]
    fn take() -> Self {
        let taken = LEASE.try_with(|lease| lease.0).unwrap_or(SHARED);
        STRIPE.set(Some(taken));
        taken
    }
}

impl StripeLease {
    fn take() -> Self {
        let mut taken = TAKEN.lock();
        let index = taken.trailing_ones() as usize;
        if index >= SHARED.index {
            return Self(SHARED);
        }
        *taken |= 1 << index;
        Self(StripeOfThread { index, is_alone: true })
    }
}

impl Drop for StripeLease {
    fn drop(&mut self) {
        // Other destructors of the thread may still decide calls.
        STRIPE.set(Some(SHARED));
        if self.0.is_alone {
            *TAKEN.lock() &= !(1 << self.0.index);
        }
    }
}

impl<T: Default> Stripes<T> {
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
    #[inline]
    pub(crate) fn own(&self) -> OwnStripe<'_, T> {
        self.of(StripeOfThread::current())
    }

    #[inline]
    fn of(&self, StripeOfThread { index, is_alone }: StripeOfThread) -> OwnStripe<'_, T> {
        match self.0.get(index) {
            // Of fewer copies, the threads without one of their own use the first one, too.
            Some(stripe) => OwnStripe { value: &stripe.0, is_alone: is_alone && self.0.len() == STRIPES },
            None => OwnStripe { value: &self.0[0].0, is_alone: false },
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.iter().map(|stripe| &stripe.0)
    }

    pub(crate) fn get(&self, index: usize) -> &T {
        &self.0[index].0
    }
}

impl<'a, T> OwnStripe<'a, T> {
    pub(crate) fn is_alone(&self) -> bool {
        self.is_alone
    }

    #[inline]
    pub(crate) fn part<P>(self, part: impl FnOnce(&'a T) -> &'a P) -> OwnStripe<'a, P> {
        OwnStripe { value: part(self.value), is_alone: self.is_alone }
    }
}

impl OwnStripe<'_, AtomicU64> {
    /// Adds `n`; returns the number before.
    #[inline]
    pub(crate) fn add(&self, n: u64) -> u64 {
        if !self.is_alone {
            return self.value.fetch_add(n, Ordering::Relaxed);
        }
        let before = self.value.load(Ordering::Relaxed);
        self.value.store(before.wrapping_add(n), Ordering::Relaxed);
        before
    }
}

impl CallNumbers {
    #[inline]
    pub(crate) fn next(&self) -> u64 {
        let stripe = StripeOfThread::current();
        let calls = self.0.of(stripe).add(1);
        (calls / CALLS_BLOCK * STRIPES as u64 + stripe.index as u64) * CALLS_BLOCK + calls % CALLS_BLOCK
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::thread;

    use super::*;

    #[test]
    fn a_number_that_threads_share_loses_nothing() {
        let number = Stripes::<AtomicU64>::of_len(1);
        thread::scope(|scope| {
            for index in 0..2 {
                let own = number.of(StripeOfThread { index, is_alone: true });
                scope.spawn(move || {
                    for _ in 0..200_000 {
                        own.add(1);
                    }
                });
            }
        });
        assert_eq!(number.get(0).load(Ordering::Relaxed), 400_000);
        assert!(!number.own().is_alone());
    }

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
