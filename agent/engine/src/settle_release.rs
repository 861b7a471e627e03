//! Settlements and releases: corrections of a call after its decision.
//!
//! A settlement charges or refunds the difference between the requested and the real cost, under every rule that goes by the
//! call's own cost. A release frees the slots of `concurrency` rules; a slot is identified by the instant of its decision.

use tollgate_core::algorithm::Algorithm;
use tollgate_core::call::Call;
use tollgate_core::clock::Timestamp;
use tollgate_core::counter::{Charge, ChargeMode, ChargeResult, ChargeResults};
use tollgate_core::decision::LimitStatus;
use tollgate_core::rules::MatchScope;

use crate::engine::{ActiveRules, Engine};
use crate::matched_rule::{MatchedRule, MatchedRules};
use crate::record::signed;
use crate::stage::{Charges, Stage, UNATTENDED_DEADLINE};
use crate::store_error::StoreError;
use crate::view::{ViewEvent, update};

/// Status of the tightest rule concerned after a correction, none if no rule is concerned; or the reason for which nothing was
/// refunded.
pub(crate) type Adjusted = Result<Option<LimitStatus>, StoreError>;

/// Correction of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Adjustment {
    /// The call cost so many units more than it requested, or fewer.
    Settle { units: i64, decided: Option<Timestamp> },
    /// The call has ended.
    Release { decided: Timestamp },
}

/// A correction for which the store is asked.
#[derive(Debug)]
pub(crate) struct PendingAdjustment {
    matched: MatchedRules,
    is_refund: bool,
    /// Instant at which the units count as used or refunded.
    at: Timestamp,
    number: u64,
}

impl Adjustment {
    fn concerns(self, matched: &MatchedRule) -> bool {
        let is_slot = matched.policy.algorithm == Algorithm::Concurrency;
        match self {
            Self::Settle { .. } => !is_slot && matched.rule.goes_by_call_cost(),
            Self::Release { .. } => is_slot,
        }
    }

    fn is_refund(self) -> bool {
        !matches!(self, Self::Settle { units: 0.., .. })
    }

    /// Returns the units to charge or refund under a rule.
    fn units(self, matched: &MatchedRule) -> u64 {
        match self {
            Self::Settle { units, .. } => units.unsigned_abs(),
            Self::Release { .. } => matched.cost,
        }
    }
}

impl Engine {
    /// Begins a correction. Units that the store was never told about are refunded here and now.
    pub(crate) fn begin_adjustment(
        &self,
        now: Timestamp,
        active: &ActiveRules,
        call: &Call<'_>,
        adjustment: Adjustment,
    ) -> Stage<Adjusted, PendingAdjustment> {
        let bounds = self.store_time(now);
        let resolved = active.set.resolved_within(call, MatchScope::default());
        let mut matched = self.match_rules(active, bounds, call, &resolved, true).unwrap_or_default();
        matched.retain(|matched| adjustment.concerns(matched));
        let is_refund = adjustment.is_refund();
        let at = match adjustment {
            Adjustment::Settle { units: ..0, decided } => decided.unwrap_or(bounds.latest),
            Adjustment::Settle { .. } => bounds.latest,
            Adjustment::Release { decided } => decided,
        };
        let number = self.next_call();
        let generation = active.set.generation;
        if is_refund {
            matched.retain(|matched| {
                let units = adjustment.units(matched);
                let is_unsynced = self.refund_unsynced(matched, at, units);
                if is_unsynced {
                    self.publish_adjustment(now, call, active, matched, (number, at, -signed(units)));
                }
                !is_unsynced
            });
        }
        let mode = if is_refund { ChargeMode::Refund { at } } else { ChargeMode::Backfill { at } };
        let charge = |matched: &MatchedRule| matched.charge(generation, adjustment.units(matched), mode);
        let charges: Charges = matched.iter().map(charge).collect();
        if charges.is_empty() {
            return Stage::Done(Ok(None));
        }
        Stage::NeedsStore(charges, UNATTENDED_DEADLINE, PendingAdjustment { matched, is_refund, at, number })
    }

    /// Finishes a correction; returns the status of the tightest rule afterwards. Units that were used are charged later if
    /// the store did not answer; units that were to be refunded are refunded in the view only.
    pub(crate) fn finish_adjustment(
        &self,
        now: Timestamp,
        active: &ActiveRules,
        call: &Call<'_>,
        PendingAdjustment { matched, is_refund, at, number }: &PendingAdjustment,
        charges: &[Charge],
        answer: Result<ChargeResults, StoreError>,
    ) -> Adjusted {
        let is_unsynced = answer.as_ref().err().is_some_and(|error| error.needs_backfill());
        for (matched, charge) in matched.iter().zip(charges) {
            let (at, units) = (*at, charge.cost);
            let cost = if *is_refund { -signed(units) } else { signed(units) };
            let publish = || self.publish_adjustment(now, call, active, matched, (*number, at, cost));
            let event = if *is_refund {
                if answer.is_ok() {
                    publish();
                }
                // A slot is refunded once; a refund that overtakes its backfill finds no slot in the store.
                let is_slot = matched.policy.algorithm == Algorithm::Concurrency;
                ViewEvent::Refunded { at, units, is_unsynced: is_unsynced || is_slot, by_store: true }
            } else {
                ViewEvent::Admitted { at, units, is_planned: false, sequence: publish(), is_unsynced }
            };
            if !self.counts_in_own_table() {
                self.update_counter(matched, active.set.generation, event);
            }
        }
        let results = match answer {
            Err(error) if *is_refund => return Err(error),
            answer => answer.unwrap_or_default(),
        };
        let status = |((matched, charge), result): ((&MatchedRule, &Charge), &ChargeResult)| {
            matched.status(charge.cost, result.limit, &result.verdict, result.at)
        };
        let statuses = matched.iter().zip(charges).zip(&results).map(status);
        let part_left = |status: &LimitStatus| u128::from(status.remaining) * 1_000 / u128::from(status.limit.max(1));
        Ok(statuses.min_by_key(part_left))
    }

    /// Refunds units that were admitted without the store and that it was never told about; returns false if there are none.
    fn refund_unsynced(&self, matched: &MatchedRule, at: Timestamp, units: u64) -> bool {
        self.table.with(matched.counter, |view| {
            let is_unsynced = view.unsynced().iter().any(|unsynced| unsynced.contains(at, units));
            if is_unsynced {
                let refunded = ViewEvent::Refunded { at, units, is_unsynced: true, by_store: false };
                update(&matched.policy, view, refunded);
            }
            is_unsynced
        })
    }
}
