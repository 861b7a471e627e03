//! Runs of an operation: at once by the engine, or with the answer of the store.

use std::pin::Pin;

use tollgate_core::call::Call;
use tollgate_engine::{Operation, Output, Progress, StoreRequest};

use super::asked_decision::ObservedRequest;
use super::shared::Shared;
use crate::store::ChargeStore;

impl<S: ChargeStore> Shared<S> {
    /// Returns the output of an operation that waits for no store; else the request to the store. A charge that follows the decision
    /// is sent.
    pub(super) fn without_wait(&self, progress: Progress) -> Result<Output, StoreRequest> {
        match progress {
            Progress::Done(output) => Ok(output),
            Progress::Deferred(output, request) => {
                self.charge_afterwards(request);
                Ok(output)
            }
            Progress::NeedsStore(request) => Err(request),
        }
    }

    /// Returns the output of a check that waits for no store, and counts it; else the request to the store.
    pub(super) fn checked_at_once(&self, progress: Progress) -> Result<Output, StoreRequest> {
        let output = self.without_wait(progress);
        #[cfg(feature = "metrics")]
        if output.is_ok() {
            self.metrics.check.at_once();
        }
        output
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
        match self.without_wait(self.engine.begin(self.clock.now(), operation)) {
            Ok(output) => output,
            Err(request) => self.ask_store(request).await.0,
        }
    }
}
