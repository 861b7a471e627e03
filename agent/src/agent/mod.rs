//! The agent: an engine in wall time, with its store and its bus.
//!
//! [`Agent::check`] never fails and never takes longer than the rule's deadline. Clones are the same agent; it must be
//! started inside a tokio runtime.

mod builder;
mod settle_release;
mod start;
mod tokens;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tollgate_core::call::Call;
use tollgate_core::clock::{Clock, Timestamp};
use tollgate_core::decision::Decision;
use tollgate_core::rules::MatchScope;
use tollgate_engine::{Engine, Operation, Output, Progress, StoreRequest};

use crate::runtime::MaintenanceTask;
use crate::store::{AnyStore, ChargeResults, ChargeStore, StoreError};

pub use builder::Builder;
pub use start::StartError;

/// An engine in wall time, with its store and its bus.
pub struct Agent<S: ChargeStore = AnyStore> {
    shared: Arc<Shared<S>>,
}

struct Shared<S> {
    engine: Arc<Engine>,
    #[cfg(feature = "metrics")]
    metrics: crate::metrics::AgentMetrics,
    #[cfg(feature = "jwt")]
    tokens: Arc<crate::request::jwt::Verifier>,
    /// None if the counts are in the engine's own table.
    store: Option<Arc<S>>,
    clock: Arc<dyn Clock>,
    maintenance: MaintenanceTask,
    #[cfg(feature = "bus")]
    bus_threads: parking_lot::Mutex<Option<crate::runtime::BusThreads>>,
    stop: Arc<AtomicBool>,
}

impl Agent {
    /// Returns the builder of an agent whose counters are in memory, unless it gets a store.
    pub fn builder() -> Builder {
        Builder::new()
    }
}

impl<S: ChargeStore> Agent<S> {
    /// Decides a call at once, if the agent need not wait for its store.
    #[must_use]
    pub fn try_check(&self, call: &Call<'_>) -> Option<Decision> {
        let Shared { engine, clock, store, .. } = &*self.shared;
        let now = clock.now();
        if let Some(decision) = engine.decide(now, call) {
            return Some(decision);
        }
        let output = match engine.begin(now, Operation::check(call)) {
            Progress::Done(output) => output,
            Progress::NeedsStore(request) => {
                let answer = store.as_ref()?.try_charge(request.charges())?;
                engine.finish(now, request, answer)
            }
        };
        output.into_decisions().pop()
    }

    /// Decides a call. Never fails, and never takes longer than the deadline of the rules that apply.
    pub async fn check(&self, call: &Call<'_>) -> Decision {
        let shared = &*self.shared;
        let decision = async {
            let now = shared.clock.now();
            if let Some(decision) = shared.engine.decide(now, call) {
                return decision;
            }
            let output = shared.run_at(now, Operation::check(call)).await;
            output.into_decisions().pop().unwrap_or_else(|| unreachable!("the output of a check is a decision"))
        };
        shared.timed(decision).await
    }

    /// Decides several calls as one request: their enforced charges are charged all or none, and each has a decision of its
    /// own. Only the rules of the scope may apply.
    pub async fn check_all(&self, calls: &[Call<'_>], scope: MatchScope<'_>) -> Vec<Decision> {
        self.shared.timed(self.shared.run(Operation::Check { calls, scope })).await.into_decisions().into_vec()
    }

    /// Returns the engine of the agent.
    #[must_use]
    pub fn engine(&self) -> &Engine {
        &self.shared.engine
    }

    /// Returns what the agent lacks to be relied on. It is ready if it has rules, and its store has answered or signals have
    /// been read for a while.
    pub async fn missing_parts(&self) -> Vec<&'static str> {
        let shared = &self.shared;
        if !shared.engine.is_informed() {
            shared.maintenance.reach_store().await;
        }
        let mut missing = Vec::new();
        if shared.engine.with_rules(|rules| rules.generation) == 0 {
            missing.push("no rules have been published yet; publish some with `tollgate rules publish FILE`");
        }
        if !shared.engine.is_informed() {
            missing.push("the store has not answered yet, and signals have not been read for 2 s");
        }
        missing
    }

    /// Returns the metrics in the OpenMetrics text format.
    #[cfg(feature = "metrics")]
    #[must_use]
    pub fn metrics(&self) -> String {
        self.shared.metrics.encode()
    }

    /// Publishes what is left and leaves the fleet. Calls are decided as before, but not published.
    pub async fn stop(&self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        #[cfg(feature = "bus")]
        {
            let bus_threads = self.shared.bus_threads.lock().take();
            // Dropping them joins the threads, which must not block the runtime.
            let _ = tokio::task::spawn_blocking(move || drop(bus_threads)).await;
        }
        self.shared.maintenance.stop().await;
    }
}

impl<S: ChargeStore> Clone for Agent<S> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone() }
    }
}

impl<S: ChargeStore> Shared<S> {
    /// Waits for a check and observes its duration.
    async fn timed<T>(&self, check: impl Future<Output = T>) -> T {
        #[cfg(feature = "metrics")]
        let took = tollgate_core::clock::Stopwatch::start();
        let output = check.await;
        #[cfg(feature = "metrics")]
        self.metrics.check.observe(took.elapsed().as_secs_f64());
        output
    }

    /// Runs an operation; waits for the store no longer than the operation's deadline.
    async fn run(&self, operation: Operation<'_, '_>) -> Output {
        self.run_at(self.clock.now(), operation).await
    }

