//! The answer to a check: a decision as an [`Admission`] with its permit, or as a [`Denial`].

use tollgate_core::call::Call;
use tollgate_core::decision::Decision;
use tollgate_engine::Output;

use super::shared::Agent;
use super::{Admission, Denial, Permit};
use crate::store::ChargeStore;

impl<S: ChargeStore> Agent<S> {
    #[expect(clippy::result_large_err, reason = "as for `Agent::try_check_generally`")]
    pub(super) fn granted(&self, call: &Call<'_>, decision: Decision) -> Result<Admission, Denial> {
        let mut answer = answer_of(decision);
        if let Ok(admission) = &mut answer
            && admission.decision.holds_slots
        {
            admission.permit = self.permit(call, &admission.decision);
        }
        answer
    }

    #[cold]
    fn permit(&self, call: &Call<'_>, decision: &Decision) -> Option<Permit> {
        let decided = self.decided_call(call, decision)?;
        Some(Permit::new(call.clone().into_owned(), decided, self.shared.clone()))
    }
}

pub(super) fn sole_decision(output: Output) -> Decision {
    output.into_decisions().pop().unwrap_or_else(|| unreachable!("the output of a check is a decision"))
}

/// Returns the answer that contains a decision, still without permit.
#[expect(clippy::result_large_err, reason = "as for `Agent::try_check_generally`")]
#[inline]
pub(super) fn answer_of(decision: Decision) -> Result<Admission, Denial> {
    if decision.allowed { Ok(Admission { decision, permit: None }) } else { Err(Denial { decision }) }
}
