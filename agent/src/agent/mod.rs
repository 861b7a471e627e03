//! The agent: an engine in wall time, with its store and its bus.
//!
//! A check is an [`Admission`] or a [`Denial`]; faults of the store never fail it. The agent's tasks run on the tokio
//! runtime in which it was started. The bus has threads of its own: a drop tells them to end, and only a shutdown waits
//! for them. The last clone is often dropped on a thread of the runtime, which must not wait for a slow bus.

mod start_error;
mod decision_sink;
mod answer_counts;
mod asked_decision;
mod builder;
mod permit;
mod admission;
mod late_requests;
mod shared;
mod ask_store;
mod operations;
mod answer;
mod check_future;
mod check;
mod settle_release;
mod decision_log;
mod answer_log;
mod start;
mod tokens;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tollgate_core::call::Call;
use tollgate_core::decision::LocalAnswer;
use tollgate_core::regions::stored_limit::LimitView;
use tollgate_core::rules::Quota;
use tollgate_engine::Engine;

use crate::runtime::inside;
use crate::store::{ChargeStore, StoreServer};

pub use admission::{Admission, Denial};
#[doc(hidden)]
pub use asked_decision::AskedDecision;
pub use builder::Builder;
pub use permit::{Permit, ReleaseToken, ReleaseTokenError};
pub use shared::Agent;
pub use start_error::StartError;

/// Budget of this region for the counter of a call under one global rule.
#[doc(hidden)]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleBudget {
    /// Name of the rule.
    pub rule: Arc<str>,
    /// Units by the last answer of the store.
    pub units: u64,
    /// Record in the store; none if there is none, or if the store does not answer.
    pub view: Option<LimitView>,
}

impl Agent {
    /// Returns the builder of an agent whose counters are in memory, unless it gets a store.
    pub fn builder() -> Builder {
        Builder::new()
    }
}

impl<S: ChargeStore> Agent<S> {
    /// Returns the name of the agent, which is unique in the fleet.
    #[must_use]
    pub fn node(&self) -> &str {
        &self.shared.engine.settings().node
    }

    /// Returns the engine of the agent.
    #[doc(hidden)]
    #[must_use]
    pub fn engine(&self) -> &Engine {
        &self.shared.engine
    }

    /// Returns the servers of the store; none if it is in this process.
    #[doc(hidden)]
    #[must_use]
    pub fn store_servers(&self) -> Vec<StoreServer> {
        self.shared.store.as_ref().map(|store| store.servers()).unwrap_or_default()
    }

    /// Returns the rules for which this agent holds an answer to a call: a lease with room for it, or a denial.
    #[doc(hidden)]
    #[must_use]
    pub fn local_answers(&self, call: &Call<'_>) -> Vec<(Arc<str>, LocalAnswer)> {
        self.shared.engine.local_answers(self.shared.clock.now(), call)
    }

    /// Returns the global rules of a call, with the units that this region may admit by the last answer of the store, and the record of
    /// its budget in the store.
    #[doc(hidden)]
    pub async fn budgets(&self, call: &Call<'_>) -> Vec<RuleBudget> {
        let mut budgets = Vec::new();
        for (rule, (counter, units)) in self.shared.engine.budgets(self.shared.clock.now(), call) {
            let view = match &self.shared.store {
                Some(store) => inside(&self.shared.runtime, store.limit_view(counter)).await,
                None => None,
            };
            budgets.push(RuleBudget { rule, units, view });
        }
        budgets
    }

    /// Switches the emergency on, or off without a quota: while it is on, each caller (by `ip`) may use this quota at
    /// each agent, and no rule is counted. The other agents learn it over the bus.
    pub fn switch_emergency(&self, quota: Option<Quota>) {
        self.shared.engine.switch_emergency(self.shared.clock.now(), quota);
    }

    /// Returns what the agent lacks to be ready, as messages for an operator; nothing if it is ready. It is ready if it has
    /// rules, and its Redis has answered or signals have been read for 2 s. Without servers, it is ready from its start. An
    /// agent that is not ready decides calls all the same. Waits at most 50 ms for Redis.
    pub async fn missing_parts(&self) -> Vec<&'static str> {
        let shared = &self.shared;
        if !shared.engine.is_informed() {
            inside(&shared.runtime, shared.maintenance.reach_store()).await;
        }
        let mut missing = Vec::new();
        if self.is_draining() {
            missing.push("the agent is about to stop; send traffic to another one");
        }
        if shared.engine.with_rules(|rules| rules.generation) == 0 {
            missing.push("no rules have been published yet; publish some with `tollgate rules publish FILE`");
        }
        if !shared.engine.is_informed() {
            missing.push("the store has not answered yet, and signals have not been read for 2 s");
        }
        missing
    }

    /// Begins the end of the agent: from now on it is not ready, so that gateways send their traffic to others. Calls are decided as
    /// before.
    pub fn drain(&self) {
        self.shared.drains.store(true, Ordering::Relaxed);
    }

    /// Returns true after [`Agent::drain`].
    #[must_use]
    pub fn is_draining(&self) -> bool {
        self.shared.drains.load(Ordering::Relaxed)
    }

    /// Returns the metrics of the agent, and those of [`Builder::metrics_from`], in the OpenMetrics text format.
    #[cfg(feature = "metrics")]
    #[must_use]
    pub fn metrics(&self) -> String {
        self.shared.metrics.encode()
    }

    /// Reads the files with rules and with keys of tokens again, although they may not have changed. The log tells the
    /// result within a second; invalid files never replace valid ones. Returns false if the agent has no such file.
    #[cfg(any(feature = "rules-file", feature = "jwt"))]
    #[must_use]
    pub fn reload_files(&self) -> bool {
        let reload = self.shared.reload.as_ref();
        reload.inspect(|reload| reload.store(true, Ordering::Relaxed)).is_some()
    }

    /// Publishes what is left, ends the agent's threads and tasks, and leaves the fleet. It waits at most a few seconds
    /// for a bus that does not answer, and blocks no thread of the runtime. Later calls are decided as before, but not
    /// published.
    ///
    /// Dropping the last clone instead ends everything in the background: what is left is lost if the process ends first.
    pub async fn shutdown(&self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        #[cfg(feature = "bus")]
        {
            let bus_threads = self.shared.bus_threads.lock().take();
            let join = || bus_threads.map(crate::runtime::BusThreads::join);
            let _ = self.shared.runtime.spawn_blocking(join).await;
        }
        inside(&self.shared.runtime, self.shared.maintenance.stop()).await;
    }
}
