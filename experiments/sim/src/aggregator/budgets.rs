//! An aggregator as a member of the ledger, as `aggregator/src/regions/region_loop.rs` is one over a real ledger: it reads the mirror,
//! drives the engines of the budgets, and executes their effects.
//!
//! The process may be suspended between a decision and its effect.

use std::collections::BTreeSet;

use tollgate_aggregator_engine::budget::region::{RegionEffect, RegionInput, RegionPartitions};
use tollgate_aggregator_engine::membership::Membership;
use tollgate_core::clock::Timestamp;
use tollgate_core::counter::Partition;
use tollgate_core::messages::ledger::{LedgerEntry, LedgerRecord, Terms};
use tollgate_core::regions::stored_limit::LimitAnswer;

use super::life::AggregatorLife;
use crate::budget_member::BudgetMember;
use crate::environment::{Environment, LedgerDispatch};
use crate::event::{AggregatorEvent, LedgerMemberEvent, LimitCommand, LimitMessage, LimitReply};
use crate::ledger_mistakes::{granted_again, read_at, read_by_region};
use crate::observation::Observation;
use crate::region_mistake::RegionMistake;
use crate::settings::BudgetSettings;

/// Minimum time between two looks of the coordinator at all counters, in ms.
const ANSWER_MS: u64 = 50;
/// Age of the store's time that is asked for again, in ms.
const STORE_TIME_MS: u64 = 1_000;
/// Maximum time for which an answer with the store's time is awaited, in ms.
const TIME_WAIT_MS: u64 = 250;
/// Interval at which terms are proposed again until they are in the ledger, in ms.
const TERMS_MS: u64 = 2_000;

impl AggregatorLife {
    /// Handles an event, once the process runs.
    pub(super) fn handle_budget(&mut self, env: &mut Environment<'_>, event: LedgerMemberEvent) {
        let paused_ms = self.paused_until.ms_since(env.now());
        if paused_ms > 0 {
            return self.later(env, paused_ms, AggregatorEvent::Budget(event));
        }
        match event {
            LedgerMemberEvent::Tick => self.tick_budgets(env),
            LedgerMemberEvent::TimeOverdue => self.compare_if_awaited(env),
            LedgerMemberEvent::Reads => {
                self.read_ledger(env);
                self.coordinate_soon(env);
            }
            LedgerMemberEvent::Coordinates => self.coordinate(env),
            LedgerMemberEvent::Answered(read, store_time, reply) => {
                env.observe(Observation::StoreTimeKnown(self.index, read));
                self.limit_answered(env, store_time, reply);
            }
        }
    }

    /// Reads the records that have reached the mirror.
    fn read_ledger(&mut self, env: &mut Environment<'_>) {
        let (now, mistake, index) = (env.now(), env.mistake, self.index);
        let Some(member) = self.member.as_mut().filter(|member| member.read < env.mirror.len()) else { return };
        while let Some(record) = env.mirror.get(member.read) {
            let record = record.clone();
            member.read += 1;
            let own_now = member.time(now);
            if let Some(coordinator) = &mut member.coordinator {
                coordinator.read(read_at(mistake, own_now, coordinator.ledger(), &record), &record);
            }
            let read = read_by_region(mistake, member.is_second, &record);
            let mut effects = Vec::new();
            member.budgets.poll(own_now, RegionInput::Record(&read), &mut effects);
            for again in granted_again(mistake, member, &record) {
                member.budgets.poll(own_now, RegionInput::Record(&again), &mut effects);
            }
        }
        env.observe(Observation::LedgerRead(index));
    }

    /// Lets the coordinator look at the requests, unless it has looked just before.
    fn coordinate_soon(&mut self, env: &mut Environment<'_>) {
        let Some(member) = self.member.as_ref().filter(|member| member.coordinator.is_some()) else { return };
        let since_ms = env.now().ms_since(member.coordinated_at);
        if since_ms >= ANSWER_MS {
            return self.coordinate(env);
        }
        self.later(env, ANSWER_MS - since_ms, AggregatorEvent::Budget(LedgerMemberEvent::Coordinates));
    }

