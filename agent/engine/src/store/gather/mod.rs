//! Gathering: steps of charges are sent in pipelines. A step is sent at once if the steps of the pipeline before it are answered;
//! those that come meanwhile are sent together, in the next pipeline.
//!
//! A pipeline ends with its last answer, or after [`GATHER_MAX`]: a late answer delays the steps of others no longer. Nothing
//! else is expected of the steps in flight, so a step without any answer holds back nobody.
//!
//! Waiting steps that ask for the same charge of one counter are *coalesced*: the store charges as many of the calls as have
//! room, in one charge of the mode of a lease for one agent. Its units belong to the calls that wait. The other calls are
//! denied as of the same step, each for its own cost. The pipelines, and not the calls, bound the requests for one counter.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::time::Duration;

use foldhash::fast::RandomState;
use smallvec::SmallVec;
use tollgate_core::counter::{Charge, ChargeMode, ChargeResult, ChargeResults, CounterId, StoreError};

use crate::rules::Charges;

/// Maximum time from the beginning of a pipeline to that of the next one, if steps wait.
pub const GATHER_MAX: Duration = Duration::from_millis(1);
const WAITING_CALLS_MAX: usize = 10_000;
/// Maximum time by which the calls of one charge may expire one after another, in ms.
const EXPIRY_SPREAD_MS: u64 = 2;
const COALESCED_LEN_MAX: usize = 1_000;

/// Number of a pipeline.
pub type PipelineNumber = u64;

/// Steps that wait for the next pipeline. `T` names the caller of a step.
#[derive(Debug)]
pub struct Gatherer<T> {
    waiting: Vec<GatheredStep<T>>,
    waiting_calls: usize,
    /// Places of the steps that further ones can join.
    joinable: HashMap<CounterId, usize, RandomState>,
    pipeline: PipelineNumber,
    /// Number of the steps of this pipeline that are not answered; 0 if the next step may be sent at once.
    unanswered: usize,
}

/// A step of charges, for one caller or for several that ask for the same.
#[derive(Clone, Debug)]
pub struct GatheredStep<T> {
    /// Charges of the caller whose call expires first.
    charges: Charges,
    callers: SmallVec<[T; 1]>,
}

/// Steps that are sent together.
#[derive(Debug)]
pub struct PipelineSteps<T> {
    /// Their pipeline.
    pub pipeline: PipelineNumber,
    /// The steps.
    pub steps: Vec<GatheredStep<T>>,
}

/// A caller, and the answer to its charges.
pub type CallerAnswer<T> = (T, Result<ChargeResults, StoreError>);

impl<T> Default for Gatherer<T> {
    fn default() -> Self {
        Self { waiting: Vec::new(), waiting_calls: 0, joinable: HashMap::default(), pipeline: 0, unanswered: 0 }
    }
}

impl<T> Gatherer<T> {
    /// Takes a step. Returns the steps to send now, if a pipeline begins with it.
    ///
    /// # Errors
    /// [`StoreError::Busy`] if too many calls wait.
    pub fn push(&mut self, charges: &[Charge], caller: T) -> Result<Option<PipelineSteps<T>>, StoreError> {
        if self.waiting_calls >= WAITING_CALLS_MAX {
            return Err(StoreError::Busy);
        }
        self.waiting_calls += 1;
        let step = GatheredStep::of(charges, caller);
        match step.joinable().and_then(|charge| self.joinable.get(&charge.counter)).copied() {
            Some(place) if self.waiting[place].takes(&step) => self.waiting[place].callers.extend(step.callers),
            _ => {
                if let Some(charge) = step.joinable() {
                    self.joinable.insert(charge.counter, self.waiting.len());
                }
                self.waiting.push(step);
            }
        }
        Ok(if self.unanswered == 0 { self.next_pipeline() } else { None })
    }

