//! Duties of the maintenance: when each is due, and its begin.
//!
//! | duty | due | not while |
//! | --- | --- | --- |
//! | probe of each primary | at the pace of the probes while the store must be looked for, else each ten seconds | a probe is under way |
//! | housekeeping | each 100 ms | |
//! | witness at each primary | each second | an answer is awaited; the store does not answer |
//! | reopening at each primary | when a lost counter waits | as the witness |
//! | announcement | each second, and when other rules are in force | as the witness |
//! | reading of rules | each ten seconds, and when newer ones are told | an answer is awaited |
//! | saving of agents | each ten seconds, if the members have changed | |
//! | notices | when one waits | |

use tollgate_core::clock::Timestamp;
use tollgate_core::counter::PrimaryIndex;
use tollgate_core::messages::presence::INTERVAL_MS;

use super::state::{LastAnswer, LossDuties, Maintenance, Probe};
use super::work::{MaintenanceEffect, MaintenanceRequest};
use crate::fleet::AgentIds;

const HOUSEKEEPING_INTERVAL_MS: u64 = 100;
/// Interval at which a store that answers is pinged, whatever else happens, in ms. The pings read its time, and an
/// agent without calls learns of its loss in no other way.
const RESYNC_INTERVAL_MS: u64 = 10_000;
/// Interval at which the published rules are read from the store, in ms.
const RULES_INTERVAL_MS: u64 = 10_000;
/// Interval at which new members of the fleet are saved, in ms.
const SAVE_INTERVAL_MS: u64 = 10_000;

/// Kind of work that is due at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Duty {
    Probe(PrimaryIndex),
    Housekeeping,
    Witness(PrimaryIndex),
    Reopening(PrimaryIndex),
    Announcement,
    RulesReading,
    AgentsSaving,
    Notices,
}

impl Maintenance {
    /// Returns the time from which the next duty is due; none if none is wanted now.
    pub(super) fn next_due_at(&self) -> Option<Timestamp> {
        self.all_duties().filter_map(|duty| self.due_at(duty)).min()
    }

    /// Returns all duties, in the order in which they are begun.
    fn all_duties(&self) -> impl Iterator<Item = Duty> {
        let primaries = || self.engine.store.used_primaries().filter(|primary| primary.index() < self.primaries.len());
        let (probes, witnesses) = (primaries().map(Duty::Probe), primaries().map(Duty::Witness));
        let others = [Duty::Announcement, Duty::RulesReading, Duty::AgentsSaving, Duty::Notices];
        probes.chain([Duty::Housekeeping]).chain(witnesses).chain(primaries().map(Duty::Reopening)).chain(others)
    }

    /// Begins the duties that are due, in their order.
    pub(super) fn begin_what_is_due(&mut self, now: Timestamp, effects: &mut Vec<MaintenanceEffect>) {
        let due: Vec<Duty> = self.all_duties().filter(|duty| self.due_at(*duty).is_some_and(|at| now >= at)).collect();
        for duty in due {
            self.begin(duty, now, effects);
        }
        // A change comes with a notice, which wakes the shell.
        let emergency = self.engine.emergency();
        if let Some(switch) = emergency.filter(|_| self.saved_emergency != emergency) {
            self.saved_emergency = emergency;
            effects.push(MaintenanceEffect::SaveEmergency(switch));
        }
        self.engine.reports.take_notices(now, |notice| effects.push(MaintenanceEffect::Notify(notice)));
    }

    /// Returns the time from which a duty is due; none if it is not wanted now.
    fn due_at(&self, duty: Duty) -> Option<Timestamp> {
        let (engine, settings) = (&self.engine, &self.settings);
        match duty {
            Duty::Probe(primary) => {
                let duties = &self.primaries[primary.index()];
                let is_wanted = duties.answered == LastAnswer::Missing
                    || engine.store.is_primary_needed(primary)
                    || engine.store.breaker(primary).is_suspected();
                let probe_at = if is_wanted { duties.pace.probe_at } else { duties.resync_at };
                (engine.store.is_outside() && duties.probe.is_none()).then_some(probe_at)
            }
            Duty::Housekeeping => Some(self.housekeeping_at),
            Duty::Witness(primary) => {
                let witness = &self.primaries[primary.index()].losses.witness;
                witness.due_at().filter(|_| settings.witnesses && self.primary_answers(primary))
            }
            Duty::Reopening(primary) => {
                let due_at = engine.store.outbox(primary).reopening_due_at()?;
                let LossDuties { is_reopening, reopen_at, .. } = &self.primaries[primary.index()].losses;
                (!is_reopening && self.primary_answers(primary)).then(|| due_at.max(*reopen_at))
            }
            Duty::Announcement => {
                let is_news = engine.rules.announced() != self.announced;
                let announce_at = if is_news { Timestamp::default() } else { self.announce_at };
                (settings.announces && !self.announcing && self.store_answers()).then_some(announce_at)
            }
            Duty::RulesReading => (settings.follows_rules && !self.reading_rules).then_some(self.rules_at),
            Duty::AgentsSaving => self.agents_to_save().map(|_| self.save_at),
            Duty::Notices => engine.reports.notices_due_at(),
        }
    }

    fn begin(&mut self, duty: Duty, now: Timestamp, effects: &mut Vec<MaintenanceEffect>) {
        match duty {
            Duty::Probe(primary) => {
                let is_needed = self.engine.store.is_primary_needed(primary);
                let duties = self.duties(primary);
                let is_of_miss = duties.answered != LastAnswer::Missing && !is_needed;
                duties.probe = Some(Probe { ping_sent: now, is_of_miss, ..Probe::default() });
                duties.resync_at = now.plus_ms(RESYNC_INTERVAL_MS);
                self.engine.store.breaker(primary).pinged();
                let (in_time, deadline) = self.ping_deadlines(primary);
                effects.push(MaintenanceEffect::Send(MaintenanceRequest::Ping { primary, in_time, deadline }));
            }
            Duty::Housekeeping => {
                self.housekeeping_at = now.plus_ms(HOUSEKEEPING_INTERVAL_MS);
                self.engine.keep_house(now);
            }
            Duty::Witness(primary) => {
                self.raise_witness(now, primary, effects);
            }
            Duty::Reopening(primary) => self.reopen_next(now, primary, effects),
            Duty::Announcement => {
                self.announce_at = now.plus_ms(INTERVAL_MS);
                self.announcing = true;
                self.announced = self.engine.rules.announced();
                effects.push(MaintenanceEffect::Send(MaintenanceRequest::Announce(self.announced)));
            }
            Duty::RulesReading if self.store_answers() => {
                self.rules_at = now.plus_ms(RULES_INTERVAL_MS);
                self.reading_rules = true;
                self.published.read = self.published.told;
                effects.push(MaintenanceEffect::Send(MaintenanceRequest::ReadRules));
            }
            Duty::RulesReading => self.rules_read(now, false),
            Duty::AgentsSaving => {
                if let Some(agents) = self.agents_to_save() {
                    self.save_at = now.plus_ms(SAVE_INTERVAL_MS);
                    self.saved = Some(agents.clone());
                    effects.push(MaintenanceEffect::SaveAgents(agents));
                }
            }
            // They are handed out after all other duties, which may make some.
            Duty::Notices => {}
        }
    }

    fn agents_to_save(&self) -> Option<AgentIds> {
        self.engine.known_agents().filter(|agents| self.saved.as_ref() != Some(agents))
    }
}
