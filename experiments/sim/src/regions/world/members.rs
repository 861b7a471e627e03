//! Processes of regions and coordinators: their starts, their ticks, and the effects of their engines.

use std::collections::BTreeSet;

use tollgate_aggregator_engine::budget::coordinator::Coordinator;
use tollgate_aggregator_engine::budget::region::{
    RegionBudgets, RegionEffect, RegionInput, RegionMember, RegionPartitions,
};
use tollgate_core::counter::Partition;

use super::event::{Event, LedgerMember, WriteAnswer};
use super::log::LATE_MS;
use super::state::{RegionsWorld, STORE_MS_MAX, rule_name};
use crate::regions::mistake::RegionMistake;
use crate::regions::process::{Process, ProcessEngine};
use crate::regions::region_store::{StoreTime, WriteOrigin};
use crate::regions::settings::ProcessFaults;

impl RegionsWorld {
    pub(super) fn new_process(&mut self, region: Option<usize>) -> Process {
        self.lives += 1;
        let writer = self.rng.u64(..);
        // Coordinators run in the home region.
        let settings = &self.regions[region.unwrap_or(0)].settings;
        let engine = if region.is_some() {
            let member = RegionMember { region: settings.name.into(), writer, key_fingerprint: Self::FINGERPRINT };
            ProcessEngine::Region(Box::new(RegionBudgets::new(member)))
        } else {
            ProcessEngine::Coordinator(Box::new(Coordinator::new(writer)))
        };
        let drift_ppm_max = settings.drift_ppm_max;
        let clock_stops = region.is_some() && self.mistake == Some(RegionMistake::ClockStops);
        Process::new(engine, self.lives, drift_ppm_max, clock_stops, &mut self.rng)
    }

    pub(super) fn restart(&mut self, member: LedgerMember) {
        let region = match member {
            LedgerMember::Region(region, _) => region,
            LedgerMember::Coordinator(_) => 0,
        };
        if let Some(until_ms) = self.paused_until(region) {
            self.queue.push(until_ms, Event::Restart(member));
            return;
        }
        match member {
            LedgerMember::Region(region, process) => {
                self.regions[region].processes[process] = self.new_process(Some(region));
            }
            LedgerMember::Coordinator(number) => self.coordinators[number] = self.new_process(None),
        }
        if self.now_ms < self.settings.calm_from_ms {
            self.schedule_restart(member);
        }
        self.catch_up(member);
    }

    /// Schedules the next crash of a member. Its successor has read nothing.
    pub(super) fn schedule_restart(&mut self, member: LedgerMember) {
        let every_ms = self.faults_of(member).restart_every_ms;
        if every_ms > 0 {
            let next_ms = self.now_ms + self.rng.u64(1..=2 * every_ms);
            self.queue.push(next_ms, Event::Restart(member));
        }
    }

    fn faults_of(&self, member: LedgerMember) -> &ProcessFaults {
        match member {
            LedgerMember::Region(region, _) => &self.regions[region].settings.faults,
            LedgerMember::Coordinator(_) => &self.settings.coordinator_faults,
        }
    }

    pub(super) fn tick(&mut self, member: LedgerMember) {
        self.queue.push(self.now_ms + self.settings.tick_ms, Event::Tick(member));
        let Some(process) = self.process(member) else { return };
        if process.suspended_until_ms > self.now_ms {
            return;
        }
        // A write before which it was suspended may still be on its way.
        let is_answered = process.suspended_until_ms.max(process.writes_after_ms + STORE_MS_MAX) < self.now_ms;
        match member {
            LedgerMember::Region(region, _) => {
                let is_away = self.regions[region].settings.bus_away_until(self.now_ms).is_some();
                let own: BTreeSet<Partition> = [0].into();
                let part = RegionPartitions {
                    partitions: 1,
                    counted: if is_away { BTreeSet::new() } else { own.clone() },
                    own,
                };
                self.poll(member, RegionInput::Assigned(&part));
                self.poll(member, RegionInput::StoreTime(self.store_time(region).clock));
                self.poll(member, RegionInput::Tick);
                let now_ms = self.now_ms;
                if let Some(process) = self.process_mut(member).filter(|_| is_answered) {
                    let acts_ms = process.suspended_until_ms.max(now_ms) + STORE_MS_MAX;
                    process.saw_step_ms.get_or_insert(acts_ms);
                }
            }
            LedgerMember::Coordinator(number) => {
                let now_ms = self.now_ms;
                let proposed = self.settings.terms.iter().rev().find(|change| change.at_ms <= now_ms).cloned();
                let process = &mut self.coordinators[number];
                let now = process.time(now_ms);
                let ProcessEngine::Coordinator(coordinator) = &mut process.engine else { return };
                let mut entries = coordinator.tick(now);
                entries.extend(proposed.and_then(|change| coordinator.propose_terms(&change.terms)));
                for record in entries {
                    self.send(member, record);
                }
            }
        }
    }

