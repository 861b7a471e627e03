//! From charges to a decision: plan, settle, publish, learn, and word the answer.

use tollgate_core::call::Call;
use tollgate_core::clock::Timestamp;
use tollgate_core::decision::{DENY_LIST, Decision, DecisionId, LimitStatus, Source};

use smallvec::SmallVec;

use crate::enforce::{Authority, Combined, Facts, Plan, RuleVerdict, combine, plan};
use crate::engine::{ActiveRules, Engine};
use crate::match_rules::MatchedRule;
use crate::store_error::StoreError;
use crate::time_bounds::TimeBounds;
use crate::view::{Sequence, ViewEvent, update};
use tollgate_core::counter::ChargeResult;

pub(crate) type Verdicts = SmallVec<[Option<RuleVerdict>; 2]>;

/// How long those are sent away who are denied by other right than a count, in ms: the rules may have changed then.
const LISTED_RETRY_MS: u64 = 60_000;

/// Everything by which a call is decided.
pub(crate) struct Asked<'a> {
    pub(crate) number: u64,
    pub(crate) active: &'a ActiveRules,
    pub(crate) charges: &'a [MatchedRule],
    pub(crate) verdicts: &'a [Option<RuleVerdict>],
    pub(crate) answers: &'a [ChargeResult],
    /// Why the store did not answer, if it was asked.
    pub(crate) missed: Option<StoreError>,
    pub(crate) span: TimeBounds,
}

/// Whom a plan may ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ask {
    Store,
    Nobody,
}

impl Engine {
    /// Plans the charges of a call: their verdicts, up to the first denial; nothing when the store must be asked.
    pub(crate) fn plan(
        &self,
        active: &ActiveRules,
        charges: &[MatchedRule],
        span: TimeBounds,
        who: Ask,
    ) -> Option<Verdicts> {
        let mut verdicts = Verdicts::new();
        let mut ask = false;
        for charge in charges {
            let authority = match who {
                Ask::Store => Authority::Store,
                Ask::Nobody => {
                    let heard = self.signals.fresh(charge.counter.partition(self.settings.partitions), span);
                    heard.map_or(Authority::Fallback, Authority::Signals)
                }
            };
            let facts = Facts { now: span, authority, fleet: self.fleet.size() };
            let generation = active.set.generation;
            let plan = |seen: &mut _| plan(&charge.policy, generation, seen, &facts, charge.cost, charge.enforcement);
            match self.table.with(charge.counter, plan) {
                Plan::NeedsStore => ask = true,
                Plan::Decided(verdict, source) => {
                    verdicts.resize(charge.place, None);
                    verdicts.push(Some(RuleVerdict { verdict, limit: charge.policy.quota.units(), source }));
                    if !verdict.admitted {
                        ask = false;
                        break;
                    }
                }
            }
        }
        verdicts.resize(charges.len(), None);
        (!ask).then_some(verdicts)
    }

    /// Settles a call: publishes its charges, learns from them, and words the answer.
    pub(crate) fn decide(&self, now: Timestamp, call: &Call<'_>, asked: &Asked<'_>) -> Decision {
        let settled = if asked.charges.iter().any(|charge| charge.rule.shadow) {
            count_shadows(asked);
            // What only counts is not shown.
            let shown = |charge: &MatchedRule| asked.verdicts[charge.place].filter(|_| !charge.rule.shadow);
            combine(&asked.charges.iter().map(shown).collect::<Verdicts>())
        } else {
            combine(asked.verdicts)
        };
        for charge in asked.charges {
            let sequence = self.publish(now, call, asked, &settled, Some(charge));
            self.update(asked, settled.allowed, charge, sequence);
        }
        if asked.charges.is_empty() {
            self.publish(now, call, asked, &settled, None);
        }
        let counters = settled.shown.map_or(&self.unlimited, |shown| &asked.active.counts[asked.charges[shown].index]);
        counters.count(settled.source, settled.allowed);
        self.word(asked, &settled)
    }

