//! Independent parts of an experiment on all processors.

use std::num::NonZeroUsize;
use std::sync::Mutex;
use std::thread;

/// Returns the result of each item, in the order of the items. Threads take the items in their order.
pub(super) fn in_parallel<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let (waiting, done) = (Mutex::new(items.iter().enumerate()), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, NonZeroUsize::get) {
            scope.spawn(|| {
                // The lock must not be held during the work.
                while let Some((index, item)) = { waiting.lock().expect("no thread panics").next() } {
                    let result = work(item);
                    done.lock().expect("no thread panics").push((index, result));
                }
            });
        }
    });
    let mut done = done.into_inner().expect("no thread panics");
    done.sort_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_have_the_order_of_the_items() {
        let items: Vec<u64> = (0..100).collect();
        assert_eq!(in_parallel(&items, |item| item * 2), items.iter().map(|item| item * 2).collect::<Vec<_>>());
    }
}
