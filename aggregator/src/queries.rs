//! Queries about the state of an aggregator, from other threads.
//!
//! Queries wait in a short queue, and the event loop answers them between two rounds, so counting needs no locks. A query that panics
//! has no answer, and counting goes on.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::timeout;
use tollgate_aggregator_engine::worker::Worker;
use tollgate_core::clock::Timestamp;

use crate::dead_letters::DeadLetters;

/// Maximum number of queries that wait; further ones are refused.
const QUERIES_LEN_MAX: usize = 64;
/// Maximum time for an answer of the event loop; one of its rounds takes far less.
const ANSWER_WAIT: Duration = Duration::from_secs(5);

/// The state of an aggregator between two rounds.
pub(crate) struct AggregatorState<'a> {
    pub(crate) now: Timestamp,
    pub(crate) worker: &'a Worker,
    pub(crate) dead_letters: &'a DeadLetters,
    pub(crate) bus_error: Option<String>,
}

pub(crate) type Query = Box<dyn FnOnce(&AggregatorState<'_>) + Send>;

/// A handle for queries to an aggregator; clones query the same one.
#[derive(Clone)]
pub struct Queries(SyncSender<Query>);

impl Queries {
    pub(crate) fn open() -> (Self, Receiver<Query>) {
        let (queue, queries) = sync_channel(QUERIES_LEN_MAX);
        (Self(queue), queries)
    }

    /// Returns the answer that a function gives on the event loop's thread; nothing if the event loop does not answer.
    pub(crate) async fn ask<T: Send + 'static>(
        &self,
        answer: impl FnOnce(&AggregatorState<'_>) -> T + Send + 'static,
    ) -> Option<T> {
        let (reply, answered) = oneshot::channel();
        let query: Query = Box::new(move |state| {
            // The state is only read, so no half of a change remains.
            if let Ok(answer) = catch_unwind(AssertUnwindSafe(|| answer(state))) {
                // A caller that has gone is ignored.
                drop(reply.send(answer));
            }
        });
        self.0.try_send(query).ok()?;
        timeout(ANSWER_WAIT, answered).await.ok()?.ok()
    }
}

#[cfg(test)]
mod tests {
    use tollgate_aggregator_engine::worker::WorkerSettings;

    use super::*;

    #[tokio::test]
    async fn a_query_that_panics_has_no_answer_and_ends_no_other() {
        let (queries, queue) = Queries::open();
        let event_loop = std::thread::spawn(move || {
            let (worker, dead_letters) = (Worker::new(WorkerSettings::new("a"), 1), DeadLetters::new(None));
            for query in queue {
                let now = Timestamp::from_ms(7);
                query(&AggregatorState { now, worker: &worker, dead_letters: &dead_letters, bus_error: None });
            }
        });
        assert_eq!(queries.ask(|_| -> u64 { panic!("a fault of a query") }).await, None);
        assert_eq!(queries.ask(|state| state.now.as_ms()).await, Some(7));
        drop(queries);
        event_loop.join().expect("it has not panicked");
    }
}
