//! never-over, by leases: an agent spends no unit that the store has not charged to it, and spends each in the sub-window of
//! its charge.
//!
//! Of each agent, counter and sub-window, the units of calls that leases admitted are at most those that the store
//! leased to this life of the agent, and those that it charged for calls which were not admitted by the store. The charge of a
//! call with a request id stays for its retry: it is never leased, and no lease admits such a call. A
//! sub-window is that of the store's true time, and of the window that the counter followed at the charge. Excused: a step of
//! the store's clock, after which the agent believes the old time until it gets an answer; and agents that keep their own table,
//! which have no leases.

use std::collections::{BTreeMap, HashMap};

use tollgate::{LocalAnswer, Source};
use tollgate_core::clock::Timestamp;
use tollgate_core::counter::CounterId;
use tollgate_core::rules::ListMatch;
use tollgate_core::window::{SubWindow, Window};
use tollgate_engine::DecidedRule;
use tollgate_sim::{AnsweredCall, Observation, SimNode, Simulation, Ticket};

use super::facts::Facts;

/// Time after which an agent has noticed a step of the store's clock, in ms: it asks the store each second.
const NOTICED_MS: u64 = 3_000;

/// Maximum number of charges that are kept, for calls that are answered later.
const REQUESTS_LEN_MAX: usize = 10_000;

/// Units that the store charged to an agent for its calls, less those of calls that the store decided.
#[derive(Default)]
pub(crate) struct Leases {
    free: HashMap<(usize, CounterId, Window, SubWindow), i64>,
    /// Sub-windows in which requests were charged.
    charged: BTreeMap<(Ticket, CounterId), (Window, SubWindow)>,
    lives: HashMap<usize, u64>,
    /// Number of admissions by leases, and of those for whose calls the store was asked about another counter.
    pub(crate) compared: usize,
    pub(crate) mixed: usize,
    /// Number of answers to calls with a request id.
    pub(crate) named: usize,
    stepped: Timestamp,
    /// Store time before the steps back of its clock, which counters may still show.
    shown: Timestamp,
}

impl Leases {
    pub(crate) fn observe(
        &mut self,
        facts: &Facts,
        sim: &Simulation<'_>,
        observation: &Observation<'_>,
    ) -> Result<(), String> {
        match observation {
            Observation::Started(SimNode::Agent(agent)) => *self.lives.entry(*agent).or_default() += 1,
            Observation::Ended(SimNode::Agent(agent)) => self.free.retain(|(of, ..), _| of != agent),
            Observation::StoreClockStepped { by_ms, store_time } => {
                self.stepped = sim.now();
                let back_ms = if *by_ms < 0 { by_ms.unsigned_abs() } else { 0 };
                self.shown = self.shown.max(store_time.plus_ms(back_ms));
            }
            Observation::Executed { agent, life, ticket, charges, answer: Ok(results), limits, .. }
                if self.lives.get(agent).is_none_or(|current| current == life) =>
            {
                let executed = charges.iter().zip(results).zip(limits);
                let charged = executed.filter(|((_, result), _)| result.charged && !result.repeated);
                for ((charge, result), limit) in charged.filter(|((charge, _), _)| charge.mode.is_enforced()) {
                    let window = limit.map_or(charge.limit.window, |limit| limit.window);
                    let key = (*agent, charge.counter, window, window.sub_window(result.at));
                    self.charged.insert((*ticket, charge.counter), (key.2, key.3));
                    if self.charged.len() > REQUESTS_LEN_MAX {
                        self.charged.pop_first();
                    }
                    let of_call = if charge.request.is_none() { charge.cost } else { 0 };
                    *self.free.entry(key).or_default() += signed(of_call.saturating_add(result.leased));
                }
            }
            Observation::Answered(answered) => return self.answered(facts, sim, answered),
            _ => {}
        }
        Ok(())
    }

