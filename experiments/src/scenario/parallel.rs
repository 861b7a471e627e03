//! Independent runs on all processors. Their results stand in the order of the runs, so threads change no number.
//!
//! Each run has a thread of its own, because agents keep what they know about calls by thread.

use std::num::NonZeroUsize;
use std::sync::Mutex;
use std::thread;

/// Runs all inputs, and returns their results in the order of the inputs.
pub(super) fn run_all<T: Sync, R: Send>(inputs: &[T], run: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let (waiting, done) = (Mutex::new(inputs.iter().enumerate()), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, NonZeroUsize::get) {
            scope.spawn(|| {
                // The lock must not be held during a run.
                while let Some((place, input)) = { waiting.lock().expect("no thread panics").next() } {
                    let result = thread::scope(|own| own.spawn(|| run(input)).join().expect("no run panics"));
                    done.lock().expect("no thread panics").push((place, result));
                }
            });
        }
    });
    let mut results = done.into_inner().expect("no thread panics");
    results.sort_by_key(|(place, _)| *place);
    results.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_stand_in_the_order_of_the_inputs() {
        let inputs: Vec<u64> = (0..100).collect();
        let doubled = run_all(&inputs, |input| {
            thread::yield_now();
            2 * input
        });
        assert_eq!(doubled, inputs.iter().map(|input| 2 * input).collect::<Vec<_>>());
    }
}
