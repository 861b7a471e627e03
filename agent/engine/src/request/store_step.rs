//! Steps of a request: the charges that are applied at once. A store with one step takes all charges of a call together; any
//! other takes those of each slot.
//!
//! Units that a request carries to the store go first: the step of a counter is sent after the answer to the step that brought
//! its units. Steps of different slots wait for nothing of each other.

use smallvec::SmallVec;
use tollgate_core::counter::{Charge, ChargeResults, HashSlotId, PrimaryIndex, StoreError};

use crate::call::Destination;
use crate::request::store_request::StoreRequest;
use crate::rules::Charges;
use crate::store::{ChargeAnswer, ChargeAnswers, answers_of};

/// Charges of a request that are applied at once.
#[derive(Clone, Debug)]
pub struct RequestStep {
    /// Primary that holds the counters.
    pub primary: PrimaryIndex,
    /// True if the slot is on its way to this primary, which must be told that it is asked for that reason (`ASKING`).
    pub is_passing: bool,
    /// Charges, of one slot unless the store has one step.
    pub charges: Charges,
    /// Place of the step in the request that must be answered before, if there is one.
    pub after: Option<usize>,
    /// Places of the charges in the request.
    places: SmallVec<[usize; 2]>,
}

/// Answers of the store to the steps of a request, in their order; none of a step that is not answered.
pub type StepAnswers = SmallVec<[Option<Result<ChargeResults, StoreError>>; 2]>;

impl RequestStep {
    /// Returns the places of the charges in the request.
    pub(crate) fn places(&self) -> &[usize] {
        &self.places
    }
}

impl StoreRequest {
    /// Returns the steps of the request. A step that must wait for another one stands behind it.
    #[must_use]
    pub fn steps(&self) -> SmallVec<[RequestStep; 2]> {
        let request = &*self.0;
        let mut steps: SmallVec<[RequestStep; 2]> = SmallVec::new();
        let (carried, own) = ((0..request.carried), (request.carried..request.charges.len()));
        for places in [carried, own] {
            let first = steps.len();
            for place in places {
                let charge = &request.charges[place];
                let is_of = |step: &RequestStep| request.has_one_step || slot(step) == charge.slot;
                if let Some(step) = steps[first..].iter_mut().find(|step| is_of(step)) {
                    step.charges.push(charge.clone());
                    step.places.push(place);
                } else {
                    let after = steps[..first].iter().position(is_of);
                    let (charges, places) = (SmallVec::from_iter([charge.clone()]), SmallVec::from_iter([place]));
                    let Destination { primary, is_passing, .. } = request.destinations[place];
                    steps.push(RequestStep { primary, is_passing, charges, after, places });
                }
            }
        }
        steps
    }

    /// Returns the charges of the request, those of units that it carries first, if the store takes each part in one step.
    #[must_use]
    pub fn charges_of_one_step(&self) -> Option<(&[Charge], &[Charge])> {
        self.0.has_one_step.then(|| self.0.charges.split_at(self.0.carried))
    }

    /// Returns the answers to the charges of the request by those to its steps. A charge of a step without an answer has
    /// `missing`.
    pub(crate) fn answers(&self, of_steps: &StepAnswers, missing: StoreError) -> ChargeAnswers {
        let mut answers: ChargeAnswers = SmallVec::from_elem(Err(missing), self.0.charges.len());
        for (step, answer) in self.steps().into_iter().zip(of_steps) {
            if let Some(answer) = answer {
                let of_step = answers_of(step.places.len(), answer.clone());
                step.places.into_iter().zip(of_step).for_each(|(place, answer)| answers[place] = answer);
            }
        }
        answers
    }
}

fn slot(step: &RequestStep) -> HashSlotId {
    step.charges[0].slot
}

/// Returns the charges that need no late answer: they were answered, or will never be.
pub(crate) fn are_answered(answers: &[ChargeAnswer]) -> SmallVec<[bool; 2]> {
    answers.iter().map(|answer| *answer != Err(StoreError::TimedOut)).collect()
}
