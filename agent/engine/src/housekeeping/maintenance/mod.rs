//! The work of an agent beside its calls, as a state machine: probing and backfilling the store, opening lost counters
//! again, announcing the agent there, reading published rules, saving the fleet's agents, housekeeping, and notices to
//! the log.
//!
//! [`Maintenance::poll`] takes an input and returns effects; a shell (`agent/src/runtime/maintenance_task.rs`, or the
//! simulator) executes them and reports each result as an input. It applies the deadline, so every request is answered, and
//! at most one request of each kind is outstanding. The store is probed until it answers first, while the breaker is open,
//! while unsynced units wait for it, after a miss, and otherwise each ten seconds. A probe is a ping and then the backfill: no
//! call may be admitted by counts that lack the unsynced units, nor by those of a store that has lost its own. An answer in
//! which calls would be late ends no outage. Between its duties, a shell sleeps until [`Maintenance::wake_at`].

mod witness;
mod work;
mod probe_pace;
mod state;
mod probe;
mod losses;
#[cfg(test)]
mod tests;

use std::task::Waker;

use tollgate_core::clock::Timestamp;
use tollgate_core::counter::StoreError;
use tollgate_core::messages::presence::{INTERVAL_MS, PresenceSet};

use crate::fleet::AgentIds;
use crate::request::Output;
use state::{LastAnswer, Probe};
pub use state::{Maintenance, MaintenanceSettings};
pub use witness::{WITNESS_KEPT_MS, WitnessAnswer};
pub use work::{MaintenanceEffect, MaintenanceInput, MaintenanceRequest};

const HOUSEKEEPING_INTERVAL_MS: u64 = 100;
/// Interval at which a store that answers is pinged, whatever else happens, in ms. The pings read its time, and an
/// agent without calls learns of its loss in no other way.
const RESYNC_INTERVAL_MS: u64 = 10_000;
/// Interval at which the published rules are read from the store, in ms.
const RULES_INTERVAL_MS: u64 = 10_000;
const RULES_RETRY_INTERVAL_MS: u64 = 5_000;
/// Number of failures in a row after which an operator is told that rules cannot be followed.
const RULES_MISSES_MAX: u32 = 3;
/// Interval at which new members of the fleet are saved, in ms.
const SAVE_INTERVAL_MS: u64 = 10_000;

impl Maintenance {
    /// Sets the waker of a shell that sleeps until [`Maintenance::wake_at`]. It is woken when the breaker opens, when the
    /// first unsynced units appear, and when a notice waits.
    pub fn set_waker(&mut self, waker: Waker) {
        self.shell = Some(waker);
    }

    /// Applies an input and appends the effects that follow from it.
    pub fn poll(&mut self, now: Timestamp, input: MaintenanceInput, effects: &mut Vec<MaintenanceEffect>) {
        match input {
            MaintenanceInput::Tick => {}
            MaintenanceInput::Pinged { answer: Ok(store_now), is_late } => {
                if let Some(probe) = &mut self.probe {
                    self.engine.note_store_time(probe.ping_sent, now, store_now);
                    (probe.is_late, probe.ping_took_ms) = (is_late, now.ms_since(probe.ping_sent));
                }
                if !is_late {
                    self.engine.breaker.pinged();
                }
                self.follow_ping(now, effects);
            }
            MaintenanceInput::Pinged { answer: Err(error), .. } => self.probe_missed(now, error),
            MaintenanceInput::Backfilled(mut request, answer) => match self.engine.finish(now, &mut request, answer) {
                Output::Backfilled(Err(error)) => self.probe_missed(now, error),
                _ => self.backfill_next(now, effects),
            },
            MaintenanceInput::Witnessed(answer) => self.witnessed(now, answer, effects),
            MaintenanceInput::Reopened(request, answer) => self.reopened(now, request, answer),
            MaintenanceInput::Announced(answer) => {
                self.announcing = false;
                self.announced(now, answer);
            }
            MaintenanceInput::RulesRead(is_answered) => {
                self.reading_rules = false;
                if !is_answered {
                    self.published.read = None;
                }
                self.rules_read(now, is_answered);
            }
        }
        self.begin_what_is_due(now, effects);
    }

    /// Returns the time of the next tick, if no other input comes earlier, and arms the waker.
    ///
    /// A request that the store does not answer can bring it forward: a shell without a waker asks again after each one.
    #[must_use]
    pub fn wake_at(&self, now: Timestamp) -> Timestamp {
        // Before the look at the work: either it is seen here, or the operation that makes it wakes the shell.
        self.shell.iter().for_each(|shell| self.engine.maintenance_waker.register(shell));
        let due_at = self.due().into_iter().flatten().min();
        due_at.unwrap_or_default().max(now.plus_ms(1))
    }

