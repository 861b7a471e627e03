//! Corrections of a call after its decision: its real cost, and its end.

use std::sync::Arc;

use tollgate_core::call::Call;
use tollgate_core::decided_call::DecidedCall;
use tollgate_core::decision::{Decision, LimitStatus};
use tollgate_core::rules::MatchScope;
use tollgate_engine::{CallerReset, Operation, Output, Progress};

use super::permit::{ReleaseSlots, ReleaseToken};
use super::shared::{Agent, Shared};
use crate::store::{ChargeStore, StoreError};

impl<S: ChargeStore> Agent<S> {
    /// Reports the real cost of a call, as the units beyond its request; negative if it cost less. Every rule that goes
    /// by the call's own cost is charged or refunded the difference. Returns the status of the tightest of them
    /// afterwards; none if no rule is concerned.
    ///
    /// With the decision of its admission, the call is settled once, however often and at whichever agents this is
    /// called, and no more is refunded than the cost of the call. Without it, nothing is refunded. At most one quota is
    /// added.
    ///
    /// ```
    /// # use tollgate::{Agent, Call, Rule};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let agent = Agent::builder().rule(Rule::per("llm", &["user"], "1000/min".parse()?)).start()?;
    /// let call = Call::new().with("user", "u1").costing(300); // an estimate
    /// let admission = agent.check(&call).await?;
    /// let used = 120;
    /// let status = agent.settle(&call, used - 300, Some(&admission.decision)).await?;
    /// assert_eq!(status.map(|status| status.remaining), Some(880));
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// If units are to be refunded and the store does not answer. Units to be charged are charged later then.
    pub async fn settle(
        &self,
        call: &Call<'_>,
        units: i64,
        decision: Option<&Decision>,
    ) -> Result<Option<LimitStatus>, StoreError> {
        let decided = decision.and_then(|decision| self.decided_call(call, decision));
        self.settle_decided(call, units, decided.as_ref()).await
    }

    /// Reports the real cost of a call as [`settle`](Self::settle) does. The call may have been decided in another
    /// process, if its id was [read](Self::decided).
    ///
    /// # Errors
    /// If units are to be refunded and the store does not answer. Units to be charged are charged later then.
    pub async fn settle_decided(
        &self,
        call: &Call<'_>,
        units: i64,
        decided: Option<&DecidedCall>,
    ) -> Result<Option<LimitStatus>, StoreError> {
        self.adjust(Operation::Settle { call, units, decided }).await
    }

    /// Gives back the cost of a call for a surface, without a decision: only the rules of the scope with `refunds` do so, at most
    /// one quota. Returns the status of the tightest of them afterwards; none if no rule is concerned.
    ///
    /// # Errors
    /// If the store does not answer.
    #[doc(hidden)]
    pub async fn refund(&self, call: &Call<'_>, scope: MatchScope<'_>) -> Result<Option<LimitStatus>, StoreError> {
        self.adjust(Operation::Refund { call, scope }).await
    }

    /// Reports the end of a call whose permit became a token, at this or another agent with the same rules: the slots of the
    /// call are free again. Returns the status of the tightest rule afterwards; none if no rule is concerned.
    ///
    /// A token that no agent with the same digest key has made releases nothing.
    ///
    /// # Errors
    /// If the store does not answer; then the slots are free after the window of their quota.
    pub async fn release(&self, token: ReleaseToken) -> Result<Option<LimitStatus>, StoreError> {
        let Some(decided) = self.decided(&token.call, &token.id) else { return Ok(None) };
        self.adjust(Operation::Release { call: &token.call, decided: &decided }).await
    }

    /// Gives the caller of a call its quotas back, under every rule that applies to the call: for operators. Slots of
    /// `concurrency` stay, because the calls that hold them run, and so does a counter that all callers share. Returns these rules, and
    /// the error of the store if it did not confirm the reset.
    ///
    /// The other agents follow within a second if there is a bus, else when they ask the store again. Until then they may spend
    /// what is left of a lease, so the caller may get that many units more. A settlement of an earlier call may refund units that
    /// were used since. Only the counts of this region are reset.
    pub async fn reset(&self, call: &Call<'_>) -> CallerReset {
        match self.shared.run(Operation::Reset { call }).await {
            Output::Reset(reset) => reset,
            _ => CallerReset::default(),
        }
    }

    /// Returns the admitted call that the text of a decision's id names; nothing if no agent with the same digest key
    /// has made the text for these descriptors.
    #[must_use]
    pub fn decided(&self, call: &Call<'_>, id: &str) -> Option<DecidedCall> {
        DecidedCall::read(id, &self.shared.engine.settings().digest_key, call)
    }

    /// Returns the text of a decision's id, which carries the time. With it, an admitted call is settled and released elsewhere.
    #[must_use]
    pub fn decision_id(&self, call: &Call<'_>, decision: &Decision) -> String {
        let key = &self.shared.engine.settings().digest_key;
        let of_denial = || format!("{}-{:x}", decision.id, decision.at.as_ms());
        self.decided_call(call, decision).map_or_else(of_denial, |decided| decided.text(key, call))
    }

    pub(super) fn decided_call(&self, call: &Call<'_>, decision: &Decision) -> Option<DecidedCall> {
        DecidedCall::new(&self.shared.engine.settings().digest_key, call, decision)
    }

    async fn adjust(&self, operation: Operation<'_, '_>) -> Result<Option<LimitStatus>, StoreError> {
        match self.shared.run(operation).await {
            Output::Adjusted(adjusted) => adjusted,
            _ => Ok(None),
        }
    }
}

impl<S: ChargeStore> ReleaseSlots for Shared<S> {
    fn token(&self, call: Call<'static>, decided: &DecidedCall) -> ReleaseToken {
        let id = decided.text(&self.engine.settings().digest_key, &call);
        ReleaseToken::new(call, id)
    }

    fn release_slots(self: Arc<Self>, call: Call<'static>, decided: DecidedCall) {
        let operation = Operation::Release { call: &call, decided: &decided };
        if let Progress::NeedsStore(request) = self.engine.begin(self.clock.now(), operation) {
            let runtime = self.runtime.clone();
            runtime.spawn(async move {
                if let (Output::Adjusted(Err(error)), _) = self.ask_store(request).await {
                    let node = &self.engine.settings().node;
                    tracing::debug!(%node, %error, "slots were not released; they become free after the window of their quota");
                }
            });
        }
    }
}
