//! An agent, and the state that its clones share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::runtime::Handle;
use tollgate_core::clock::Clock;
use tollgate_engine::Engine;

use super::answer_counts::AnswerCounts;
use super::asked_decision::AskedObserver;
use super::decision_sink::DecisionSink;
use super::late_requests::LateRequests;
use crate::runtime::MaintenanceTask;
use crate::store::{AnyStore, ChargeStore};

/// Limiter of calls. Clones are the same agent.
///
/// Without Redis, its counters are in the memory of this process. With Redis, all agents of a fleet share them. Checks
/// may run on any number of threads at once.
///
/// ```
/// use tollgate::{Agent, Call, Rule};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let agent = Agent::builder().rule(Rule::per("per-key", &["api_key"], "2/min".parse()?)).start()?;
/// let call = Call::new().with("api_key", "k1");
/// for _ in 0..2 {
///     let _admission = agent.check(&call).await?;
/// }
/// let denial = agent.check(&call).await.expect_err("the third call of the minute");
/// assert_eq!(denial.rule(), "per-key");
/// agent.shutdown().await;
/// # Ok(()) }
/// ```
pub struct Agent<S: ChargeStore = AnyStore> {
    pub(super) shared: Arc<Shared<S>>,
}

pub(super) struct Shared<S> {
    pub(super) engine: Arc<Engine>,
    #[cfg(feature = "metrics")]
    pub(super) metrics: crate::metrics::AgentMetrics,
    #[cfg(feature = "jwt")]
    pub(super) tokens: Arc<crate::request::jwt::Verifier>,
    /// None if the counts are in the engine's own table.
    pub(super) store: Option<Arc<S>>,
    pub(super) clock: Arc<dyn Clock>,
    /// Runtime in which the agent was started.
    pub(super) runtime: Handle,
    pub(super) late_requests: Arc<LateRequests>,
    pub(super) decision_sink: Option<DecisionSink>,
    pub(super) answer_counts: AnswerCounts,
    pub(super) asked_observer: Option<AskedObserver>,
    /// True once the log tells that clients behind a gateway share one address.
    pub(super) has_warned_of_gateway: AtomicBool,
    pub(super) maintenance: MaintenanceTask,
    #[cfg(feature = "bus")]
    pub(super) bus_threads: parking_lot::Mutex<Option<crate::runtime::BusThreads>>,
    /// True once the agent is about to stop.
    pub(super) drains: AtomicBool,
    pub(super) stop: Arc<AtomicBool>,
    /// Request to read the watched files again; none without files.
    #[cfg(any(feature = "rules-file", feature = "jwt"))]
    pub(super) reload: Option<Arc<AtomicBool>>,
}

impl<S: ChargeStore> Clone for Agent<S> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone() }
    }
}

impl<S> Drop for Shared<S> {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}
