//! Check of a call to which one rule applies, where a look at its counter is enough: the usual case, in one step under one lock.
//!
//! It is [`check`](crate::check) without anything that several rules, several calls or a store need, and gives the same
//! decision, row and view: planned by [`plan()`], charged by the same `step`. A call that needs more is left to `check`:
//! with a request id, on a list, under `charge: each`, of a counter that is new, or while the store must be asked.

use std::borrow::Cow;
use std::sync::Arc;

use tollgate_core::call::Call;
use tollgate_core::clock::Timestamp;
use tollgate_core::counter::{ChargeMode, SlotId};
use tollgate_core::decision::{Decision, Source};
use tollgate_core::messages::calls::Outcome;
use tollgate_core::rules::{Charging, ListMatch, Positions};

use crate::active_rules::ActiveRules;
use crate::enforce::{Authority, Enforcement, Facts, Plan, plan};
use crate::engine::{Context, Engine};
use crate::matched_rule::MatchedRule;
use crate::record::{CallRow, signed};
use crate::table::TableEntry;

impl Engine {
    /// Decides a call at once if one rule applies and a look at its counter is enough; else nothing has happened, and
    /// [`Engine::begin`] decides.
    #[must_use]
    pub fn decide(&self, now: Timestamp, call: &Call<'_>) -> Option<Decision> {
        // A request that may have been charged, and a store that lacks units, need more.
        let is_plain = call.id().is_none() && !self.needs_store();
        is_plain.then(|| self.rules.with(|active| self.check_sole(active, now, call))).flatten()
    }

    fn check_sole(&self, active: &Arc<ActiveRules>, now: Timestamp, call: &Call<'_>) -> Option<Decision> {
        let bounds = self.store_time(now);
        let resolved = active.set.resolved(call);
        let mut positions = Positions::new();
        let candidates = active.index.candidates(&resolved, &mut positions);
        let (index, rule) = active.set.sole_applicable(&resolved, candidates)?;
        if rule.deny
            || rule.shadow
            || rule.charge == Charging::Each
            || active.set.list_match(&resolved) != ListMatch::Unlisted
        {
            return None;
        }
        let policy = rule.policy_for(&resolved).0?;
        let counter = self.settings.digest_key.known_counter(&rule.name, rule.values(&resolved));
        let (slot, cost) = (SlotId::of(counter), rule.cost_of(&resolved, call.cost()));
        let (rule, enforcement) = (Cow::Borrowed(rule), Enforcement::Normal);
        let matched = MatchedRule { rule, policy, index, counter, sketched: None, slot, cost, enforcement };
        let generation = active.set.generation;
        let facts = Facts { now: bounds, authority: Authority::Store, part: self.fleet.part() };
        let decide =
            |entry: &mut TableEntry| match plan(&matched.policy, generation, &entry.view, &facts, cost, enforcement) {
                Plan::Decided(verdict, source, _) => {
                    Some((matched.verdict(verdict, matched.policy.quota.units(), source), None))
                }
                Plan::NeedsStore if self.settings.owns_table => {
                    // In the own table no charge expires.
                    let mode = ChargeMode::Enforce { expires_at: now };
                    let result = entry.charge(&matched.charge(generation, cost, mode), now).ok()?;
                    Some((matched.verdict(result.verdict, result.limit, Source::Store), Some(result)))
                }
                Plan::NeedsStore => None,
            };
        let (decided, result) = self.table.find(counter, bounds.earliest, decide)??;
        self.note_clock_step(result.as_slice());
        let (number, source, allowed) = (self.next_call(), decided.source, decided.verdict.admitted);
        active.counts[index].decided(source, allowed);
        let (at, from) = result.map_or((bounds.latest, bounds.earliest), |result| (result.at, result.at));
        let outcome = if allowed { Outcome::Admitted } else { Outcome::Denied };
        let home = Some((Some(&*matched.rule.name), source));
        let context = Context { now, bounds, active };
        self.publish(&context, call, Some(&matched), CallRow { call: number, at, cost: signed(cost), outcome }, home);
        let mut decision = Decision::new(allowed, source, at, self.decision_id(number));
        decision.status = Some(matched.status(active, cost, decided, from));
        decision.delay_ms = if allowed { decided.verdict.delay_ms } else { 0 };
        decision.holds_slots = allowed && matched.is_slot();
        Some(decision)
    }
}
