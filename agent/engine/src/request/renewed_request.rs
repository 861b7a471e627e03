//! Requests that are sent once more before their deadline: their connection was lost, or the store read them in time and yet found
//! them expired, because one of the clocks was set, or the request shared its charge with one that expired up to 2 ms earlier.
//!
//! A lost connection says nothing about the store: the next one is made at once. If the store has charged the first request, its
//! units count twice, unless the calls have ids.
//!
//! A request expires by the store's clock, at the latest time that this clock may show at the deadline. After a step
//! forward, each request would seem expired until a ping tells the new time. But the answer tells it, too, and nothing
//! is charged, so the request is sent once more.

use std::time::Duration;

use tollgate_core::clock::Timestamp;
use tollgate_core::counter::{Charge, ChargeMode, StoreError};

use crate::call::Destination;
use crate::engine::{Context, Engine};
use crate::request::store_request::{AskedOperation, AskedRequest, StoreRequest};
use crate::request::store_step::{RequestStep, StepAnswers};
use crate::store::{ChargeAnswers, ChargeKind, ChargeStanding, ChargeTraits, Fate, InStore, fate};

impl Engine {
    /// Prepares a request for another sending if its answer was lost, or says before its deadline that it has expired. Then the
    /// store's clock was set, and the answer tells its time. Returns the time until the deadline, in which the shell sends the
    /// request once more; nothing if the answer stands. A request of several steps stands: some of them may have charged.
    pub fn renew(&self, now: Timestamp, request: &mut StoreRequest, answers: &StepAnswers) -> Option<Duration> {
        let error = answers.iter().find_map(|answer| answer.as_ref()?.as_ref().err().copied())?;
        let charges = request.charges();
        let is_one_step = request.0.has_one_step || charges.iter().all(|charge| charge.slot == charges[0].slot);
        if is_one_step { self.renew_after(now, request, error) } else { None }
    }

    fn renew_after(&self, now: Timestamp, request: &mut StoreRequest, error: StoreError) -> Option<Duration> {
        let AskedRequest { charges, deadline, sent_at, destinations, renewed_after, pending, .. } = &mut *request.0;
        let primary = destinations.first()?.primary;
        let (StoreError::Expired(_) | StoreError::AnswerLost, None) = (error, *renewed_after) else { return None };
        *renewed_after = Some(error);
        let left_ms = u64::try_from(deadline.as_millis()).unwrap_or(u64::MAX).saturating_sub(now.ms_since(*sent_at));
        if left_ms == 0 {
            return None;
        }
        let is_resent = |charge: &Charge| {
            let traits = ChargeTraits::of(charge.request);
            fate(ChargeKind::of(charge), ChargeStanding::Waits, InStore::from(error), traits) == Fate::Resend
        };
        if !charges.iter().all(is_resent) {
            return None;
        }
        if error == StoreError::AnswerLost {
            // Others than checks tell a repetition by its id, and are repeated by those who asked for them.
            if !matches!(pending, AskedOperation::Check(_)) {
                return None;
            }
            self.store.lost_connection(primary, error);
            self.ask_about_all(now, request);
            return Some(Duration::from_millis(left_ms));
        }
        if let StoreError::Expired(at) = error {
            self.store.note_time(primary, *sent_at, now, at);
        }
        let expires_at = self.store.time(primary, now).latest.plus_ms(left_ms);
        charges.iter_mut().for_each(|charge| charge.mode = charge.mode.expiring_at(expires_at));
        self.ask_about_all(now, request);
        Some(Duration::from_millis(left_ms))
    }

    /// Prepares a step of a request for another sending if another primary holds its counters: nothing was charged. Returns the
    /// time until the deadline, in which the shell sends the step once more; nothing if the answer stands.
    pub fn redirect(
        &self,
        now: Timestamp,
        request: &mut StoreRequest,
        step: &RequestStep,
        error: StoreError,
    ) -> Option<Duration> {
        let AskedRequest { charges, deadline, sent_at, destinations, pending, .. } = &mut *request.0;
        let left_ms = u64::try_from(deadline.as_millis()).unwrap_or(u64::MAX).saturating_sub(now.ms_since(*sent_at));
        let primary = match error {
            StoreError::Moved => self.store.primary_of(step.charges.first()?.slot),
            StoreError::Asked(primary) => primary,
            _ => return None,
        };
        // It was asked there already.
        if left_ms == 0 || primary == step.primary && error == StoreError::Moved {
            return None;
        }
        let expires_at = self.store.time(primary, now).latest.plus_ms(left_ms);
        let is_passing = matches!(error, StoreError::Asked(_));
        for place in step.places() {
            let charge = &mut charges[*place];
            destinations[*place] = Destination { primary, epoch: self.store.lease_epoch(primary), is_passing };
            charge.mode = charge.mode.expiring_at(expires_at);
            if is_passing {
                // Its units could not be spent by the clock of the former primary.
                charge.mode = charge.mode.without_lease();
            }
            let AskedOperation::Check(planned) = &mut *pending else { continue };
            let of_charge = planned.iter_mut().flat_map(|planned| &mut planned.matched);
            for matched in of_charge.filter(|matched| matched.shares(charge)) {
                (matched.primary, matched.is_passing) = (primary, is_passing);
            }
        }
        Some(Duration::from_millis(left_ms))
    }

