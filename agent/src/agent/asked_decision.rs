//! Decisions that waited for the store, for an observer such as an exporter of traces.
//!
//! Without an observer, a request to the store costs a look at an option. A call that is decided without the store is not observed,
//! nor is one whose charge follows its decision, because neither waits.

use std::time::Duration;

use smallvec::SmallVec;
use tollgate_core::call::Call;
use tollgate_core::clock::Stopwatch;
use tollgate_core::counter::StoreError;
use tollgate_core::decision::Decision;
use tollgate_core::trace_context::CallTrace;
use tollgate_engine::{Output, StoreRequest};

/// Decision that waited for the store.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct AskedDecision<'a> {
    /// Decision.
    pub decision: &'a Decision,
    /// Trace of its call.
    pub trace: &'a CallTrace,
    /// Time until the answer of the store, or until the deadline.
    pub took: Duration,
    /// Reason for which the store did not answer; none if it did.
    pub error: Option<StoreError>,
}

/// Function that takes decisions that waited for the store.
pub(super) type AskedObserver = Box<dyn Fn(AskedDecision<'_>) + Send + Sync>;

/// Request to the store whose decisions are observed.
pub(super) struct ObservedRequest<'a, 'c> {
    observe: &'a AskedObserver,
    calls: &'a [Call<'c>],
    /// True for each call about which the store is asked.
    asked: SmallVec<[bool; 1]>,
    stopwatch: Stopwatch,
}

impl<'a, 'c> ObservedRequest<'a, 'c> {
    /// Begins the request for these calls.
    pub(super) fn begin(observe: &'a AskedObserver, calls: &'a [Call<'c>], request: &StoreRequest) -> Self {
        Self { observe, calls, asked: request.asked().collect(), stopwatch: Stopwatch::start() }
    }

    /// Passes on the decisions. `error` is the reason for which the store did not answer.
    pub(super) fn end(self, output: &Output, error: Option<StoreError>) {
        let Output::Decisions(decisions) = output else { return };
        let took = self.stopwatch.elapsed();
        for ((call, decision), _) in self.calls.iter().zip(decisions).zip(&self.asked).filter(|(_, asked)| **asked) {
            (self.observe)(AskedDecision { decision, trace: call.told_trace(), took, error });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use futures_util::FutureExt;
    use parking_lot::Mutex;
    use tollgate_core::clock::{SystemClock, Timestamp};
    use tollgate_core::counter::{Charge, ChargeResults};
    use tollgate_core::decision::Source;
    use tollgate_core::rules::{MatchScope, OnFailure, Rule};
    use tollgate_core::trace_context::TraceContext;

    use super::*;
    use crate::Agent;
    use crate::store::{ChargeStore, MemoryStore};

    /// Store that answers while it is not silent.
    struct SilentStore(MemoryStore, AtomicBool);

    impl ChargeStore for SilentStore {
        async fn charge(&self, charges: &[Charge]) -> Result<ChargeResults, StoreError> {
            if self.1.load(Ordering::Relaxed) {
                pending::<()>().await;
            }
            self.0.try_charge(charges).expect("memory needs no waiting")
        }

        fn ping(&self) -> impl Future<Output = Result<Timestamp, StoreError>> + Send {
            self.0.ping()
        }
    }

    /// Verdict, source, error and trace of a decision that was observed.
    type Observed = (bool, Source, Option<StoreError>, CallTrace);

    /// Agent with two calls a minute for each key, its store, and the decisions that are observed.
    fn observed_agent() -> (Agent<SilentStore>, Arc<SilentStore>, Arc<Mutex<Vec<Observed>>>) {
        let store = SilentStore(MemoryStore::new(Arc::new(SystemClock::start())), AtomicBool::new(false));
        let (store, seen) = (Arc::new(store), Arc::new(Mutex::new(Vec::new())));
        let rule = Rule::per("per-key", &["api_key"], "2/min".parse().expect("a quota"));
        let rule = rule.with(|policy| policy.on_failure = OnFailure::Open);
        let sink = seen.clone();
        let agent = Agent::builder().rule(rule).store(store.clone()).observe_asked(move |asked| {
            sink.lock().push((asked.decision.allowed, asked.decision.source, asked.error, asked.trace.clone()));
        });
        (agent.start_with_store().expect("the agent starts"), store, seen)
    }

    #[tokio::test(start_paused = true)]
    async fn each_decision_that_waited_for_the_store_is_observed_with_its_trace() {
        let (agent, _, seen) = observed_agent();
        let mut sources = Vec::new();
        for cost in [1, 2, 2] {
            let mut call = Call::new().with("api_key", "k").costing(cost);
            call.set_trace(TraceContext::new(7, 8));
            sources.push(agent.decide(&call).await.source);
        }
        assert_eq!(sources, [Source::Store, Source::Store, Source::Local], "the denial is repeated");
        let trace = CallTrace::from(TraceContext::new(7, 8));
        let expected = [true, false].map(|allowed| (allowed, Source::Store, None, trace.clone()));
        assert_eq!(seen.lock().drain(..).collect::<Vec<_>>(), expected);

        let unlimited = Call::new();
        let limited = Call::new().with("api_key", "other");
        let decisions = agent.decide_all(&[unlimited, limited.clone()], MatchScope::default()).await;
        assert_eq!(
            decisions.iter().map(|decision| decision.source).collect::<Vec<_>>(),
            [Source::Local, Source::Store]
        );
        assert!(agent.check(&limited).await.is_ok());
        let expected = [(); 2].map(|()| (true, Source::Store, None, CallTrace::Untold));
        assert_eq!(*seen.lock(), expected);
    }

    #[tokio::test(start_paused = true)]
    async fn a_decision_without_an_answer_of_the_store_is_observed_with_the_reason() {
        let (agent, store, seen) = observed_agent();
        store.1.store(true, Ordering::Relaxed);
        let call = Call::new().with("api_key", "k");
        assert!(agent.decide(&call).now_or_never().is_none(), "its caller leaves before the deadline");
        assert!(agent.decide(&call).await.allowed);
        assert_eq!(*seen.lock(), [(true, Source::Fallback, Some(StoreError::TimedOut), CallTrace::Untold)]);
    }
}