    async fn run_at(&self, now: Timestamp, operation: Operation<'_, '_>) -> Output {
        match self.engine.begin(now, operation) {
            Progress::Done(output) => output,
            Progress::NeedsStore(request) => {
                let answer = self.charge(&request).await;
                self.engine.finish(self.clock.now(), request, answer)
            }
        }
    }

    async fn charge(&self, request: &StoreRequest) -> Result<ChargeResults, StoreError> {
        let Some(store) = &self.store else { return Err(StoreError::Unreachable) };
        match store.try_charge(request.charges()) {
            Some(answer) => answer,
            None => tokio::time::timeout(timer(request.deadline()), store.charge(request.charges()))
                .await
                .unwrap_or(Err(StoreError::TimedOut)),
        }
    }
}

impl<S> Drop for Shared<S> {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// Returns the time of a timer that fires by the deadline: tokio's timers fire up to a millisecond late.
fn timer(deadline: Duration) -> Duration {
    deadline.saturating_sub(Duration::from_millis(1)).max(Duration::from_millis(1))
}

#[cfg(test)]
mod tests {
    use tollgate_core::algorithm::Algorithm;
    use tollgate_core::rules::Rule;

    use super::*;
    use tollgate_core::decision::Source;

    fn agent(rule: Rule) -> Agent {
        Agent::builder().rule(rule).start().unwrap()
    }

    fn strict(quota: &str) -> Rule {
        Rule::per("per-key", &["api_key"], quota.parse().unwrap()).strict()
    }

    /// B4: a thousand concurrent calls for the last unit, one passes.
    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn the_last_unit_goes_to_one_of_a_thousand() {
        let agent = agent(strict("1/min"));
        let calls: Vec<_> = (0..1_000)
            .map(|_| {
                let agent = agent.clone();
                tokio::spawn(async move { agent.check(&Call::new().with("api_key", "k")).await.allowed })
            })
            .collect();
        let mut passed = 0;
        for call in calls {
            passed += u32::from(call.await.unwrap());
        }
        assert_eq!(passed, 1);
    }

    /// B8: settle 5 after an answer: remaining falls by 5; a rule with a fixed cost is not concerned.
    #[tokio::test]
    async fn the_real_cost_of_a_call_is_charged_afterwards() {
        let fixed = Rule { cost: Some(2), ..Rule::per("fixed", &["api_key"], "50/min".parse().unwrap()) };
        let agent = Agent::builder().rule(strict("100/min")).rule(fixed).start().unwrap();
        let call = Call::new().with("api_key", "k");
        let decision = agent.check(&call).await;
        let settled = agent.settle(&call, 5, None).await.unwrap().unwrap();
        assert_eq!((&*settled.rule, settled.remaining), ("per-key", 94));
        let back = agent.settle(&call, -4, Some(decision.at)).await.unwrap().unwrap();
        assert_eq!(back.remaining, 98);
        assert_eq!(agent.check(&call.clone().costing(0)).await.status.unwrap().remaining, 46, "two fixed charges");
    }

    /// A call that has ended makes room at once, also for callers that were just denied.
    #[tokio::test]
    async fn the_slot_of_a_call_that_ends_is_free() {
        let rule = strict("2/30s").counted_by(Algorithm::Concurrency);
        let agent = agent(rule);
        let call = Call::new().with("api_key", "k");
        let first = agent.check(&call).await;
        assert!(agent.check(&call).await.allowed);
        assert!(!agent.check(&call).await.allowed);
        agent.release(&call, first.at).await.unwrap();
        assert!(agent.check(&call).await.allowed);
        assert!(!agent.check(&call).await.allowed);
    }

    /// A2: the same request id sent twice is charged once, and passes again even when nothing is left.
    #[tokio::test]
    async fn a_request_that_is_retried_is_charged_once() {
        let agent = agent(strict("2/min"));
        let call = |id: &'static str| Call::new().with("api_key", "k").identified(id);
        assert_eq!(agent.check(&call("a")).await.status.unwrap().remaining, 1);
        assert_eq!(agent.check(&call("a")).await.status.unwrap().remaining, 1);
        assert!(agent.check(&call("b")).await.allowed);
        assert!(!agent.check(&call("c")).await.allowed);
        assert!(agent.check(&call("a")).await.allowed, "it had passed");
        assert!(!agent.check(&call("c")).await.allowed, "it had not");
    }

    /// C8: a denial is repeated without the store.
    #[tokio::test]
    async fn a_denied_caller_is_denied_without_asking_again() {
        let agent = agent(strict("1/min"));
        let call = Call::new().with("api_key", "k");
        let decisions = [agent.check(&call).await, agent.check(&call).await, agent.check(&call).await];
        assert_eq!(
            decisions.map(|d| (d.allowed, d.source)),
            [(true, Source::Store), (false, Source::Store), (false, Source::Local)]
        );
    }

    #[tokio::test]
    async fn a_call_that_no_rule_limits_passes() {
        let agent = agent(strict("1/min"));
        let decision = agent.check(&Call::new().with("ip", "10.0.0.1")).await;
        assert!(decision.allowed && decision.status.is_none());
    }

    #[tokio::test]
    async fn an_agent_without_a_bus_keeps_no_rows() {
        assert!(!agent(strict("1/min")).engine().settings().publishes);
    }

    #[tokio::test]
    async fn an_agent_without_rules_does_not_start() {
        assert!(matches!(Agent::builder().start(), Err(StartError::NoRules)));
    }
}
