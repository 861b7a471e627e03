//! Runs of an operation: at once by the engine, or with the answer of the store.

use std::pin::Pin;

use tollgate_core::clock::Timestamp;
use tollgate_engine::{Operation, Output, Progress, StoreRequest};

use super::shared::Shared;
use crate::store::ChargeStore;

impl<S: ChargeStore> Shared<S> {
    /// Runs a check that waits for no store and counts it; else returns the request to the store.
    pub(super) fn run_at_once(&self, now: Timestamp, operation: Operation<'_, '_>) -> Result<Output, StoreRequest> {
        match self.engine.begin(now, operation) {
            Progress::Done(output) => {
                #[cfg(feature = "metrics")]
                self.metrics.check.at_once();
                Ok(output)
            }
            Progress::Deferred(output, request) => {
                #[cfg(feature = "metrics")]
                self.metrics.check.at_once();
                self.charge_afterwards(request);
                Ok(output)
            }
            Progress::NeedsStore(request) => Err(request),
        }
    }

    /// Finishes a check with the answer of the store, and observes its duration. The future is boxed because it is
    /// large: most checks do not wait for a store, but their futures would have room for it.
    pub(super) fn ask_store_timed(&self, request: StoreRequest) -> Pin<Box<dyn Future<Output = Output> + Send + '_>> {
        Box::pin(async {
            #[cfg(feature = "metrics")]
            let took = tollgate_core::clock::Stopwatch::start();
            let output = self.ask_store(request).await;
            #[cfg(feature = "metrics")]
            self.metrics.check.waited(took.elapsed());
            output
        })
    }

    /// Runs an operation; waits for the store no longer than the operation's deadline.
    pub(super) async fn run(&self, operation: Operation<'_, '_>) -> Output {
        match self.engine.begin(self.clock.now(), operation) {
            Progress::Done(output) => output,
            Progress::Deferred(output, request) => {
                self.charge_afterwards(request);
                output
            }
            Progress::NeedsStore(request) => self.ask_store(request).await,
        }
    }
}