    /// Appends terms, grants and expiries, if this aggregator is the coordinator.
    fn coordinate(&mut self, env: &mut Environment<'_>) {
        let (now, own_name) = (env.now(), format!("aggregator-{}", self.index + 1));
        let is_own = self.worker.coordinator().is_some_and(|name| **name == *own_name);
        let Some(member) = self.member.as_mut().filter(|_| is_own) else { return };
        if now.ms_since(member.coordinated_at) < ANSWER_MS {
            return;
        }
        member.coordinated_at = now;
        let own_now = member.time(now);
        let Some(coordinator) = &mut member.coordinator else { return };
        let mut entries = Vec::new();
        if now.ms_since(member.terms_at) >= TERMS_MS {
            member.terms_at = now;
            for terms in &env.terms {
                let is_other =
                    |(_, known): (_, &Terms)| *terms != Terms { generation: terms.generation, ..known.clone() };
                if coordinator.ledger().terms(&terms.rule).is_none_or(is_other) {
                    entries.extend(coordinator.propose_terms(terms));
                }
            }
        }
        entries.extend(coordinator.tick(own_now));
        for record in entries {
            self.append(env, record, true);
        }
    }

    fn tick_budgets(&mut self, env: &mut Environment<'_>) {
        let tick_ms = self.member.as_ref().map_or(BudgetSettings::TICK_MS, |member| member.tick_ms);
        self.later(env, tick_ms, AggregatorEvent::Budget(LedgerMemberEvent::Tick));
        self.read_ledger(env);
        self.coordinate(env);
        let now = env.now();
        let Some(member) = &mut self.member else { return };
        member.awaits_time = true;
        if now.ms_since(member.store_time_at) < STORE_TIME_MS {
            return self.compare_if_awaited(env);
        }
        // Without it, the end of a term is unknown.
        self.ask_store(env, now, LimitCommand::Time);
        self.later(env, TIME_WAIT_MS, AggregatorEvent::Budget(LedgerMemberEvent::TimeOverdue));
    }

    /// Compares the budgets of the region with the demand, unless this was done since the tick.
    fn compare_if_awaited(&mut self, env: &mut Environment<'_>) {
        if !self.member.as_mut().is_some_and(|member| std::mem::take(&mut member.awaits_time)) {
            return;
        }
        let now = env.now();
        let part = self.region_part(env);
        let Some(member) = &mut self.member else { return };
        let (own_now, mut effects) = (member.time(now), Vec::new());
        let before = std::mem::replace(&mut member.ticked_at, own_now);
        let BudgetMember { budgets, offered, .. } = member;
        budgets.poll(own_now, RegionInput::Assigned(&part), &mut effects);
        for (counter, (rule, units)) in std::mem::take(offered) {
            let input = RegionInput::Offered { rule: &rule, counter, units };
            budgets.poll(before, input, &mut effects);
        }
        budgets.poll(own_now, RegionInput::Tick, &mut effects);
        self.execute_budget(env, effects);
        let written = self.member.as_ref().map_or(now, |member| member.writes_after.max(now));
        env.observe(Observation::BudgetsCompared(self.index, written));
    }

    /// Returns the counters of which this aggregator takes care for its region. If it starts while the bus is unavailable, it
    /// takes care of all until it knows the others.
    fn region_part(&mut self, env: &Environment<'_>) -> RegionPartitions {
        let is_away = !env.bus_is_up;
        let knows_others = self.worker.membership().is_none_or(Membership::is_settled);
        let has_all = self.member.as_mut().is_some_and(|member| {
            member.has_all_counters = !knows_others && (is_away || member.has_all_counters);
            member.has_all_counters
        });
        let all = 0..env.bus.partitions;
        let own: BTreeSet<Partition> =
            all.clone().filter(|partition| has_all || self.worker.owns(*partition)).collect();
        let counted = all.filter(|partition| !is_away && self.worker.counts_all(env.now(), *partition)).collect();
        RegionPartitions { partitions: env.bus.partitions, own, counted }
    }