    /// Returns the times from which the duties are due that are wanted now: probe, housekeeping, witness, lost counters,
    /// announcement, rules, the fleet's agents, notices.
    fn due(&self) -> [Option<Timestamp>; 8] {
        let store_answers = self.store_answers();
        let needs_probe =
            self.answered == LastAnswer::Missing || self.engine.needs_store() || self.engine.breaker.is_suspected();
        let probe_at = if needs_probe { self.pace.probe_at } else { self.resync_at };
        let has_store = self.engine.has_store();
        let announces = self.settings.announces && !self.announcing && store_answers;
        let announce_at =
            if self.engine.announced_rules() == self.announced { self.announce_at } else { Timestamp::default() };
        let [witness, reopening] = self.loss_duties_due().map(|due_at| due_at.filter(|_| store_answers));
        let reads_rules = self.settings.follows_rules && !self.reading_rules;
        [
            (has_store && self.probe.is_none()).then_some(probe_at),
            Some(self.housekeeping_at),
            witness,
            reopening,
            announces.then_some(announce_at),
            reads_rules.then_some(self.rules_at),
            self.agents_to_save().map(|_| self.save_at),
            self.engine.notices.lock().due_at(),
        ]
    }

    fn begin_what_is_due(&mut self, now: Timestamp, effects: &mut Vec<MaintenanceEffect>) {
        let is_due = |at: Option<Timestamp>| at.is_some_and(|at| now >= at);
        let [probe, housekeeping, witness, reopen, announcement, rules, save, _] = self.due().map(is_due);
        if probe {
            let is_of_miss = self.answered != LastAnswer::Missing && !self.engine.needs_store();
            self.probe = Some(Probe { ping_sent: now, is_of_miss, ..Probe::default() });
            self.resync_at = now.plus_ms(RESYNC_INTERVAL_MS);
            self.engine.breaker.pinged();
            let (in_time, deadline) = self.ping_deadlines();
            effects.push(MaintenanceEffect::Send(MaintenanceRequest::Ping { in_time, deadline }));
        }
        if housekeeping {
            self.housekeeping_at = now.plus_ms(HOUSEKEEPING_INTERVAL_MS);
            self.engine.tick(now);
        }
        self.begin_loss_duties(now, witness, reopen, effects);
        if announcement {
            self.announce_at = now.plus_ms(INTERVAL_MS);
            self.announcing = true;
            self.announced = self.engine.announced_rules();
            effects.push(MaintenanceEffect::Send(MaintenanceRequest::Announce(self.announced)));
        }
        if rules && self.store_answers() {
            self.rules_at = now.plus_ms(RULES_INTERVAL_MS);
            self.reading_rules = true;
            self.published.read = self.published.told;
            effects.push(MaintenanceEffect::Send(MaintenanceRequest::ReadRules));
        } else if rules {
            self.rules_read(now, false);
        }
        if save && let Some(agents) = self.agents_to_save() {
            self.save_at = now.plus_ms(SAVE_INTERVAL_MS);
            self.saved = Some(agents.clone());
            effects.push(MaintenanceEffect::SaveAgents(agents));
        }
        // A change comes with a notice, which wakes the shell.
        let emergency = self.engine.emergency();
        if let Some(switch) = emergency.filter(|_| self.saved_emergency != emergency) {
            self.saved_emergency = emergency;
            effects.push(MaintenanceEffect::SaveEmergency(switch));
        }
        self.engine.notices.lock().take(now, |notice| effects.push(MaintenanceEffect::Notify(notice)));
    }

    /// Follows the answer to an announcement. Rules that were published since the last reading are read at once.
    fn announced(&mut self, now: Timestamp, answer: Result<PresenceSet, StoreError>) {
        self.engine.fleet.announced(now, answer.as_ref().ok());
        let Ok(set) = answer else {
            // An agent without calls would not notice otherwise that the store is unavailable.
            self.answered = LastAnswer::Missing;
            self.announced = None;
            return;
        };
        self.engine.note_registry(&set);
        self.published.told = set.published;
        if self.published.told.is_some() && self.published.told != self.published.read {
            self.rules_at = now;
        }
    }

    /// Records whether published rules were read from the store. While the bus can be used, they come from the bus.
    fn rules_read(&mut self, now: Timestamp, is_answered: bool) {
        if !is_answered {
            self.rules_at = now.plus_ms(RULES_RETRY_INTERVAL_MS);
        }
        let is_reachable = is_answered || self.engine.is_bus_connected();
        self.rules_missed = if is_reachable { 0 } else { self.rules_missed + 1 };
        self.engine.note_rules_source(self.rules_missed < RULES_MISSES_MAX);
    }

    fn agents_to_save(&self) -> Option<AgentIds> {
        self.engine.known_agents().filter(|agents| self.saved.as_ref() != Some(agents))
    }
}
