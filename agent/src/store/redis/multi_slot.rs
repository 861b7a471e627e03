//! Calls whose counters lie in several slots: a step for each slot, all at once, and a refund of the others when one denies.
//!
//! A step charges tentatively until twice the time has passed that the call had left, by the server's own time; then the units
//! are confirmed, and their refund is void. So no step waits for another, a denied call leaves nothing charged while its agent
//! lives, and an agent that dies in between leaves as much as a lost answer would. The call continues in a task of its own when
//! its caller has left.

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
use tollgate_core::counter::{Charge, ChargeMode, ChargeResult, ChargeResults};
use tollgate_redis::Socket;

use super::codec::{SlotToken, StepScope};
use super::steps::{Steps, store_error};
use crate::store::StoreError;

type StepResult = Result<ChargeResults, StoreError>;

/// A call over several slots.
struct MultiSlotCall {
    steps: Steps,
    socket: Arc<Socket>,
    token: SlotToken,
    slots: Vec<SlotCharges>,
}

/// The charges of one slot.
struct SlotCharges {
    charges: SmallVec<[Charge; 2]>,
    /// Their places in the call.
    places: SmallVec<[usize; 2]>,
}

/// Evaluates and charges the counters of a call, those of each slot in one step.
pub(super) async fn charge(steps: &Steps, charges: &[Charge]) -> StepResult {
    if charges.iter().all(|charge| charge.slot == charges[0].slot) {
        return steps.run(charges, StepScope::WholeCallAmongTentative).await;
    }
    let socket = steps.connection.socket().map_err(store_error)?;
    let call = MultiSlotCall {
        steps: steps.clone(),
        socket: socket.clone(),
        token: new_token(),
        slots: charges_by_slot(charges),
    };
    let (sender, receiver) = oneshot::channel();
    socket.spawn(call.run(sender));
    receiver.await.unwrap_or(Err(StoreError::TimedOut))
}

impl MultiSlotCall {
    async fn run(self, sender: oneshot::Sender<StepResult>) {
        let expires_at = self.slots.iter().flat_map(|slot| &slot.charges).filter_map(expiry).min();
        let scope =
            StepScope::OneSlot { token: self.token, expires_at: expires_at.unwrap_or(Timestamp::from_ms(u64::MAX)) };
        let steps = self.slots.iter().map(|slot| self.steps.run_on(&self.socket, &slot.charges, scope));
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
        let charged = slots().all(|(slot, result)| result.as_ref().is_ok_and(|results| slot.is_charged(results)));
        if charged {
            return (Ok(self.in_order(results, true)), Vec::new());
        }
        let may_have_charged = |(slot, result): (&SlotCharges, &StepResult)| {
            let may = match result {
                Ok(results) => slot.is_charged(results),
                Err(error) => *error == StoreError::TimedOut,
            };
            may.then(|| slot.enforced()).filter(|enforced| !enforced.is_empty())
        };
        let to_refund = slots().filter_map(may_have_charged).collect();
        let errors = || results.iter().filter_map(|result| result.as_ref().err().copied());
        let Some(error) = errors().find(|error| !error.needs_backfill()).or_else(|| errors().next()) else {
            return (Ok(self.in_order(results, false)), to_refund);
        };
        // Units that a slot charged in any case must not be backfilled.
        let has_unconditional =
            slots().any(|(slot, result)| result.is_ok() && slot.enforced().len() < slot.charges.len());
        (Err(if has_unconditional { StoreError::TimedOut } else { error }), to_refund)
    }

    /// The results in the order of the call's charges; unless all slots charged, no enforced charge counts as charged.
    fn in_order(&self, results: &[StepResult], all_charged: bool) -> ChargeResults {
        let mut placed = Vec::new();
        for (slot, results) in self.slots.iter().zip(results) {
            for ((place, charge), result) in slot.places.iter().zip(&slot.charges).zip(results.iter().flatten()) {
                placed.push((*place, ChargeResult { charged: all_charged || !charge.mode.is_enforced(), ..*result }));
            }
        }
        placed.sort_unstable_by_key(|(place, _)| *place);
        placed.into_iter().map(|(_, result)| result).collect()
    }
}

impl SlotCharges {
    /// True if the enforced charges, if there are any, were charged.
    fn is_charged(&self, results: &ChargeResults) -> bool {
        self.charges.iter().zip(results).all(|(charge, result)| result.charged || !charge.mode.is_enforced())
    }

    fn enforced(&self) -> Vec<Charge> {
        self.charges.iter().filter(|charge| charge.mode.is_enforced()).cloned().collect()
    }
}

fn charges_by_slot(charges: &[Charge]) -> Vec<SlotCharges> {
    let mut slots: Vec<SlotCharges> = Vec::new();
    for (place, charge) in charges.iter().enumerate() {
        let known = slots.iter().position(|slot| slot.charges[0].slot == charge.slot);
        let known = known.unwrap_or_else(|| {
            slots.push(SlotCharges { charges: SmallVec::new(), places: SmallVec::new() });
            slots.len() - 1
        });
        slots[known].charges.push(charge.clone());
        slots[known].places.push(place);
    }
    slots
}

const fn expiry(charge: &Charge) -> Option<Timestamp> {
    match charge.mode {
        ChargeMode::Enforce { expires_at } | ChargeMode::CountOnly { expires_at } => Some(expires_at),
        ChargeMode::Backfill { .. } | ChargeMode::Refund { .. } => None,
    }
}

/// A token that no other call has while it matters, of this agent or another one.
pub(super) fn new_token() -> SlotToken {
    static NEXT: LazyLock<AtomicU64> = LazyLock::new(|| AtomicU64::new(RandomState::new().build_hasher().finish()));
    NEXT.fetch_add(1, Ordering::Relaxed)
}