    fn limit_answered(&mut self, env: &mut Environment<'_>, store_time: Timestamp, reply: LimitReply) {
        let now = env.now();
        let own_used = |counter| self.worker.used(now, counter).unwrap_or(0);
        let Some(member) = &mut self.member else { return };
        let (own_now, mut effects) = (member.time(now), Vec::new());
        member.budgets.poll(own_now, RegionInput::StoreTime(store_time), &mut effects);
        member.store_time_at = now;
        match reply {
            LimitReply::Time => self.compare_if_awaited(env),
            LimitReply::Written(counter, answer) => {
                let is_unseen = env.mistake == Some(RegionMistake::GiveBackUnseen);
                let used = if is_unseen { 0 } else { answer.used.max(own_used(counter)) };
                let answer = LimitAnswer { used, ..answer };
                member.budgets.poll(own_now, RegionInput::Written { counter, answer }, &mut effects);
            }
            LimitReply::FloorWritten(rule, limit) => {
                let input = RegionInput::FloorWritten { rule: &rule, limit };
                member.budgets.poll(own_now, input, &mut effects);
            }
        }
        self.execute_budget(env, effects);
    }

    fn execute_budget(&mut self, env: &mut Environment<'_>, effects: Vec<RegionEffect>) {
        for effect in effects {
            match effect {
                RegionEffect::Append(record) => self.append(env, record, false),
                RegionEffect::Write { rule, counter, write } => {
                    let mut at = self.suspended_until(env, env.member_faults.suspended_permille);
                    if env.mistake == Some(RegionMistake::LimitLate) {
                        at = at.plus_ms(self.late_ms());
                    }
                    self.ask_store(env, at, LimitCommand::Write { rule, counter, write });
                }
                RegionEffect::WriteFloor { rule, write } => {
                    let at = self.suspended_until(env, env.member_faults.suspended_permille);
                    self.ask_store(env, at, LimitCommand::WriteFloor { rule, write });
                }
            }
        }
    }

    /// Sends a request to the store. Requests reach it in their order.
    fn ask_store(&mut self, env: &mut Environment<'_>, from: Timestamp, command: LimitCommand) {
        let Some(member) = &mut self.member else { return };
        let at = from.plus_ms(env.limit_delay_ms()).max(member.writes_after);
        member.writes_after = at;
        env.request_limit(at, LimitMessage { aggregator: self.index, life: self.life, command });
    }

    fn append(&mut self, env: &mut Environment<'_>, record: LedgerRecord, coordinates: bool) {
        let faults = env.member_faults;
        let permille = match record.entry {
            LedgerEntry::GiveBack { .. } => faults.suspended_permille.max(faults.give_back_permille),
            LedgerEntry::Expiry { .. } => faults.coordinator_permille.max(faults.expiry_permille),
            _ if coordinates => faults.coordinator_permille,
            _ => faults.suspended_permille,
        };
        let mut sent = self.suspended_until(env, permille);
        if env.mistake == Some(RegionMistake::GrantLate) && matches!(record.entry, LedgerEntry::Grant { .. }) {
            sent = sent.plus_ms(self.late_ms());
        }
        if sent > env.now() {
            env.observe(Observation::EntryDelayed(self.index, record.entry.clone()));
        }
        env.dispatches.push(LedgerDispatch { aggregator: self.index, life: self.life, sent, record });
    }

    /// Returns the instant of the next effect, before which the process may be suspended.
    fn suspended_until(&mut self, env: &Environment<'_>, permille: u64) -> Timestamp {
        let (now, max_ms) = (env.now(), env.member_faults.suspended_ms_max);
        let drawn = self.member.as_mut().map(|member| (member.rng.u64(0..1_000), member.rng.u64(0..=max_ms)));
        if let Some((_, for_ms)) = drawn.filter(|(drawn, _)| *drawn < permille && self.paused_until <= now) {
            self.pause(now, now.plus_ms(for_ms), env.mistake);
        }
        self.paused_until.max(now)
    }

    /// Returns the time by which an effect is late by mistake, in ms.
    fn late_ms(&self) -> u64 {
        let rules = self.member.as_ref().map(|member| member.budgets.ledger().rules());
        rules.into_iter().flatten().map(|terms| terms.term_ms / 4).max().unwrap_or(0)
    }
}