    /// Lets a request ask about the counters for which leases have paid, too: these leases may end before the new step.
    fn ask_about_all(&self, now: Timestamp, request: &mut StoreRequest) {
        let AskedRequest { active, charges, carried, pending, .. } = &mut *request.0;
        let expires_at = charges.iter().find_map(|charge| charge.mode.expires_at());
        let (AskedOperation::Check(planned), Some(expires_at)) = (pending, expires_at) else { return };
        let context = Context { now, bounds: self.store_time(now), active, store: &self.store };
        for planned in planned {
            for matched in planned.matched.iter_mut().filter(|matched| matched.paid.is_some()) {
                self.resolve_payment(&context, matched, false);
                matched.paid = None;
                if let Some(charge) = charges[*carried..].iter_mut().find(|charge| matched.shares(charge)) {
                    charge.cost = matched.cost;
                } else {
                    let mode = ChargeMode::Enforce { expires_at };
                    charges.push(matched.charge(context.active.order, matched.cost, mode));
                }
            }
        }
        self.address(&mut request.0);
    }
}

/// Corrects the results of a request that was sent once more after this error. If an answer was lost, the store may know
/// the ids of the calls from the first sending. Their charges then count as new ones, so that no unit is missed.
pub(crate) fn results_of(answers: &mut ChargeAnswers, renewed_after: Option<StoreError>) {
    if renewed_after == Some(StoreError::AnswerLost) {
        answers.iter_mut().flatten().for_each(|result| result.repeated = false);
    }
}

#[cfg(test)]
mod tests {
    use tollgate_core::algorithm::Algorithm;
    use tollgate_core::call::Call;
    use tollgate_core::counter::RequestId;
    use tollgate_core::rules::{Rule, RuleSet};

    use super::*;
    use crate::engine_settings::EngineSettings;
    use crate::request::operation::{Operation, Progress};
    use tollgate_core::counter::PrimaryIndex;

    const START: Timestamp = Timestamp::from_ms(1_000_000);

    /// A lost answer does not say that the store is down: the request is sent once more in the rest of its time.
    #[test]
    fn a_request_whose_answer_was_lost_is_sent_once_more() {
        let lost = || StepAnswers::from_iter([Some(Err(StoreError::AnswerLost))]);
        let refund = |charge: &Charge, request| Charge {
            request,
            cost: 1,
            mode: ChargeMode::Refund { at: START, whole: None },
            ..charge.clone()
        };
        // Algorithm, id of the call, id of a carried refund if there is one, time until the answer is lost, and the time left.
        let named = RequestId::from_u128(1);
        for (algorithm, id, carried, after_ms, expected_ms) in [
            (None, None, None, 2, Some(13)),
            (None, Some("id"), None, 2, Some(13)),
            (None, None, None, 15, None),
            // The store may hold the slot of the first request.
            (Some(Algorithm::Concurrency), None, None, 2, None),
            (Some(Algorithm::Concurrency), Some("id"), None, 2, Some(13)),
            // The store may have made a refund without an id.
            (None, None, Some(None), 2, None),
            (None, Some("id"), Some(None), 2, None),
            (None, None, Some(Some(named)), 2, Some(13)),
        ] {
            let rule = Rule::per("per-key", &["api_key"], "100/min".parse().expect("a quota")).strict();
            let rule = match algorithm {
                Some(algorithm) => rule.with(|policy| *policy = policy.counted_by(algorithm)),
                None => rule,
            };
            let engine = Engine::new(EngineSettings::new("a", START), RuleSet::new(1, [rule]));
            let call = Call::new().with("api_key", "k");
            let call = if let Some(id) = id { call.identified(id.to_owned()) } else { call };
            let Progress::NeedsStore(mut request) = engine.begin(START, Operation::check(&call)) else {
                panic!("the store decides")
            };
            if let Some(request_id) = carried {
                let charges = &mut request.0.charges;
                charges.push(refund(&charges[0], request_id));
            }
            let now = START.plus_ms(after_ms);
            let case = format!("{algorithm:?} {id:?} {carried:?} {after_ms}");
            let left = engine.renew(now, &mut request, &lost());
            assert_eq!(left, expected_ms.map(Duration::from_millis), "{case}");
            assert!(!engine.is_degraded(), "{case}");
            assert_eq!(
                engine.store.breaker(PrimaryIndex::ONLY).is_suspected(),
                left.is_some(),
                "{case}: a ping makes the next connection"
            );
            assert_eq!(engine.renew(now, &mut request, &lost()), None, "{case}: once");
        }
    }
}
