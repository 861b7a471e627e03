//! Charges of a check: those that its calls ask the store for, and the deadline of the answer.

use std::time::Duration;

use tollgate_core::counter::{Charge, ChargeMode};
use tollgate_core::rules::Consistency;

use crate::call::joint_charge::join;
use crate::call::planned_call::{PlannedCall, are_denied};
use crate::engine::{Context, Engine};
use crate::rules::{Charges, MatchedRule};

impl Engine {
    /// Begins the charges of planned calls. Returns them and the shortest deadline of the rules that are charged. If another
    /// call is denied already, the enforced charges are only evaluated.
    pub(crate) fn begin_check(&self, context: &Context<'_>, planned: &[PlannedCall<'_>]) -> (Charges, Duration) {
        let asking = || planned.iter().filter(|planned| planned.has_charges());
        let deadline = asking().map(|planned| Self::deadline(&planned.matched)).min().unwrap_or_default();
        let is_denied = are_denied(planned);
        let mut charges = Charges::new();
        for planned in asking() {
            self.add_charges(context, planned, is_denied, deadline, &mut charges);
        }
        (charges, deadline)
    }

    /// Returns the shortest deadline of the rules of a call for which the store is asked. No caller waits past it.
    pub(crate) fn deadline(matched: &[MatchedRule<'_>]) -> Duration {
        let asking = || matched.iter().filter(|matched| matched.policy.consistency != Consistency::Eventual);
        let shortest = |waits: bool| {
            asking().filter(|matched| matched.may_follow(false) != waits).map(|matched| matched.policy.deadline).min()
        };
        // No call waits for a charge that may follow its decision.
        shortest(true).or_else(|| shortest(false)).unwrap_or_default()
    }

    pub(crate) fn add_charges(
        &self,
        context: &Context<'_>,
        planned: &PlannedCall<'_>,
        is_denied: bool,
        deadline: Duration,
        charges: &mut Charges,
    ) {
        let is_asked =
            |matched: &&MatchedRule<'_>| matched.own_verdict().is_none() && (matched.follows || !planned.is_deferred);
        for matched in planned.matched.iter().filter(is_asked) {
            let expires_at = context.expiry_of(matched.primary, deadline);
            let mode = match (matched.is_counted_always(), is_denied, matched.wanted) {
                (true, ..) => ChargeMode::CountOnly { expires_at },
                _ if matched.cost == 0 => ChargeMode::Evaluate { expires_at },
                (false, true, _) => ChargeMode::Evaluate { expires_at },
                (false, false, None) => ChargeMode::Enforce { expires_at },
                (false, false, Some(units_max)) => {
                    let (units_max, agents) = (units_max.get(), self.fleet.size().get());
                    ChargeMode::Lease { expires_at, units_max, agents }
                }
            };
            let charge =
                Charge { request: planned.request, ..matched.charge(context.active.order, matched.unpaid(), mode) };
            match charges.iter_mut().find(|known| matched.shares(known)) {
                Some(known) => join(known, &charge, &self.settings.digest_key),
                None => charges.push(charge),
            }
        }
    }
}