    fn answered(&mut self, facts: &Facts, sim: &Simulation<'_>, answered: &AnsweredCall<'_>) -> Result<(), String> {
        let decision = &answered.decision;
        if answered.call.id().is_some() {
            self.named += 1;
            let by_lease = |rule: &DecidedRule| rule.by == Some(LocalAnswer::Lease) || rule.asked == 0;
            return if decision.by == Some(LocalAnswer::Lease) || answered.rules.iter().any(by_lease) {
                Err(format!("never-over: agent {} admits a call with a request id by a lease", answered.agent))
            } else {
                Ok(())
            };
        }
        if !answered.is_admitted {
            return Ok(());
        }
        if facts.list_match(answered.generation, &answered.call) != ListMatch::Unlisted {
            return Ok(());
        }
        let (now, shown) = (sim.store().time(sim.now()), self.shown);
        // After a step back, a counter may be ahead of the clock. It then charges a later sub-window.
        let may_be_ahead = |window: Window| now < shown.plus_ms(window.sub_window_ms());
        let applied = facts.applied(answered.generation, &answered.call);
        // The sketch may have decided another rule of the call.
        if facts.overflows() && applied.len() > 1 && answered.rules.is_empty() {
            return Ok(());
        }
        // The others are counted in any case.
        for applied in applied.into_iter().filter(|applied| !applied.counts_denials()) {
            let (source, by) = answered.decided_by(applied.counter);
            let by_lease = by == Some(LocalAnswer::Lease);
            if !by_lease && source != Source::Store {
                continue;
            }
            self.mixed += usize::from(by_lease && answered.ticket.is_some());
            let (agent, rule, cost) = (answered.agent, &applied.rule.name, signed(applied.cost));
            let place = |window: Window| window.sub_window(decision.at);
            // The counter may follow the window of rules that the agent does not have.
            let windows = facts.policies(rule, &answered.call).into_iter().map(|policy| policy.window);
            let places = [applied.policy.window].into_iter().chain(windows).flat_map(|window| {
                // A counter that was re-based after a step of the clock is charged in an earlier sub-window than others of the call.
                let parts = if by_lease { 0 } else { window.sub_windows().into() };
                let ahead = if by_lease && may_be_ahead(window) { window.sub_windows().into() } else { 0 };
                let own = place(window);
                let earlier = (own.saturating_sub(parts)..=own).rev();
                earlier.chain(own + 1..=own + ahead).map(move |place| (window, place))
            });
            let own = applied.policy.window;
            let free = |(window, place): (Window, SubWindow)| {
                self.free.get(&(agent, applied.counter, window, place)).copied().unwrap_or_default()
            };
            let mut places: Vec<(Window, SubWindow)> = places.collect();
            // The answer about another counter may have told of a step since the units were taken.
            let is_noticed = sim.now().ms_since(self.stepped) > NOTICED_MS;
            if by_lease && answered.ticket.is_some() && !is_noticed {
                let of_counter = |(of, counter, ..): &&(usize, CounterId, Window, SubWindow)| {
                    (*of, *counter) == (agent, applied.counter)
                };
                places.extend(self.free.keys().filter(of_counter).map(|(_, _, window, place)| (*window, *place)));
            }
            let charged = answered.ticket.and_then(|ticket| self.charged.get(&(ticket, applied.counter))).copied();
            let enough = charged.filter(|_| !by_lease);
            let enough = enough.or_else(|| places.iter().copied().find(|place| free(*place) >= cost));
            // A lease has the units of several grants, which may be of two windows. Those that end first are spent first.
            places.sort_by_key(|(window, place)| window.end_of(*place));
            let mut rest = cost;
            let mut parts: Vec<((Window, SubWindow), i64)> = Vec::new();
            for place in places.into_iter().filter(|_| by_lease && enough.is_none()) {
                let units = free(place).clamp(0, rest);
                if units > 0 && parts.iter().all(|(other, _)| *other != place) {
                    parts.push((place, units));
                    rest -= units;
                }
            }
            if rest > 0 {
                parts.push((enough.unwrap_or((own, place(own))), rest));
            }
            for ((window, place), units) in &parts {
                *self.free.entry((agent, applied.counter, *window, *place)).or_default() -= units;
            }
            if !by_lease {
                continue;
            }
            self.compared += 1;
            let lacking =
                parts.iter().map(|((window, place), _)| self.free[&(agent, applied.counter, *window, *place)]);
            if let Some(lacking) = lacking.min().filter(|lacking| *lacking < 0) {
                return Err(format!(
                    "never-over: agent {agent} spends {} leased units too much under `{rule}`",
                    -lacking
                ));
            }
            let is_other = |window: Window, place| {
                let own = window.sub_window(now);
                place < own || place > own && !may_be_ahead(window)
            };
            // The answer of the store tells the instant of its step, however late the agent takes it.
            let is_answered = answered.ticket.is_some() && answered.error.is_none();
            if is_noticed && !is_answered && parts.iter().any(|((window, place), _)| is_other(*window, *place)) {
                return Err(format!(
                    "never-over: agent {agent} admits by a lease at {:?} under `{rule}`, but it is {now:?}",
                    decision.at
                ));
            }
        }
        Ok(())
    }
}

fn signed(units: u64) -> i64 {
    i64::try_from(units).unwrap_or(i64::MAX)
}
