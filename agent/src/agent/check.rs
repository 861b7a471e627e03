//! Checks: the decision of a call as an [`Admission`] or a [`Denial`].
//!
//! A known call is decided at once by [`Engine::decide`](tollgate_engine::Engine::decide), which makes the answer in
//! its place. Every other one goes through [`Engine::begin_found`](tollgate_engine::Engine::begin_found), and waits for the store
//! if it must.

use std::slice;

use tollgate_core::call::Call;
use tollgate_core::clock::Timestamp;
use tollgate_core::decision::Decision;
use tollgate_core::rules::MatchScope;
use tollgate_engine::{FoundRule, Operation};

use super::answer::{answer_of, sole_decision};
use super::check_future::CheckFuture;
use super::shared::{Agent, Shared};
use super::{Admission, Denial, ask_store};
use crate::store::ChargeStore;

impl<S: ChargeStore> Agent<S> {
    /// Decides a call at once; returns nothing if the store must be asked, and [`check`](Self::check) waits for it
    /// then. A call without a decision is not counted. Without Redis, there is always a decision.
    #[must_use]
    pub fn try_check(&self, call: &Call<'_>) -> Option<Result<Admission, Denial>> {
        let Shared { engine, clock, .. } = &*self.shared;
        let now = clock.now();
        let answer = |decision| {
            #[cfg(feature = "metrics")]
            self.shared.metrics.check.at_once();
            Some(answer_of(decision))
        };
        engine.decide(now, call, answer, |found| self.try_check_generally(now, call, found))
    }

    #[cold]
    #[expect(
        clippy::result_large_err,
        reason = "a denial is as frequent as an admission, and a box would cost an allocation"
    )]
    fn try_check_generally(
        &self,
        now: Timestamp,
        call: &Call<'_>,
        found: Option<FoundRule>,
    ) -> Option<Result<Admission, Denial>> {
        let Shared { engine, store, .. } = &*self.shared;
        let charges_at_once = store.as_ref().is_some_and(|store| store.try_charge(&[]).is_some());
        let progress = engine.try_begin(now, call, found.as_ref(), charges_at_once)?;
        let output = match self.shared.without_wait(progress) {
            Ok(output) => output,
            Err(mut request) => {
                let answer = ask_store::try_charge(&**store.as_ref()?, &request)?;
                engine.finish(now, &mut request, answer)
            }
        };
        #[cfg(feature = "metrics")]
        self.shared.metrics.check.at_once();
        output.into_decisions().pop().map(|decision| self.granted(call, decision))
    }

    /// Decides a call: every rule that applies to it must admit it. An admitted call is charged under all of them; a
    /// denied one is charged under none, except rules in `shadow`.
    ///
    /// A fault of the store is no error: signals of the aggregator decide then, or the `on_failure` of the rule. The check
    /// waits for Redis no longer than the shortest deadline of the rules (15 ms by default), and for nothing without Redis.
    ///
    /// The future may be polled on any thread, also outside of tokio, as long as the runtime runs in which the agent
    /// was started. If it is dropped while it waits for Redis, the call is treated as denied: what Redis charges for it
    /// is refunded, unless the call has an id, which a retry would use.
    ///
    /// # Errors
    /// The denial of the call, with the rule and the time after which it passes.
    pub fn check<'a>(&'a self, call: &'a Call<'_>) -> impl Future<Output = Result<Admission, Denial>> + Send {
        CheckFuture::new(self, call)
    }

    /// Decides a call for a surface, which reports admissions and denials alike. Its slots are released by a token.
    #[doc(hidden)]
    pub async fn decide(&self, call: &Call<'_>) -> Decision {
        let now = self.shared.clock.now();
        let engine = &self.shared.engine;
        let found = match engine.decide(now, call, Ok, Err) {
            Ok(decision) => {
                #[cfg(feature = "metrics")]
                self.shared.metrics.check.at_once();
                return decision;
            }
            Err(found) => found,
        };
        let output = match self.shared.checked_at_once(engine.begin_found(now, call, found.as_ref())) {
            Ok(output) => output,
            Err(request) => self.shared.ask_store_timed(request, slice::from_ref(call)).await,
        };
        sole_decision(output)
    }

    /// Decides a call as [`decide`](Self::decide) does. The decision tells the state of every rule that applies.
    #[doc(hidden)]
    pub async fn decide_telling_all(&self, call: &Call<'_>) -> Decision {
        let scope = MatchScope { tells_all: true, ..MatchScope::default() };
        let decisions = self.decide_all(slice::from_ref(call), scope).await;
        decisions.into_iter().next().expect("a call has a decision")
    }

    /// Decides several calls as one request: their enforced charges are charged all or none, and each has a decision of its
    /// own. Only the rules of the scope may apply.
    #[doc(hidden)]
    pub async fn decide_all(&self, calls: &[Call<'_>], scope: MatchScope<'_>) -> Vec<Decision> {
        let now = self.shared.clock.now();
        let output = match self.shared.checked_at_once(self.shared.engine.begin(now, Operation::Check { calls, scope }))
        {
            Ok(output) => output,
            Err(request) => self.shared.ask_store_timed(request, calls).await,
        };
        output.into_decisions().into_vec()
    }
}
