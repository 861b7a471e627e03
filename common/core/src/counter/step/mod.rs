//! One step on the counters of a request: the reference semantics of every store.
//!
//! All enforced charges of a request are charged, or none; every other one is charged in any case, or only evaluated.
//! The function is generic over the container, so that the engine's own table, the memory store and the conformance
//! model share it. The Redis scripts are the only second implementation.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::hash::BuildHasher;

use smallvec::SmallVec;

use super::{Charge, ChargeMode, ChargeResult, ChargeResults, CounterId, StoreError, StoredCounter};
use crate::clock::Timestamp;

/// Container of counters.
pub trait Counters {
    /// Returns a counter that is stored.
    fn get(&mut self, counter: CounterId) -> Option<&mut StoredCounter>;

    /// Returns the counter of a charge and stores a new one if it is absent; none if the container is full. It drops no
    /// counter to make room, because the same request may refer to that counter, too.
    fn get_or_create(&mut self, charge: &Charge) -> Option<&mut StoredCounter>;

    /// Removes a counter.
    fn remove(&mut self, counter: CounterId);
}

/// Container without a cap, for models.
impl<S: BuildHasher> Counters for HashMap<CounterId, StoredCounter, S> {
    fn get(&mut self, counter: CounterId) -> Option<&mut StoredCounter> {
        self.get_mut(&counter)
    }

    fn get_or_create(&mut self, charge: &Charge) -> Option<&mut StoredCounter> {
        Some(self.entry(charge.counter).or_insert_with(|| StoredCounter::new(charge)))
    }

    fn remove(&mut self, counter: CounterId) {
        self.remove(&counter);
    }
}

/// Applies the charges of one request at `now`, in a store that requests reach late.
///
/// # Errors
/// If a charge has expired, or a counter is absent and the container is full. Nothing is charged then.
pub fn step<C: Counters>(counters: &mut C, charges: &[Charge], now: Timestamp) -> Result<ChargeResults, StoreError> {
    if charges.iter().any(|charge| charge.mode.has_expired(now)) {
        return Err(StoreError::Expired(now));
    }
    step_at_once(counters, charges, now)
}

/// Applies the charges of one request at `now`, in a container of the caller's process: none expires, because its
/// caller waits for it however long the process was pre-empted.
///
/// # Errors
/// If a counter is absent and the container is full. Nothing is charged then.
pub fn step_at_once<C: Counters>(
    counters: &mut C,
    charges: &[Charge],
    now: Timestamp,
) -> Result<ChargeResults, StoreError> {
    match charges {
        [charge] => Ok(ChargeResults::from_iter([step_one(counters, charge, now)?])),
        charges => step_several(counters, charges, now),
    }
}

/// Applies the only charge of a request, which does not expire: one look-up in the container.
///
/// # Errors
/// If the counter is absent and the container is full.
#[inline]
pub fn step_one<C: Counters>(counters: &mut C, charge: &Charge, now: Timestamp) -> Result<ChargeResult, StoreError> {
    if !creates(charge) && counters.get(charge.counter).is_none() {
        return Ok(result_of_absent(charge, now));
    }
    let counter = counters.get_or_create(charge).ok_or(StoreError::Full)?;
    let mut result = counter.evaluate(charge, now);
    if charge.mode.is_charged(result.verdict.admitted) {
        counter.commit(charge, &mut result, now);
    }
    Ok(result)
}

fn step_several<C: Counters>(
    counters: &mut C,
    charges: &[Charge],
    now: Timestamp,
) -> Result<ChargeResults, StoreError> {
    // A counter is removed again if none of its charges creates one.
    let is_temporary =
        |charge: &&Charge| charges.iter().all(|other| other.counter != charge.counter || !creates(other));
    let mut created: SmallVec<[CounterId; 2]> = SmallVec::new();
    for charge in charges.iter().filter(is_temporary) {
        if counters.get(charge.counter).is_none() {
            created.push(charge.counter);
        }
    }
    for charge in charges {
        counters.get_or_create(charge).ok_or(StoreError::Full)?;
    }
    let mut results = ChargeResults::new();
    for charge in charges {
        let counter = counters.get(charge.counter).ok_or(StoreError::Full)?;
        results.push(counter.evaluate(charge, now));
    }
    let refused = |(charge, result): (&Charge, &ChargeResult)| charge.mode.is_enforced() && !result.verdict.admitted;
    let has_room = !charges.iter().zip(&results).any(refused);
    for (charge, result) in charges.iter().zip(&mut results) {
        if charge.mode.is_charged(has_room) {
            counters.get(charge.counter).ok_or(StoreError::Full)?.commit(charge, result, now);
        } else {
            result.leased = 0;
        }
    }
    for counter in created {
        counters.remove(counter);
    }
    Ok(results)
}

/// Result of a charge on a counter that does not exist and is not created.
fn result_of_absent(charge: &Charge, now: Timestamp) -> ChargeResult {
    ChargeResult { charged: charge.mode.is_charged(true), ..StoredCounter::new(charge).evaluate(charge, now) }
}

const fn creates(charge: &Charge) -> bool {
    !charge.mode.removes_units() && !matches!(charge.mode, ChargeMode::Evaluate { .. })
}
