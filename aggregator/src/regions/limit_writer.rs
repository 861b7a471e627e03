//! Writes of limits and floors to the region's store, several at a time.
//!
//! Nothing is lost with a write that fails: the engine asks for it again with the next tick.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tollgate_core::clock::Timestamp;
use tollgate_core::counter::{CounterId, StoreError};
use tollgate_core::regions::limit_store::LimitStore;
use tollgate_core::regions::stored_limit::{LimitAnswer, LimitWrite, StoredLimit};

const WRITE_WAIT: Duration = Duration::from_millis(250);
/// Maximum number of writes at a time.
const WRITES_MAX: usize = 64;

/// Write of a limit or a floor.
#[derive(Clone, Debug)]
pub(super) struct StoreWrite {
    pub(super) rule: Arc<str>,
    /// The counter of a limit; nothing for a floor.
    pub(super) counter: Option<CounterId>,
    pub(super) write: LimitWrite,
}

/// Answer of the store, with its time.
#[derive(Clone, Debug)]
pub(super) enum LimitWriteAnswer {
    Limit(CounterId, LimitAnswer),
    Floor(Arc<str>, StoredLimit),
}

impl LimitWriteAnswer {
    pub(super) const fn counter(&self) -> Option<CounterId> {
        match self {
            Self::Limit(counter, _) => Some(*counter),
            Self::Floor(..) => None,
        }
    }
}

pub(super) struct LimitWriter<S> {
    pub(super) store: Arc<S>,
    pub(super) runtime: Handle,
    /// Error of the last question for the time or, while that is answered, of the last writes.
    pub(super) error: Option<String>,
    pub(super) refused: Option<String>,
}

impl<S: LimitStore> LimitWriter<S> {
    pub(super) fn time(&mut self) -> Option<Timestamp> {
        let asked = self.runtime.block_on(async { timeout(WRITE_WAIT, self.store.time()).await });
        let answered = asked.map_err(|_| "no answer in time".to_owned());
        let answered = answered.and_then(|answer| answer.map_err(|error| error.to_string()));
        // A store that tells its time may still refuse writes.
        self.note(answered.as_ref().err().or(self.refused.as_ref()).cloned());
        answered.ok()
    }

    /// Executes writes, [`WRITES_MAX`] at a time, until none of them is answered. Returns the answers.
    pub(super) fn write(&mut self, writes: &[StoreWrite]) -> Vec<(Timestamp, LimitWriteAnswer)> {
        let mut answers = Vec::new();
        for some in writes.chunks(WRITES_MAX) {
            let before = answers.len();
            let error = self.runtime.block_on(write_some(&self.store, some, &mut answers)).err();
            self.refused.clone_from(&error);
            self.note(error);
            if answers.len() == before {
                break;
            }
        }
        answers
    }

    /// Logs a change: the store is away, or back.
    fn note(&mut self, error: Option<String>) {
        match (&self.error, &error) {
            (None, Some(error)) => tracing::warn!(
                "the limits of this region cannot be written, so it keeps what the store has until its term ends, and then its floors; check --redis, and that agents use the same Redis and --redis-prefix: {error}"
            ),
            (Some(_), None) => tracing::info!("the store takes the limits of this region again"),
            _ => {}
        }
        self.error = error;
    }
}

async fn write_some<S: LimitStore>(
    store: &Arc<S>,
    writes: &[StoreWrite],
    answers: &mut Vec<(Timestamp, LimitWriteAnswer)>,
) -> Result<(), String> {
    let mut tasks = JoinSet::new();
    for write in writes {
        let (store, write) = (store.clone(), write.clone());
        tasks.spawn(async move { timeout(WRITE_WAIT, write_one(&*store, write)).await });
    }
    let mut result = Ok(());
    while let Some(ended) = tasks.join_next().await {
        match ended {
            Ok(Ok(Ok(answer))) => answers.push(answer),
            Ok(Ok(Err(error))) => result = Err(error.to_string()),
            Ok(Err(_)) => result = Err("no answer in time".to_owned()),
            Err(panicked) => result = Err(panicked.to_string()),
        }
    }
    result
}

async fn write_one<S: LimitStore>(store: &S, write: StoreWrite) -> Result<(Timestamp, LimitWriteAnswer), StoreError> {
    let StoreWrite { rule, counter, write } = write;
    if let Some(counter) = counter {
        let (time, answer) = store.write_limit(&rule, counter, &write).await?;
        return Ok((time, LimitWriteAnswer::Limit(counter, answer)));
    }
    let (time, floor) = store.write_floor(&rule, &write).await?;
    Ok((time, LimitWriteAnswer::Floor(rule, floor)))
}
