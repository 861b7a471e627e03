//! Calls whose counters lie in several hash slots: a step for each, all at once, and a refund of the others when one denies.
//!
//! A step charges tentatively until twice the time has passed that the call had left, by the server's own time; then
//! the units are confirmed, and their refund is void. Units are not leased, because a lease could not be refunded. So
//! no step waits for another, a denied call leaves nothing charged while its agent lives, and an agent that dies in
//! between leaves as much as a lost answer would. The call continues in a task of its own when its caller has left.

use std::future::Future;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::task::Poll;

use futures_util::future::join_all;
use smallvec::SmallVec;
use tokio::sync::oneshot;
use tollgate_core::clock::Timestamp;
use tollgate_core::counter::{Charge, ChargeResult, ChargeResults};
use tollgate_redis::Socket;

use super::codec::{StepScope, TentativeToken};
use super::gathered_steps::GatheredSteps;
use super::steps::{StepResult, Steps};
use crate::store::StoreError;

struct HashSlotsCall {
    steps: Steps,
    socket: Arc<Socket>,
    token: TentativeToken,
    /// The charges of each hash slot, in the order of the call.
    slots: Vec<Vec<Charge>>,
    /// Indexes in the call of the charges of `slots`.
    indexes: Vec<usize>,
}

/// Evaluates and charges the counters of a call, those of each hash slot in one step.
pub(super) async fn charge(gathered: &GatheredSteps, charges: &[Charge]) -> StepResult {
    if charges.iter().all(|charge| charge.slot == charges[0].slot) {
        return gathered.run(charges).await;
    }
    let steps = &gathered.steps;
    let socket = steps.connection.awaited_socket().await?;
    let mut indexes: Vec<usize> = (0..charges.len()).collect();
    indexes.sort_by_key(|index| charges[*index].slot);
    let by_slot = indexes.chunk_by(|one, other| charges[*one].slot == charges[*other].slot);
    let unleased = |index: &usize| Charge { mode: charges[*index].mode.without_lease(), ..charges[*index].clone() };
    let slots = by_slot.map(|slot| slot.iter().map(unleased).collect()).collect();
    let call = HashSlotsCall { steps: steps.clone(), socket: socket.clone(), token: new_token(), slots, indexes };
    let (sender, receiver) = oneshot::channel();
    socket.spawn(call.run(sender));
    receiver.await.unwrap_or(Err(StoreError::AnswerLost))
}

impl HashSlotsCall {
    async fn run(self, sender: oneshot::Sender<StepResult>) {
        let expires_at = self.slots.iter().flatten().filter_map(|charge| charge.mode.expires_at()).min();
        let scope =
            StepScope::OneSlot { token: self.token, expires_at: expires_at.unwrap_or(Timestamp::from_ms(u64::MAX)) };
        let steps = self.slots.iter().map(|slot| self.steps.run_on(&self.socket, slot, scope));
        let results = join_all(steps).await;
        let (combined, to_refund) = self.combine(&results);
        let scope = StepScope::RefundSlot { token: self.token };
        let refunds = to_refund.iter().map(|charges| self.steps.run_on(&self.socket, charges, scope));
        let mut refunds = pin!(join_all(refunds));
        // The refunds are sent before the caller can send another request.
        let all_done = std::future::poll_fn(|context| Poll::Ready(refunds.as_mut().poll(context).is_ready())).await;
        // The caller may have left.
        let _ = sender.send(combined);
        if !all_done {
            refunds.await;
        }
    }

    /// The result of the call, and the enforced charges to refund: those of slots that charged, or may have.
    fn combine(&self, results: &[StepResult]) -> (StepResult, Vec<Vec<Charge>>) {
        let slots = || self.slots.iter().zip(results);
        let charged = slots().all(|(slot, result)| result.as_ref().is_ok_and(|results| is_charged(slot, results)));
        if charged {
            return (Ok(self.in_order(results, true)), Vec::new());
        }
        let may_have_charged = |(slot, result): (&Vec<Charge>, &StepResult)| {
            let may = match result {
                Ok(results) => is_charged(slot, results),
                Err(error) => error.may_have_charged(),
            };
            let enforced: Vec<Charge> = slot.iter().filter(|charge| charge.mode.is_enforced()).cloned().collect();
            (may && !enforced.is_empty()).then_some(enforced)
        };
        let to_refund = slots().filter_map(may_have_charged).collect();
        let errors = || results.iter().filter_map(|result| result.as_ref().err().copied());
        let is_worst = |error: &StoreError| error.may_have_charged() || *error == StoreError::Unreadable;
        let Some(error) = errors().find(is_worst).or_else(|| errors().next()) else {
            return (Ok(self.in_order(results, false)), to_refund);
        };
        // Of the units that a slot charges in any case, some may be charged and some not.
        let has_unconditional =
            slots().any(|(slot, result)| result.is_ok() && slot.iter().any(|charge| charge.mode.is_charged(false)));
        (Err(if has_unconditional && error.needs_backfill() { StoreError::AnswerLost } else { error }), to_refund)
    }

    /// The results in the order of the call's charges; unless all slots charged, no enforced charge counts as charged.
    fn in_order(&self, results: &[StepResult], all_charged: bool) -> ChargeResults {
        let charges_and_results = self.slots.iter().flatten().zip(results.iter().flatten().flatten());
        let combined = charges_and_results
            .map(|(charge, result)| ChargeResult { charged: charge.mode.is_charged(all_charged), ..*result });
        let mut in_order: SmallVec<[(usize, ChargeResult); 4]> = self.indexes.iter().copied().zip(combined).collect();
        in_order.sort_unstable_by_key(|(index, _)| *index);
        in_order.into_iter().map(|(_, result)| result).collect()
    }
}

/// True if the enforced charges, if there are any, were charged.
fn is_charged(slot: &[Charge], results: &ChargeResults) -> bool {
    slot.iter().zip(results).all(|(charge, result)| result.charged || !charge.mode.is_enforced())
}

/// A token that no other call has while it matters, of this agent or another one.
pub(super) fn new_token() -> TentativeToken {
    static NEXT: LazyLock<AtomicU64> = LazyLock::new(|| AtomicU64::new(RandomState::new().build_hasher().finish()));
    NEXT.fetch_add(1, Ordering::Relaxed)
}
