//! Backfill: units that were admitted without the store are charged once it has recovered.
//!
//! A queue holds the counters with unsynced units; the units themselves are in each counter's view. They travel with the next
//! call on the counter, and the maintenance sends those of counters without calls. Each has an id under which the store charges
//! it once, so both may send it. A call with more units than it can carry is decided without the store until then.

use tollgate_core::counter::{Charge, ChargeMode, ChargeResults};
use tollgate_core::rules::Generation;

use crate::carried_units::backfill_charge;
use crate::engine::Engine;
use crate::matched_rule::{Charges, MatchedRule};
use crate::unsynced_queue::{UnsyncedCounter, UnsyncedTurn};
use crate::view::{UnsyncedRefund, ViewEvent, send_unsynced, update};
use tollgate_core::counter::StoreError;

/// Maximum number of counters in one request.
const REQUEST_COUNTERS_MAX: usize = 64;
/// Number of charges after which a request gets no further counter, so that it does not delay others in the store.
const REQUEST_CHARGES_LEN: usize = 256;

impl Engine {
    /// Returns true if units were admitted without the store and are not charged yet.
    #[inline]
    pub fn has_unsynced(&self) -> bool {
        !self.unsynced.is_empty()
    }

    /// Begins to charge the units of the next few counters; there are no charges once the round is over. The units stay
    /// unsynced until the store has confirmed them.
    pub(crate) fn begin_backfill(&self) -> (Charges, Vec<UnsyncedCounter>) {
        let (mut counters, mut charges) = (Vec::new(), Charges::new());
        let counters_max = if self.unsynced.is_next_alone() { 1 } else { REQUEST_COUNTERS_MAX };
        while counters.len() < counters_max && charges.len() < REQUEST_CHARGES_LEN {
            let Some(counter) = self.unsynced.next() else { break };
            let UnsyncedCounter { matched, generation } = &counter;
            let (len, (is_queued, (units, refunds))) = (
                charges.len(),
                self.table.with(matched.counter, |view| {
                    let sent = send_unsynced(view);
                    if sent.0.is_empty() && sent.1.is_empty() {
                        update(&matched.policy, view, ViewEvent::LeavesQueue);
                    }
                    (view.is_queued(), sent)
                }),
            );
            charges.extend(units.iter().map(|unsynced| backfill_charge(matched, *generation, unsynced)));
            let refund = |UnsyncedRefund { at, units, request }| Charge {
                request,
                ..matched.charge(*generation, units, ChargeMode::Refund { at })
            };
            charges.extend(refunds.into_iter().map(refund));
            // The others were confirmed or refunded meanwhile.
            if is_queued {
                debug_assert!(charges.len() > len);
                counters.push(counter);
            }
        }
        if charges.is_empty() {
            self.unsynced.end_round();
        }
        (charges, counters)
    }

    /// Finishes a backfill. Units that the store has not confirmed are sent again under their ids; a refund is sent again only
    /// if the store has surely not made it. If the store cannot charge one of the counters, each is sent alone. What was sent of
    /// the one without a valid value is dropped; one that the store has no room for waits for the next round.
    pub(crate) fn finish_backfill(
        &self,
        counters: Vec<UnsyncedCounter>,
        charges: &[Charge],
        answer: &Result<ChargeResults, StoreError>,
    ) -> Result<(), StoreError> {
        let error = answer.as_ref().err().copied();
        let is_unreadable = error == Some(StoreError::Unreadable) && counters.len() == 1;
        for charge in charges {
            match charge.mode {
                ChargeMode::Backfill { .. } if answer.is_ok() || is_unreadable => self.backfill_ended(charge),
                ChargeMode::Refund { at } if error.is_some_and(|error| !is_unreadable && !error.may_have_charged()) => {
                    let counter = counters.iter().find(|counter| counter.matched.counter == charge.counter);
                    let event =
                        ViewEvent::UnsyncedRefund(UnsyncedRefund { at, units: charge.cost, request: charge.request });
                    if let Some(UnsyncedCounter { matched, .. }) = counter {
                        self.counting_unsynced(charge.counter, |view| update(&matched.policy, view, event));
                    }
                }
                _ => {}
            }
        }
        let turn = match error {
            Some(error) if error.is_of_counter() && counters.len() > 1 => UnsyncedTurn::Alone,
            Some(StoreError::Full | StoreError::Contended) => UnsyncedTurn::NextRound,
            _ => UnsyncedTurn::Last,
        };
        self.metrics.unsynced_forgotten.add(is_unreadable.into());
        let still_unsynced = |UnsyncedCounter { matched, .. }: &UnsyncedCounter| {
            self.table.with(matched.counter, |view| {
                update(&matched.policy, view, ViewEvent::LeavesQueue);
                view.is_queued()
            })
        };
        self.unsynced.put_back(counters.into_iter().filter(still_unsynced).collect(), turn);
        error.filter(|error| !error.is_of_counter()).map_or(Ok(()), Err)
    }

