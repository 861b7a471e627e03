//! Independent cells of an experiment, which all processors share.

use std::num::NonZeroUsize;
use std::sync::Mutex;
use std::thread;

/// Runs each cell on one of the processors, and returns the results in the order of the cells.
pub(super) fn on_all_processors<C: Sync, R: Send>(cells: &[C], run: impl Fn(&C) -> R + Sync) -> Vec<R> {
    let (waiting, done) = (Mutex::new(cells.iter().enumerate()), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, NonZeroUsize::get) {
            scope.spawn(|| {
                // The lock must not be held while a cell runs.
                while let Some((index, cell)) = { waiting.lock().expect("no thread panics").next() } {
                    let result = run(cell);
                    done.lock().expect("no thread panics").push((index, result));
                }
            });
        }
    });
    let mut results = done.into_inner().expect("no thread panics");
    results.sort_by_key(|(index, _)| *index);
    results.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_in_the_order_of_their_cells() {
        let cells: Vec<u64> = (0..100).collect();
        assert_eq!(on_all_processors(&cells, |cell| cell + 1), (1..101).collect::<Vec<_>>());
    }
}