    /// Notes the answers to so many steps of a pipeline. Returns the steps to send now, if they were the last ones.
    pub fn answered(&mut self, pipeline: PipelineNumber, len: usize) -> Option<PipelineSteps<T>> {
        if pipeline != self.pipeline || self.unanswered == 0 {
            return None;
        }
        self.unanswered = self.unanswered.saturating_sub(len);
        if self.unanswered == 0 { self.next_pipeline() } else { None }
    }

    /// Ends a pipeline whose steps have waited for answers as long as others may wait for them. Returns the steps to send now.
    pub fn overdue(&mut self, pipeline: PipelineNumber) -> Option<PipelineSteps<T>> {
        if pipeline == self.pipeline && self.unanswered > 0 { self.next_pipeline() } else { None }
    }

    fn next_pipeline(&mut self) -> Option<PipelineSteps<T>> {
        self.joinable.clear();
        let steps = std::mem::take(&mut self.waiting);
        (self.unanswered, self.waiting_calls) = (steps.len(), 0);
        self.pipeline += 1;
        (!steps.is_empty()).then_some(PipelineSteps { pipeline: self.pipeline, steps })
    }
}

impl<T> GatheredStep<T> {
    fn of(charges: &[Charge], caller: T) -> Self {
        Self { charges: charges.iter().cloned().collect(), callers: SmallVec::from_iter([caller]) }
    }

    /// Returns the callers.
    pub fn callers(&self) -> &[T] {
        &self.callers
    }

    /// Returns the charges of one caller.
    #[must_use]
    pub fn charges(&self) -> &[Charge] {
        &self.charges
    }

    /// Returns the charges for the store.
    #[must_use]
    pub fn coalesced(&self) -> Charges {
        let mut charges = self.charges.clone();
        if let ([charge], others @ 1..) = (&mut charges[..], self.callers.len() - 1)
            && let ChargeMode::Enforce { expires_at } = charge.mode
        {
            let units = u64::try_from(others).unwrap_or(u64::MAX).saturating_mul(charge.cost);
            let units_max = u32::try_from(units).unwrap_or(u32::MAX);
            charge.mode = ChargeMode::Lease { expires_at, units_max, agents: 1 };
        }
        charges
    }

    /// Divides the answer of the store among the callers.
    pub fn split(self, answer: &Result<ChargeResults, StoreError>) -> Vec<CallerAnswer<T>> {
        let Self { charges, callers } = self;
        // Callers that share a step ask for the same charge.
        let is_shared = callers.len() > 1;
        let share = |(place, caller): (usize, T)| {
            let share = |(result, charge): (&ChargeResult, &Charge)| {
                let before = u64::try_from(place).unwrap_or(u64::MAX).saturating_mul(charge.cost);
                if is_shared { result.share(charge, before, charge.cost) } else { *result }
            };
            let shares = answer.as_ref().map(|results| results.iter().zip(&charges).map(share).collect());
            (caller, shares.map_err(|error| *error))
        };
        callers.into_iter().enumerate().map(share).collect()
    }

    /// Returns the charge if other calls can share it. They can if it is the only one of its step, the store can charge
    /// a part of the calls, and none of them may have been charged before.
    fn joinable(&self) -> Option<&Charge> {
        let [charge] = &self.charges[..] else { return None };
        let is_plain = matches!(charge.mode, ChargeMode::Enforce { .. }) && charge.request.is_none();
        (is_plain && charge.cost > 0 && charge.limit.leases()).then_some(charge)
    }

    /// Returns true if the calls of another step, which came later, can join.
    fn takes(&self, other: &Self) -> bool {
        let (Some(own), Some(other)) = (self.joinable(), other.joinable()) else { return false };
        let is_same = (own.counter, own.slot, own.limit, own.generation, own.cost)
            == (other.counter, other.slot, other.limit, other.generation, other.cost);
        let expires = |charge: &Charge| charge.mode.expires_at().unwrap_or_default();
        let spread_ms = expires(other).ms_since(expires(own));
        is_same
            && expires(own) <= expires(other)
            && spread_ms <= EXPIRY_SPREAD_MS
            && self.callers.len() < COALESCED_LEN_MAX
    }
}
