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
mod loss_duties;
mod duty;
#[cfg(test)]
mod tests;

use std::task::Waker;

use tollgate_core::clock::Timestamp;
use tollgate_core::counter::StoreError;
use tollgate_core::messages::presence::PresenceSet;

use crate::request::Output;
use state::LastAnswer;
pub use state::{Maintenance, MaintenanceSettings};
pub use witness::{WITNESS_KEPT_MS, WitnessAnswer};
pub use work::{MaintenanceEffect, MaintenanceInput, MaintenanceRequest};

const RULES_RETRY_INTERVAL_MS: u64 = 5_000;
/// Number of failures in a row after which an operator is told that rules cannot be followed.
const RULES_MISSES_MAX: u32 = 3;

impl Maintenance {
    /// Sets the waker of a shell that sleeps until [`Maintenance::wake_at`]. It is woken when the breaker opens, when the
    /// first unsynced units appear, and when a notice waits.
    pub fn set_waker(&mut self, waker: Waker) {
        self.shell = Some(waker);
    }

    /// Applies an input and appends the effects that follow from it.
    pub fn poll(&mut self, now: Timestamp, input: MaintenanceInput, effects: &mut Vec<MaintenanceEffect>) {
        self.meet_primaries();
        match input {
            MaintenanceInput::Tick => {}
            MaintenanceInput::Pinged { primary, answer: Ok(store_now), is_late } => {
                if let Some(probe) = &mut self.primaries[primary.index()].probe {
                    self.engine.note_primary_time(primary, probe.ping_sent, now, store_now);
                    (probe.is_late, probe.ping_took_ms) = (is_late, now.ms_since(probe.ping_sent));
                }
                if !is_late {
                    self.engine.store.breaker(primary).pinged();
                }
                self.follow_ping(now, primary, effects);
            }
            MaintenanceInput::Pinged { primary, answer: Err(error), .. } => self.probe_missed(now, primary, error),
            MaintenanceInput::Backfilled(mut request, answers) => {
                let primary = request.primary();
                match self.engine.finish_steps(now, &mut request, &answers) {
                    Output::Backfilled(Err(error)) => self.probe_missed(now, primary, error),
                    _ => self.backfill_next(now, primary, effects),
                }
            }
            MaintenanceInput::Witnessed(primary, answer) => self.witnessed(now, primary, answer, effects),
            MaintenanceInput::Reopened(request, answers) => self.reopened(now, request, &answers),
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
        self.shell.iter().for_each(|shell| self.engine.reports.register_maintenance(shell));
        self.next_due_at().unwrap_or_default().max(now.plus_ms(1))
    }

    /// Follows the answer to an announcement. Rules that were published since the last reading are read at once.
    fn announced(&mut self, now: Timestamp, answer: Result<PresenceSet, StoreError>) {
        self.engine.fleet.announced(now, answer.as_ref().ok());
        let Ok(set) = answer else {
            // An agent without calls would not notice otherwise that the store is unavailable. It announces itself at once when it answers.
            // Of several primaries, others may answer meanwhile, so the next announcement is due at the usual time.
            if let [only] = &mut self.primaries[..] {
                only.answered = LastAnswer::Missing;
                self.announced = None;
            }
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
        self.engine.rules.note_source(self.rules_missed < RULES_MISSES_MAX);
    }
}
