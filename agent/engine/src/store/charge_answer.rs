//! Answers of the store to the charges of a request: each charge has its own, because a request may go to several primaries in
//! several steps, of which some fail.

use smallvec::SmallVec;
use tollgate_core::counter::{ChargeResult, ChargeResults, StoreError};

/// Answer of the store to one charge, or the reason why there is none.
pub(crate) type ChargeAnswer = Result<ChargeResult, StoreError>;

/// Answers to charges, in their order.
pub(crate) type ChargeAnswers = SmallVec<[ChargeAnswer; 2]>;

/// Returns the answers to so many charges of one step. A charge without a result counts as one without an answer.
pub(crate) fn answers_of(len: usize, answer: Result<ChargeResults, StoreError>) -> ChargeAnswers {
    match answer {
        Ok(results) => {
            let missing = len.saturating_sub(results.len());
            let lost = std::iter::repeat_n(Err(StoreError::AnswerLost), missing);
            results.into_iter().map(Ok).chain(lost).take(len).collect()
        }
        Err(error) => std::iter::repeat_n(Err(error), len).collect(),
    }
}
