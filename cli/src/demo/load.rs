//! Callers of a demo: each makes calls with one key and records the answers.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tollgate::store::ChargeStore;
use tollgate::{Agent, Call};
use tollgate_core::clock::Stopwatch;

use super::record::{DemoCall, DemoRecord};

/// Caller until the run ends.
#[derive(Clone)]
pub(super) struct DemoCaller {
    /// Number under which the answers are recorded.
    pub(super) origin: u32,
    pub(super) key: String,
    pub(super) record: Arc<Mutex<DemoRecord>>,
    pub(super) since: Stopwatch,
    /// Length of the run.
    pub(super) length: Duration,
}

impl DemoCaller {
    pub(super) fn has_ended(&self) -> bool {
        self.since.elapsed() >= self.length
    }

    /// Makes one call.
    pub(super) async fn call<S: ChargeStore>(&self, agent: &Agent<S>) {
        let call = Call::new().with("api_key", &*self.key);
        let took = Stopwatch::start();
        let decision = agent.decide(&call).await;
        let (took, answered) = (took.elapsed(), self.since.elapsed());
        self.record.lock().enter(DemoCall { origin: self.origin, decision, took, answered });
    }
}
