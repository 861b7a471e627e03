//! The duties after the store has lost units: the witness, and counters that are opened again.

use std::mem;

use tollgate_core::clock::Timestamp;
use tollgate_core::counter::{PrimaryIndex, StoreError};

use super::state::{LastAnswer, LossDuties, Maintenance, PrimaryDuties};
use super::witness::WitnessAnswer;
use super::work::{MaintenanceEffect, MaintenanceRequest};
use crate::request::{Operation, Output, Progress, StepAnswers, StoreRequest};

/// Time after which counters are tried again that could not be opened, in ms.
const REOPEN_PAUSE_MS: u64 = 50;

impl Maintenance {
    /// Raises the witness; returns false if there is none, or if an answer is awaited.
    pub(super) fn raise_witness(
        &mut self,
        now: Timestamp,
        primary: PrimaryIndex,
        effects: &mut Vec<MaintenanceEffect>,
    ) -> bool {
        let witness = &mut self.primaries[primary.index()].losses.witness;
        let raises = self.settings.witnesses && witness.due_at().is_some();
        if raises {
            effects.push(MaintenanceEffect::Send(MaintenanceRequest::Witness(primary, witness.next(now))));
        }
        raises
    }

    /// Follows the answer to the witness: a store that has lost units is not believed. During a probe, the backfill follows.
    pub(super) fn witnessed(
        &mut self,
        now: Timestamp,
        primary: PrimaryIndex,
        answer: Result<WitnessAnswer, StoreError>,
        effects: &mut Vec<MaintenanceEffect>,
    ) {
        let duties = &mut self.primaries[primary.index()];
        let PrimaryDuties { losses: LossDuties { witness, slot_changes, .. }, probe, .. } = duties;
        // The number may be under another key now, whose slot the primary holds.
        let changes = self.engine.store.slot_changes();
        let has_moved = mem::replace(slot_changes, changes) != changes;
        if let Ok(answer) = answer {
            // Before the loss: its instant is by the new time, if the clock was set.
            self.engine.note_primary_time(primary, witness.sent_at(), now, answer.at);
            if witness.is_of_another_run(&answer) {
                self.engine.store.end_leases(primary);
            }
        }
        // A witness that was raised before the ping says nothing about the probe.
        let is_of_probe = probe.as_mut().is_some_and(|probe| mem::take(&mut probe.awaits_witness));
        let loss = witness.answered(now, answer.ok().filter(|_| !has_moved));
        if has_moved {
            witness.forget();
        }
        match answer {
            Ok(_) => {
                if let Some(loss) = loss {
                    self.engine.store.note_loss(primary, loss);
                }
                if is_of_probe {
                    self.backfill_next(now, primary, effects);
                }
            }
            Err(error) if is_of_probe => self.probe_missed(now, primary, error),
            // An agent without calls would not notice otherwise that the store is unavailable.
            Err(_) => self.duties(primary).answered = LastAnswer::Missing,
        }
    }

    /// Sends the next lost counters. If none can be opened yet, they are tried again after a pause. The witness tells
    /// at once if other counters are lost, too.
    pub(super) fn reopen_next(&mut self, now: Timestamp, primary: PrimaryIndex, effects: &mut Vec<MaintenanceEffect>) {
        self.raise_witness(now, primary, effects);
        if let Progress::NeedsStore(request) = self.engine.begin(now, Operation::Reopen(primary)) {
            self.duties(primary).losses.is_reopening = true;
            effects.push(MaintenanceEffect::Send(MaintenanceRequest::Reopen(request)));
        } else {
            self.duties(primary).losses.reopen_at = now.plus_ms(REOPEN_PAUSE_MS);
        }
    }

    pub(super) fn reopened(&mut self, now: Timestamp, mut request: StoreRequest, answers: &StepAnswers) {
        let primary = request.primary();
        self.duties(primary).losses.is_reopening = false;
        if let Output::Reopened(Err(_)) = self.engine.finish_steps(now, &mut request, answers) {
            self.duties(primary).losses.reopen_at = now.plus_ms(REOPEN_PAUSE_MS);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tollgate_core::rules::RuleSet;

    use super::super::{MaintenanceInput, MaintenanceSettings};
    use super::*;
    use crate::engine::Engine;
    use crate::engine_settings::EngineSettings;
    use crate::report::Notice;

    const START: Timestamp = Timestamp::from_ms(1_000_000);

    /// I12: an agent knows that the store has lost its units before a call uses the store again.
    #[test]
    fn a_store_that_has_lost_its_units_is_found_out_before_the_breaker_closes() {
        let engine = Arc::new(Engine::new(EngineSettings::new("a", START), RuleSet::none_yet()));
        let settings = MaintenanceSettings { announces: false, witnesses: true, follows_rules: false };
        let mut maintenance = Maintenance::new(engine.clone(), settings);
        let mut notices = Vec::new();
        let mut poll = |ms, input| {
            let (mut effects, mut requests) = (Vec::new(), 0);
            maintenance.poll(START.plus_ms(ms), input, &mut effects);
            for effect in effects {
                match effect {
                    MaintenanceEffect::Notify(notice) => notices.push(notice),
                    MaintenanceEffect::Send(MaintenanceRequest::Witness(..)) => requests += 1,
                    _ => {}
                }
            }
            requests
        };
        for ms in [0, 500] {
            engine.lose_store();
            poll(ms, MaintenanceInput::Tick);
            let pinged = MaintenanceInput::Pinged {
                primary: PrimaryIndex::ONLY,
                answer: Ok(START.plus_ms(ms + 1)),
                is_late: false,
            };
            assert_eq!(poll(ms + 1, pinged), 1);
            assert!(engine.is_degraded(), "no call uses the store yet");
            let answer = WitnessAnswer { at: START.plus_ms(ms + 2), before: None, run_id: None };
            poll(ms + 2, MaintenanceInput::Witnessed(PrimaryIndex::ONLY, Ok(answer)));
        }
        // The second outage is held back.
        let unavailable = Notice::StoreUnavailable(StoreError::Unreachable);
        assert_eq!(notices, [unavailable, Notice::StoreRecovered, Notice::StoreLost]);
        assert!(!engine.is_degraded());
    }

    /// C5: another run id of the store ends all leases, and nothing else in an answer to the witness does.
    #[test]
    fn another_run_of_the_store_ends_all_leases() {
        let engine = Arc::new(Engine::new(EngineSettings::new("a", START), RuleSet::none_yet()));
        let settings = MaintenanceSettings { announces: false, witnesses: true, follows_rules: false };
        let mut maintenance = Maintenance::new(engine.clone(), settings);
        // Run id of each answer, and true if it ends the leases.
        let answers =
            [(None, false), (Some(1), false), (Some(1), false), (None, false), (Some(1), false), (Some(2), true)];
        for (number, (run_id, ends)) in (0_u64..).zip(answers) {
            let (at, epoch) = (START.plus_ms(1_000 * number), engine.store.lease_epoch(PrimaryIndex::ONLY));
            let before = Some(number).filter(|number| *number > 0);
            maintenance.duties(PrimaryIndex::ONLY).losses.witness.next(at);
            let answer = WitnessAnswer { at, before, run_id };
            maintenance.poll(at, MaintenanceInput::Witnessed(PrimaryIndex::ONLY, Ok(answer)), &mut Vec::new());
            assert_eq!(engine.store.lease_epoch(PrimaryIndex::ONLY) != epoch, ends, "answer {number}");
        }
    }
}