    pub(super) fn poll(&mut self, member: LedgerMember, input: RegionInput<'_>) {
        let now_ms = self.now_ms;
        let Some(process) = self.process_mut(member) else { return };
        let now = process.time(now_ms);
        let ProcessEngine::Region(budgets) = &mut process.engine else { return };
        let mut effects = Vec::new();
        budgets.poll(now, input, &mut effects);
        for effect in effects {
            self.execute(member, effect);
        }
    }

    /// Executes an effect, perhaps after a suspension that begins between the decision and the effect.
    pub(super) fn execute(&mut self, member: LedgerMember, effect: RegionEffect) {
        let LedgerMember::Region(region, process) = member else { return };
        let (counter, write) = match effect {
            RegionEffect::Append(record) => return self.send(member, record),
            RegionEffect::Write { counter, write, .. } => (Some(counter), write),
            RegionEffect::WriteFloor { write, .. } => (None, write),
        };
        let from_ms = self.suspended_until(member);
        let at_ms = from_ms + self.rng.u64(0..=STORE_MS_MAX);
        let is_late = self.mistake == Some(RegionMistake::LimitLate) && counter.is_some();
        let own = &mut self.regions[region].processes[process];
        let late_ms = if is_late { LATE_MS } else { 0 };
        let (at_ms, life) = (at_ms.max(own.writes_after_ms) + late_ms, own.life);
        own.writes_after_ms = at_ms - late_ms;
        let ProcessEngine::Region(budgets) = &own.engine else { return };
        let window_ms = budgets.ledger().rules().next().map_or(0, |terms| terms.window_ms);
        let StoreTime { clock, steady } = self.store_time(region);
        let origin = WriteOrigin { life, window_ms, ends: steady.plus_ms(write.limit.until.ms_since(clock)) };
        self.queue.push(at_ms, Event::Write { region, process, origin, counter, write });
    }

    /// Returns the instant from which a member executes its next effect.
    pub(super) fn suspended_until(&mut self, member: LedgerMember) -> u64 {
        let now_ms = self.now_ms;
        let faults = self.faults_of(member).clone();
        let is_suspended = now_ms < self.settings.calm_from_ms && self.rng.u64(0..1_000) < faults.suspended_permille;
        let calm_ms = self.settings.calm_from_ms.saturating_sub(now_ms);
        let for_ms = self.rng.u64(0..=faults.suspended_ms_max).min(calm_ms);
        let Some(process) = self.process_mut(member) else { return now_ms };
        if is_suspended && process.suspended_until_ms <= now_ms {
            process.suspend(now_ms, for_ms);
            self.queue.push(now_ms + for_ms, Event::Resume(member));
        }
        self.process(member).map_or(now_ms, |process| process.suspended_until_ms.max(now_ms))
    }

    pub(super) fn written(&mut self, member: LedgerMember, event: &Event) {
        let Event::Written { answer, store, .. } = event else { return };
        self.poll(member, RegionInput::StoreTime(*store));
        match *answer {
            WriteAnswer::Counter(counter, answer) => self.poll(member, RegionInput::Written { counter, answer }),
            WriteAnswer::Floor(limit) => {
                let rule = rule_name(&self.settings);
                self.poll(member, RegionInput::FloorWritten { rule: &rule, limit });
            }
        }
    }

    pub(super) fn process(&self, member: LedgerMember) -> Option<&Process> {
        match member {
            LedgerMember::Region(region, process) => self.regions[region].processes.get(process),
            LedgerMember::Coordinator(number) => self.coordinators.get(number),
        }
    }

    pub(super) fn process_mut(&mut self, member: LedgerMember) -> Option<&mut Process> {
        match member {
            LedgerMember::Region(region, process) => self.regions[region].processes.get_mut(process),
            LedgerMember::Coordinator(number) => self.coordinators.get_mut(number),
        }
    }
}
