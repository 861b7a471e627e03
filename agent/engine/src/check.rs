//! The way of one call: begun, asked of the store if need be, finished.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use smallvec::SmallVec;
use tollgate_core::algorithm::Verdict;
use tollgate_core::call::Call;
use tollgate_core::clock::Timestamp;
use tollgate_core::decision::{Decision, Source};
use tollgate_core::rules::{ListMatch, MatchScope};

use crate::decide::{Ask, Asked};
use crate::enforce::RuleVerdict;
use crate::engine::{ActiveRules, Engine};
use crate::match_rules::{MatchedRule, MatchedRules};
use crate::store_error::StoreError;
use tollgate_core::counter::ChargeResults;
use tollgate_core::counter::{Charge, ChargeResult};

/// What became of a call at once.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "it lives for one call, which a box would cost an allocation")]
pub enum Progress {
    /// It is decided.
    Done(Decision),
    /// The store must be asked.
    NeedsStore(StoreRequest),
}

/// A call for which the store is asked.
#[derive(Debug)]
pub struct StoreRequest {
    call: u64,
    active: Arc<ActiveRules>,
    charges: MatchedRules,
    takes: SmallVec<[Charge; 2]>,
    asked_at: Timestamp,
}

impl StoreRequest {
    /// What to ask the store.
    #[must_use]
    pub fn takes(&self) -> &[Charge] {
        &self.takes
    }

    /// How long to wait: the least deadline of the rules that are asked about.
    #[must_use]
    pub fn deadline(&self) -> Duration {
        self.charges.iter().map(|charge| charge.policy.deadline).min().unwrap_or_default()
    }
}

impl Engine {
    /// Begins a call.
    #[must_use]
    pub fn begin(&self, now: Timestamp, call: &Call<'_>) -> Progress {
        self.begin_within(now, call, MatchScope::default())
    }

    /// Begins a call to which only the rules of a scope may apply.
    #[must_use]
    pub fn begin_within(&self, now: Timestamp, call: &Call<'_>, scope: MatchScope<'_>) -> Progress {
        let active = self.rules.load();
        let span = self.store_time(now);
        let list_match = active.set.list_match(&active.set.resolved_within(call, scope));
        let number = self.calls.fetch_add(1, Ordering::Relaxed);
        if let ListMatch::Denied(_) = list_match {
            return Progress::Done(self.turn_away(now, &active, call, number, span, None));
        }
        let charges = match self.charges(&active, span, (call, scope), list_match) {
            Ok(charges) => charges,
            Err(rule) => return Progress::Done(self.turn_away(now, &active, call, number, span, Some(rule))),
        };
        // A count that lacks what passed without the store is wrong: it is not asked for until that is charged.
        let store = if self.is_degraded() || self.owes_any(&charges) { Ask::Nobody } else { Ask::Store };
        if let Some(verdicts) = self.plan(&active, &charges, span, store) {
            let (active, charges, verdicts) = (&active, &charges, &verdicts);
            let asked = Asked { number, active, charges, verdicts, answers: &[], missed: None, span };
            Progress::Done(self.decide(now, call, &asked))
        } else {
            let id = call.id().map(|id| self.settings.digest_key.request(id));
            let takes = charges.iter().map(|charge| charge.ask(active.set.generation, id, span)).collect();
            Progress::NeedsStore(StoreRequest { call: number, active: active.clone(), charges, takes, asked_at: now })
        }
    }

    /// Finishes a call with what the store said; without an answer the agent decides by what it knows.
    #[must_use]
    pub fn finish(
        &self,
        now: Timestamp,
        call: &Call<'_>,
        pending: StoreRequest,
        answer: Result<ChargeResults, StoreError>,
    ) -> Decision {
        let StoreRequest { call: number, active, charges, asked_at, .. } = pending;
        let span = self.store_time(now);
        let missed = answer.as_ref().err().copied();
        let (verdicts, answers) = match answer {
            Ok(answers) => {
                self.answered(asked_at, now, &answers);
                let judged = |(charge, taken): (&MatchedRule, &ChargeResult)| {
                    let admitted = taken.verdict.admitted || charge.is_lenient();
                    let verdict = Verdict { admitted, ..taken.verdict };
                    Some(RuleVerdict { verdict, limit: taken.limit, source: Source::Store })
                };
                (charges.iter().zip(&answers).map(judged).collect(), answers)
            }
            Err(error) => {
                self.unanswered(error);
                (self.plan(&active, &charges, span, Ask::Nobody).unwrap_or_default(), ChargeResults::new())
            }
        };
        let (active, charges, verdicts) = (&active, &charges, &verdicts);
        let asked = Asked { number, active, charges, verdicts, answers: &answers, missed, span };
        self.decide(now, call, &asked)
    }
}