    /// Updates the view of a counter, and queues the counter if it has unsynced units and is not queued, or if the store has
    /// lost units of it.
    pub(crate) fn update_counter(&self, matched: &MatchedRule<'_>, generation: Generation, event: ViewEvent<'_>) {
        let (needs_queue, lost) = self.counting_unsynced(matched.counter, |view| {
            let was_queued = view.is_queued();
            let lost = event.acknowledged().and_then(|answer| view.lost_units(&matched.policy, answer));
            update(&matched.policy, view, event);
            (view.is_queued() && !was_queued, lost)
        });
        if let Some(lost) = lost {
            self.counter_lost(matched, generation, lost);
        }
        if !needs_queue {
            return;
        }
        if let Some(dropped) = self.unsynced.add(UnsyncedCounter { matched: matched.clone().into_owned(), generation })
        {
            self.metrics.unsynced_forgotten.add(1);
            let MatchedRule { counter, policy, .. } = &dropped.matched;
            self.counting_unsynced(*counter, |view| update(policy, view, ViewEvent::Forgotten));
        }
        self.maintenance_waker.wake();
    }
}

#[cfg(test)]
mod tests {
    use tollgate_core::algorithm::Algorithm;
    use tollgate_core::call::Call;
    use tollgate_core::clock::Timestamp;
    use tollgate_core::decided_call::DecidedCall;
    use tollgate_core::rules::{Rule, RuleSet};

    use super::*;
    use crate::engine::EngineSettings;
    use crate::operation::{Operation, Output, Progress};
    use crate::store_request::StoreRequest;
    use crate::unsynced_queue::UNSYNCED_COUNTERS_MAX;

    const START: Timestamp = Timestamp::from_ms(1_000_000);
    const HOUR_MS: u64 = 3_600_000;

    /// An engine with slots per key, whose store is unavailable.
    fn engine() -> Engine {
        let rule = Rule::per("slots", &["api_key"], "100/min".parse().expect("a quota"));
        let rule = rule.with(|policy| policy.algorithm = Algorithm::Concurrency);
        let engine = Engine::new(EngineSettings::new("a", START), RuleSet::new(1, [rule]));
        engine.unanswered(StoreError::Unreachable);
        engine
    }

    /// Admits a call without the store; returns the call with its decision.
    fn admit(engine: &Engine, ms: u64, key: &str) -> DecidedCall {
        let call = Call::new().with("api_key", key);
        let Progress::Done(output) = engine.begin(START.plus_ms(ms), Operation::check(&call)) else {
            panic!("the store is unavailable");
        };
        let decision = output.into_decisions().pop().filter(|decision| decision.allowed).expect("an admission");
        DecidedCall::new(&engine.settings().digest_key, &call, &decision).expect("it is admitted")
    }

    /// Begins to release a slot; returns a request if the store must be asked.
    fn release(engine: &Engine, key: &str, decided: &DecidedCall) -> Option<StoreRequest> {
        let call = Call::new().with("api_key", key);
        request(engine.begin(START, Operation::Release { call: &call, decided }))
    }

    /// capped: past the cap on counters with unsynced units, the units of the oldest counter are dropped and counted.
    #[test]
    fn past_the_cap_the_oldest_counter_is_forgotten_and_counted() {
        let engine = engine();
        for key in 0..UNSYNCED_COUNTERS_MAX + 2 {
            admit(&engine, 0, &key.to_string());
        }
        let metrics = engine.metrics();
        assert_eq!((metrics.unsynced_forgotten.get(), metrics.unsynced_units.get()), (2, UNSYNCED_COUNTERS_MAX as u64));
        assert_eq!(engine.unsynced.len(), UNSYNCED_COUNTERS_MAX);
    }

    fn backfill(engine: &Engine) -> Option<StoreRequest> {
        request(engine.begin(START, Operation::Backfill))
    }

