//! Queries about the state of an aggregator, from other threads.
//!
//! Queries wait in a short queue, and the event loop answers them between two rounds, so counting needs no locks. A query that panics
//! has no answer but the reason, and counting goes on.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::timeout;
use tollgate_aggregator_engine::worker::Worker;
use tollgate_core::clock::Timestamp;

use crate::dead_letters::DeadLetters;
use crate::fault::Fault;

/// Maximum number of queries that wait; further ones are refused.
const QUERIES_LEN_MAX: usize = 64;
/// Maximum time for an answer of the event loop; one of its rounds takes far less.
const ANSWER_WAIT: Duration = Duration::from_secs(5);

/// The state of an aggregator between two rounds.
pub(crate) struct AggregatorState<'a> {
    pub(crate) now: Timestamp,
    pub(crate) worker: &'a Worker,
    pub(crate) dead_letters: &'a DeadLetters,
    pub(crate) bus_fault: Option<Fault>,
}

/// Reason for which a question has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AskError {
    /// The event loop takes no question, or does not answer in time.
    Silent,
    /// The answer of the event loop panicked.
    StateFailed,
    /// The answer of the view of the fleet panicked.
    ViewFailed,
    /// The aggregator is about to end.
    Ending,
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

    /// Returns the answer that a function gives on the event loop's thread.
    ///
    /// # Errors
    /// If the function panics, or the event loop does not call it in time.
    pub(crate) async fn ask<T: Send + 'static>(
        &self,
        answer: impl FnOnce(&AggregatorState<'_>) -> T + Send + 'static,
    ) -> Result<T, AskError> {
        let (reply, answered) = oneshot::channel();
        let query: Query = Box::new(move |state| {
            // The state is only read, so no half of a change remains.
            let answer = catch_unwind(AssertUnwindSafe(|| answer(state))).map_err(|_| AskError::StateFailed);
            // A caller that has gone is ignored.
            drop(reply.send(answer));
        });
        self.0.try_send(query).map_err(|error| match error {
            TrySendError::Full(_) => AskError::Silent,
            TrySendError::Disconnected(_) => AskError::Ending,
        })?;
        let answered = timeout(ANSWER_WAIT, answered).await.map_err(|_| AskError::Silent)?;
        answered.unwrap_or(Err(AskError::Ending))
    }
}

impl AskError {
    /// Returns the part that failed, and the remedy.
    pub(crate) const fn detail(self) -> &'static str {
        match self {
            Self::Silent => "the event loop does not answer; if this lasts, restart this aggregator",
            Self::StateFailed => {
                "the answer about the state of this aggregator panicked, and counting goes on; report the panic, which stands on standard error"
            }
            Self::ViewFailed => {
                "the answer from the view of the whole fleet panicked, and counting goes on; report the panic, which stands on standard error"
            }
            Self::Ending => "this aggregator is about to end; ask another one, or this one after its restart",
        }
    }
}

#[cfg(test)]
mod tests {
    use tollgate_aggregator_engine::worker::WorkerSettings;

    use super::*;

    #[tokio::test]
    async fn a_query_that_panics_is_told_as_such_and_ends_no_other() {
        let (queries, queue) = Queries::open();
        let event_loop = std::thread::spawn(move || {
            let (worker, dead_letters) = (Worker::new(WorkerSettings::new("a"), 1), DeadLetters::new(None));
            for query in queue {
                let now = Timestamp::from_ms(7);
                query(&AggregatorState { now, worker: &worker, dead_letters: &dead_letters, bus_fault: None });
            }
        });
        assert_eq!(queries.ask(|_| -> u64 { panic!("a fault of a query") }).await, Err(AskError::StateFailed));
        assert_eq!(queries.ask(|state| state.now.as_ms()).await, Ok(7));
        drop(queries);
        event_loop.join().expect("it has not panicked");
    }

    #[tokio::test]
    async fn a_full_queue_and_an_ended_event_loop_are_told_apart() {
        let (queries, queue) = Queries::open();
        for _ in 0..QUERIES_LEN_MAX {
            let query: Query = Box::new(|_: &AggregatorState<'_>| ());
            queries.0.try_send(query).expect("there is room");
        }
        assert_eq!(queries.ask(|state| state.now).await, Err(AskError::Silent));
        drop(queue);
        assert_eq!(queries.ask(|state| state.now).await, Err(AskError::Ending));
    }
}
