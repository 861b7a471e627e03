//! Corrections of a call after its decision: its real cost, and its end.

use tollgate_core::call::Call;
use tollgate_core::clock::Timestamp;
use tollgate_core::decision::LimitStatus;
use tollgate_engine::{Operation, Output};

use super::Agent;
use crate::store::{ChargeStore, StoreError};

impl<S: ChargeStore> Agent<S> {
    /// Reports the real cost of a call, as the units beyond its request; negative if it cost less. Every rule that goes by the
    /// call's own cost is charged or refunded the difference. Returns the status of the tightest of them afterwards. Give the
    /// instant of the decision with a refund, so that the units are refunded where they were charged.
    ///
    /// # Errors
    /// If units are to be refunded and the store does not answer. Units to be charged are backfilled then.
    pub async fn settle(
        &self,
        call: &Call<'_>,
        units: i64,
        decided: Option<Timestamp>,
    ) -> Result<Option<LimitStatus>, StoreError> {
        self.adjust(Operation::Settle { call, units, decided }).await
    }

    /// Reports the end of a call: its slots under rules of `concurrency` are free again.
    ///
    /// # Errors
    /// If the store does not answer; then the slots are free after the quota's duration.
    pub async fn release(&self, call: &Call<'_>, decided: Timestamp) -> Result<Option<LimitStatus>, StoreError> {
        self.adjust(Operation::Release { call, decided }).await
    }

    async fn adjust(&self, operation: Operation<'_, '_>) -> Result<Option<LimitStatus>, StoreError> {
        match self.shared.run(operation).await {
            Output::Adjusted(adjusted) => adjusted,
            _ => Ok(None),
        }
    }
}