    /// Denies a call by a rule that denies what it matches, or by the deny list: no counter is charged.
    pub(crate) fn turn_away(
        &self,
        now: Timestamp,
        active: &ActiveRules,
        call: &Call<'_>,
        number: u64,
        span: TimeBounds,
        rule: Option<usize>,
    ) -> Decision {
        let (name, counters) = match rule {
            Some(rule) => (active.set.rules[rule].name.clone(), &active.counts[rule]),
            None => (DENY_LIST.into(), &self.listed),
        };
        let asked = Asked { number, active, charges: &[], verdicts: &[], answers: &[], missed: None, span };
        let settled = Combined { allowed: false, shown: None, source: Source::Local };
        self.publish_denial(now, call, &asked, &name);
        counters.count(settled.source, settled.allowed);
        let status = LimitStatus {
            rule: name,
            limit: 0,
            window_ms: 0,
            at_once: 0,
            cost: call.cost(),
            remaining: 0,
            reset_ms: LISTED_RETRY_MS,
            retry_after_ms: LISTED_RETRY_MS,
        };
        Decision { status: Some(status), ..self.word(&asked, &settled) }
    }

    fn update(&self, asked: &Asked<'_>, allowed: bool, charge: &MatchedRule, sequence: Sequence) {
        let judged = asked.verdicts[charge.place];
        let generation = asked.active.set.generation;
        let at = asked.span.latest;
        let alone = judged.is_some_and(|judged| judged.verdict.admitted && judged.source != Source::Store);
        let news = match asked.answers.get(charge.place) {
            Some(taken) => ViewEvent::ChargeResult { taken, cost: charge.cost, generation, sequence },
            None if alone && allowed => ViewEvent::PassedAlone {
                at,
                cost: charge.cost,
                sequence,
                unsynced: asked.missed.is_none_or(StoreError::needs_backfill),
            },
            None if alone => ViewEvent::Spared { at, cost: charge.cost },
            None => return,
        };
        let newly_in_debt = self.table.with(charge.counter, |seen| {
            let before = seen.has_unsynced();
            update(&charge.policy, seen, news);
            !before && seen.has_unsynced()
        });
        if newly_in_debt {
            self.falls_in_debt(charge, generation);
        }
    }

    fn word(&self, asked: &Asked<'_>, settled: &Combined) -> Decision {
        // Waits count from the store's step, or from the earliest that the store's time may be: never too short.
        let from = asked.answers.first().map_or(asked.span.earliest, |taken| taken.at);
        let status = settled.shown.and_then(|shown| Some((&asked.charges[shown], asked.verdicts[shown]?)));
        let delays = asked.verdicts.iter().flatten().map(|judged| judged.verdict.delay_ms);
        Decision {
            allowed: settled.allowed,
            status: status.map(|(charge, judged)| LimitStatus {
                rule: charge.rule.name.clone(),
                limit: judged.limit,
                window_ms: charge.policy.window.width_ms(),
                at_once: if charge.policy.burst > 0 { charge.policy.burst } else { judged.limit },
                cost: charge.cost,
                remaining: judged.verdict.remaining,
                reset_ms: judged.verdict.reset_at.ms_since(from),
                retry_after_ms: if settled.allowed { 0 } else { judged.verdict.retry_at.ms_since(from).max(1) },
            }),
            delay_ms: if settled.allowed { delays.max().unwrap_or(0) } else { 0 },
            source: settled.source,
            at: asked.at(),
            id: DecisionId {
                agent: self.settings.node.clone(),
                epoch: self.settings.epoch.as_ms(),
                call: asked.number,
            },
        }
    }
}

/// Counts whom a rule in shadow would have denied.
fn count_shadows(asked: &Asked<'_>) {
    for (charge, taken) in asked.charges.iter().zip(asked.answers) {
        if charge.rule.shadow && !taken.verdict.admitted {
            asked.active.counts[charge.index].shadow_denials.add(1);
        }
    }
}

impl Asked<'_> {
    /// When the call was decided: the store's step, or the latest that the store's time may be.
    pub(crate) fn at(&self) -> Timestamp {
        self.answers.first().map_or(self.span.latest, |taken| taken.at)
    }
}