    fn request(progress: Progress) -> Option<StoreRequest> {
        if let Progress::NeedsStore(request) = progress { Some(request) } else { None }
    }

    /// C6: counters whose units were refunded do not hide those that still have some.
    #[test]
    fn a_counter_is_queued_once_and_passed_over_when_its_units_were_refunded() {
        let engine = engine();
        for ms in 0..200 {
            let key = (ms % 100).to_string();
            let decided = admit(&engine, ms, &key);
            assert!(release(&engine, &key, &decided).is_none(), "the store was never told");
        }
        assert_eq!(engine.held().unsynced_counters, 100);
        admit(&engine, 300, "real");
        assert_eq!(backfill(&engine).expect("one charge").charges().len(), 1);
        assert_eq!(engine.held().unsynced_counters, 0);
        admit(&engine, 400, "0");
        assert_eq!(engine.held().unsynced_counters, 1, "it had left the queue");
    }

    #[test]
    fn a_counter_is_not_swept_while_it_is_queued_or_backfilled() {
        let engine = engine();
        let decided = admit(&engine, 0, "k");
        assert!(release(&engine, "k", &decided).is_none());
        let sweep = |ms| (0..64).for_each(|_| engine.tick(START.plus_ms(ms)));
        sweep(HOUR_MS);
        admit(&engine, HOUR_MS, "k");
        assert_eq!((engine.held().counters, engine.held().unsynced_counters), (1, 1));
        let mut sent = backfill(&engine).expect("a request");
        let _ = engine.finish(START, &mut sent, Ok(ChargeResults::new()));
        sweep(2 * HOUR_MS);
        assert_eq!(engine.held().counters, 0, "nothing waits for it any more");
    }

    #[test]
    fn units_admitted_during_a_backfill_that_the_store_cannot_charge_are_kept() {
        let engine = engine();
        admit(&engine, 0, "k");
        let mut first = backfill(&engine).expect("a request");
        let later = admit(&engine, 10, "k");
        let output = engine.finish(START, &mut first, Err(StoreError::Unreadable));
        assert!(matches!(output, Output::Backfilled(Ok(()))) && engine.has_unsynced());
        let mut second = backfill(&engine).expect("a request");
        let modes: Vec<_> = second.charges().iter().map(|charge| charge.mode).collect();
        assert_eq!(modes, [ChargeMode::Backfill { at: later.at }]);
        let _ = engine.finish(START, &mut second, Ok(ChargeResults::new()));
        assert!(!engine.has_unsynced());
    }

    /// A counter that the store has no room for does not keep the others from being charged.
    #[test]
    fn what_a_full_store_refuses_waits_for_the_next_round() {
        let engine = engine();
        for key in ["a", "b", "c"] {
            admit(&engine, 0, key);
        }
        let mut seen = Vec::new();
        let mut answer = |answer| {
            let mut request = backfill(&engine)?;
            seen.push(request.charges().len());
            assert!(
                matches!(engine.finish(START, &mut request, answer), Output::Backfilled(Ok(()))),
                "the store answers"
            );
            Some(())
        };
        let charged = || Ok(ChargeResults::new());
        let full = || Err(StoreError::Full);
        let round: Vec<_> = [full(), charged(), full(), charged(), charged()].map(&mut answer).into();
        assert_eq!(round, [Some(()), Some(()), Some(()), Some(()), None], "the round is over");
        assert!(engine.has_unsynced() && answer(charged()).is_some() && !engine.has_unsynced());
        for key in ["d", "e"] {
            admit(&engine, 10, key);
        }
        answer(charged());
        assert_eq!(seen, [3, 1, 1, 1, 1, 2], "counters are sent alone until all of the request were");
    }

    /// A slot that is released during a backfill is not charged after the backfill has failed.
    #[test]
    fn a_release_during_a_backfill_that_fails_is_not_lost() {
        for answer in [Err(StoreError::Unreachable), Ok(ChargeResults::new())] {
            let engine = engine();
            let decided = admit(&engine, 0, "k");
            let mut sent = backfill(&engine).expect("a request");
            let mut released = release(&engine, "k", &decided).expect("the store may be charged");
            let _ = engine.finish(START, &mut released, answer);
            let _ = engine.finish(START, &mut sent, Err(StoreError::Unreachable));
            assert!(!engine.has_unsynced() && backfill(&engine).is_none());
        }
    }
}
