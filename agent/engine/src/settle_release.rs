//! What is said of a call after its decision: what it really cost, and that it has ended.
//!
//! Settling charges the difference between what was asked for and what it was, on every rule that goes by the call's own
//! cost. Ending gives back the slots of `concurrency` rules; a slot is known by the time of its decision.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tollgate_core::algorithm::Algorithm;
use tollgate_core::call::Call;
use tollgate_core::clock::Timestamp;
use tollgate_core::decision::LimitStatus;
use tollgate_core::rules::{ListMatch, MatchScope};

use crate::engine::{ActiveRules, Engine};
use crate::match_rules::{MatchedRule, MatchedRules};
use crate::record::signed;
use crate::store_error::StoreError;
use tollgate_core::counter::ChargeResults;
use tollgate_core::counter::{Charge, ChargeMode};

/// What is said of a call after its decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amend {
    /// It cost so many units more than it asked for, or fewer; it was decided then, if that is known.
    Settle(i64, Option<Timestamp>),
    /// It was decided then, and has ended.
    Release(Timestamp),
}

/// What the store is told.
#[derive(Debug)]
pub struct Amendment {
    active: Arc<ActiveRules>,
    charges: MatchedRules,
    takes: Vec<Charge>,
    /// When the units count as used or given back.
    at: Timestamp,
    number: u64,
}

impl Amendment {
    /// What to tell the store, in one step; nothing when no rule is concerned.
    #[must_use]
    pub fn takes(&self) -> &[Charge] {
        &self.takes
    }

    /// Whether it gives units back.
    #[must_use]
    pub fn gives_back(&self) -> bool {
        self.takes.iter().any(|take| matches!(take.mode, ChargeMode::Refund { .. }))
    }

    /// What to ask the store afterwards, to tell how the counters stand.
    #[must_use]
    pub fn looks(&self) -> Vec<Charge> {
        let kind = ChargeMode::Enforce { expires_at: Timestamp::from_ms(u64::MAX) };
        self.takes.iter().map(|take| Charge { cost: 0, mode: kind, ..take.clone() }).collect()
    }
}

impl Engine {
    /// What the store must be told. What it was never told of is given back here and now.
    #[must_use]
    pub fn amend(&self, now: Timestamp, call: &Call<'_>, scope: MatchScope<'_>, amend: Amend) -> Amendment {
        let active = self.rules.load_full();
        let span = self.store_time(now);
        let mut charges = self.charges(&active, span, (call, scope), ListMatch::Allowed(0)).unwrap_or_default();
        charges.retain(|charge| amend.concerns(charge));
        let (units, at) = match amend {
            Amend::Settle(units, decided) if units < 0 => (Some(units.unsigned_abs()), decided.unwrap_or(span.latest)),
            Amend::Settle(units, _) => (Some(units.unsigned_abs()), span.latest),
            Amend::Release(decided) => (None, decided),
        };
        let gives_back = !matches!(amend, Amend::Settle(0.., _));
        let kind = if gives_back { ChargeMode::Refund { at } } else { ChargeMode::Backfill { at } };
        let number = self.calls.fetch_add(1, Ordering::Relaxed);
        let mut takes = Vec::new();
        charges.retain(|charge| {
            let units = units.unwrap_or(charge.cost);
            let forgiven = gives_back
                && self.table.with(charge.counter, |seen| {
                    let forgiven = seen.own(&charge.policy).forgive(at, units);
                    if forgiven {
                        seen.refund(&charge.policy, at, units);
                    }
                    forgiven
                });
            if forgiven {
                self.publish_amendment(now, call, &active, charge, (number, at, -signed(units)));
            } else {
                takes.push(charge.take(active.set.generation, units, kind));
            }
            !forgiven
        });
        Amendment { active, charges, takes, at, number }
    }

    /// What became of it: how the tightest of the rules stands now, by the answers to [`Amendment::looks`] if there are any.
    /// Units that were used are charged later when the store did not answer; what was to be given back is not, but here.
    ///
    /// # Errors
    /// When something was to be given back and the store did not answer.
    pub fn amended(
        &self,
        now: Timestamp,
        call: &Call<'_>,
        amendment: &Amendment,
        answer: Result<ChargeResults, StoreError>,
        looked: Option<ChargeResults>,
    ) -> Result<Option<LimitStatus>, StoreError> {
        let Amendment { active, charges, at, .. } = amendment;
        let gives_back = amendment.gives_back();
        if let Err(error) = &answer {
            self.unanswered(*error);
        }
        let unsynced = !gives_back && answer.as_ref().err().is_some_and(|error| error.leaves_debt());
        for (charge, take) in charges.iter().zip(&amendment.takes) {
            let units = take.cost;
            if gives_back {
                self.table.with(charge.counter, |seen| {
                    seen.refund(&charge.policy, *at, units);
                    seen.denial = None;
                });
            }
            if gives_back && answer.is_err() {
                continue;
            }
            let cost = if gives_back { -signed(units) } else { signed(units) };
            let row = (amendment.number, *at, cost);
            let sequence = self.publish_amendment(now, call, active, charge, row);
            let falls_in_debt = !gives_back
                && self.table.with(charge.counter, |seen| {
                    let was_in_debt = seen.has_unsynced();
                    let own = seen.own(&charge.policy);
                    own.admit(*at, units, sequence);
                    if unsynced {
                        own.owe(*at, units);
                    }
                    !was_in_debt && unsynced
                });
            if falls_in_debt {
                self.falls_in_debt(charge, active.set.generation);
            }
        }
        let answers = match answer {
            Err(error) if gives_back => return Err(error),
            answer => looked.or(answer.ok()).unwrap_or_default(),
        };
        let bounds = charges.iter().zip(&amendment.takes).zip(&answers).map(|((charge, take), taken)| LimitStatus {
            rule: charge.rule.name.clone(),
            limit: taken.limit,
            window_ms: charge.policy.window.width_ms(),
            at_once: charge.policy.at_once(),
            cost: take.cost,
            remaining: taken.verdict.remaining,
            reset_ms: taken.verdict.reset_at.ms_since(taken.at),
            retry_after_ms: 0,
        });
        let part_left = |status: &LimitStatus| u128::from(status.remaining) * 1_000 / u128::from(status.limit.max(1));
        Ok(bounds.min_by_key(part_left))
    }
}

impl Amend {
    fn concerns(self, charge: &MatchedRule) -> bool {
        let is_slot = charge.policy.algorithm == Algorithm::Concurrency;
        match self {
            Self::Settle(..) => !is_slot && charge.rule.goes_by_call_cost(),
            Self::Release(_) => is_slot,
        }
    }
}
