//! Runs of an operation: at once by the engine, or with the answer of the store.

use std::pin::Pin;

use tollgate_core::call::Call;
use tollgate_core::clock::Timestamp;
use tollgate_engine::{Operation, Output, Progress, StoreRequest};

use super::asked_decision::ObservedRequest;
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

    /// Finishes the check of these calls with the answer of the store, and observes its duration. The future is boxed because it
    /// is large: most checks do not wait for a store, but their futures would have room for it.
    pub(super) fn ask_store_timed<'a>(
        &'a self,
        request: StoreRequest,
        calls: &'a [Call<'_>],
    ) -> Pin<Box<dyn Future<Output = Output> + Send + 'a>> {
        Box::pin(async {
            #[cfg(feature = "metrics")]
            let took = tollgate_core::clock::Stopwatch::start();
            let observe = self.asked_observer.as_ref();
            let observed = observe.map(|observe| ObservedRequest::begin(observe, calls, &request));
            let (output, error) = self.ask_store(request).await;
            #[cfg(feature = "metrics")]
            self.metrics.check.waited(took.elapsed());
            if let Some(observed) = observed {
                observed.end(&output, error);
            }
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
            Progress::NeedsStore(request) => self.ask_store(request).await.0,
        }
    }
}
