//! Corrections of a call after its decision: its real cost, and its end.

use std::sync::Arc;

use tollgate_core::call::Call;
use tollgate_core::clock::Timestamp;
use tollgate_core::decision::LimitStatus;
use tollgate_engine::{Operation, Output, Progress};

use super::permit::{ReleaseSlots, ReleaseToken};
use super::{Agent, Shared};
use crate::store::{ChargeStore, StoreError};

impl<S: ChargeStore> Agent<S> {
    /// Reports the real cost of a call, as the units beyond its request; negative if it cost less. Every rule that goes by the
    /// call's own cost is charged or refunded the difference. Returns the status of the tightest of them afterwards; none if
    /// no rule is concerned. Give the time of the decision with a refund, so that the units are refunded where they were
    /// charged.
    ///
    /// ```
    /// # use tollgate::{Agent, Call, Rule};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let agent = Agent::builder().rule(Rule::per("llm", &["user"], "1000/min".parse()?)).start()?;
    /// let call = Call::new().with("user", "u1").costing(300); // an estimate
    /// let admission = agent.check(&call).await?;
    /// let used = 120;
    /// let status = agent.settle(&call, used - 300, Some(admission.decision.at)).await?;
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
        decided: Option<Timestamp>,
    ) -> Result<Option<LimitStatus>, StoreError> {
        self.adjust(Operation::Settle { call, units, decided }).await
    }

    /// Reports the end of a call whose permit became a token, at this or another agent with the same rules: the slots of the
    /// call are free again. Returns the status of the tightest rule afterwards; none if no rule is concerned.
    ///
    /// # Errors
    /// If the store does not answer; then the slots are free after the window of their quota.
    pub async fn release(&self, token: ReleaseToken) -> Result<Option<LimitStatus>, StoreError> {
        self.adjust(Operation::Release { call: &token.call, decided: token.decided }).await
    }

    async fn adjust(&self, operation: Operation<'_, '_>) -> Result<Option<LimitStatus>, StoreError> {
        match self.shared.run(operation).await {
            Output::Adjusted(adjusted) => adjusted,
            _ => Ok(None),
        }
    }
}

impl<S: ChargeStore> ReleaseSlots for Shared<S> {
    fn release_slots(self: Arc<Self>, token: ReleaseToken) {
        let operation = Operation::Release { call: &token.call, decided: token.decided };
        if let Progress::NeedsStore(request) = self.engine.begin(self.clock.now(), operation) {
            let runtime = self.runtime.clone();
            runtime.spawn(async move {
                if let Output::Adjusted(Err(error)) = self.ask_store(request).await {
                    let node = &self.engine.settings().node;
                    tracing::debug!(%node, %error, "slots were not released; they become free after the window of their quota");
                }
            });
        }
    }
}
