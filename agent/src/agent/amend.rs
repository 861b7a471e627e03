//! What is said of a call after its answer, told to the store.

use tollgate_core::call::Call;
use tollgate_core::clock::Timestamp;
use tollgate_core::decision::LimitStatus;

use super::{Agent, BACKGROUND_DEADLINE, Shared};
use crate::store::{ChargeStore, StoreError};
use tollgate_core::counter::Charge;
use tollgate_core::counter::ChargeResults;
use tollgate_engine::Amend;

impl<S: ChargeStore> Agent<S> {
    /// Says what a call really cost: so many units more than it asked for, or fewer. Every rule that goes by the call's own
    /// cost is charged or given back the difference; how the tightest of them stands then. What was decided when it is given
    /// back should be told, so that it is taken off where it was charged.
    ///
    /// # Errors
    /// When units are to be given back and the store does not answer. Units to be charged are owed then.
    pub async fn settle(
        &self,
        call: &Call<'_>,
        units: i64,
        decided: Option<Timestamp>,
    ) -> Result<Option<LimitStatus>, StoreError> {
        self.amend(call, Amend::Settle(units, decided)).await
    }

    /// Says that a call which was decided then has ended: its slots under rules of `concurrency` are free again.
    ///
    /// # Errors
    /// When the store does not answer; then the slots are free after the quota's duration.
    pub async fn release(&self, call: &Call<'_>, decided: Timestamp) -> Result<Option<LimitStatus>, StoreError> {
        self.amend(call, Amend::Release(decided)).await
    }

    async fn amend(&self, call: &Call<'_>, amend: Amend) -> Result<Option<LimitStatus>, StoreError> {
        let shared = &self.shared;
        let amendment = shared.engine.amend(shared.clock.now(), call, amend);
        if amendment.takes().is_empty() {
            return Ok(None);
        }
        let answer = shared.tell(amendment.takes()).await;
        let looked = match &answer {
            Ok(_) if amendment.gives_back() => shared.tell(&amendment.looks()).await.ok(),
            _ => None,
        };
        shared.engine.amended(shared.clock.now(), call, &amendment, answer, looked)
    }
}

impl<S: ChargeStore> Shared<S> {
    /// Tells the store something for which no caller waits, so it may take as long as a ping.
    async fn tell(&self, takes: &[Charge]) -> Result<ChargeResults, StoreError> {
        match self.store.try_charge(takes) {
            Some(answer) => answer,
            None => tokio::time::timeout(BACKGROUND_DEADLINE, self.store.charge(takes))
                .await
                .unwrap_or(Err(StoreError::TimedOut)),
        }
    }
}
