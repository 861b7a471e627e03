//! The world of simulated regions: events, and the check of the invariant after each of them.

mod event;
mod state;
mod callers;
mod checks;
mod log;
mod members;
mod reading;
mod stores;

use std::ops::Range;

use fastrand::Rng;
use tollgate_aggregator_engine::budget::ledger::Ledger;

use super::mistake::RegionMistake;
use super::outcome::RegionsOutcome;
use super::queue::EventQueue;
use super::region_store::RegionStore;
use super::settings::RegionsSettings;
use event::{Event, LedgerMember, WriteAnswer};
use state::{CHECKED_ALWAYS_MAX, RegionSim, STORE_MS_MAX, digest};

pub use state::{RegionsWorld, counter_id};

/// Interval in which the units of the regions are noted, in ms.
const SAMPLED_EVERY_MS: u64 = 1_000;

impl RegionsWorld {
    /// Fingerprint of the digest key of all regions.
    pub const FINGERPRINT: u64 = 42;

    /// Creates a run.
    #[must_use]
    pub fn new(settings: RegionsSettings, mistake: Option<RegionMistake>) -> Self {
        let regions = (settings.regions.iter())
            .map(|region| RegionSim {
                settings: region.clone(),
                store: RegionStore::default(),
                stepped_ms: 0,
                forward_ms: 0,
                processes: Vec::new(),
                mirror: Vec::new(),
                mirrored_ms: 0,
            })
            .collect();
        let counters = settings.counters as usize;
        let outcome = RegionsOutcome {
            seconds: vec![Vec::new(); settings.regions.len()],
            admitted: vec![Vec::new(); counters],
            calls: vec![Vec::new(); counters],
            ..RegionsOutcome::default()
        };
        let mut world = Self {
            rng: Rng::with_seed(settings.seed),
            mistake,
            now_ms: 0,
            queue: EventQueue::new(),
            truth: Ledger::default(),
            digests: vec![digest(&Ledger::default())],
            numbers: (0..settings.counters).map(|number| (counter_id(number), number)).collect(),
            held: vec![0; counters],
            regions,
            coordinators: Vec::new(),
            arrivals: vec![Vec::new(); settings.coordinators],
            lives: 0,
            outcome,
            settings,
        };
        world.start();
        world
    }

    /// Runs to the end, or to the first violation.
    #[must_use]
    pub fn run(mut self) -> RegionsOutcome {
        while let Some((at_ms, event)) = self.queue.pop() {
            if at_ms > self.settings.run_ms || self.outcome.violation.is_some() {
                break;
            }
            self.now_ms = at_ms;
            let checked = self.checked(&event);
            self.handle(event);
            checked.for_each(|counter| self.check_quota(counter));
        }
        self.outcome.entries = self.truth.len();
        let beyond = self.truth.counters().map(|(_, terms, budget)| budget.held_by_all().saturating_sub(terms.quota));
        self.outcome.beyond_at_end = beyond.max().unwrap_or(0);
        self.outcome
    }

    /// Returns the counters that are checked after an event.
    fn checked(&self, event: &Event) -> Range<u32> {
        if self.settings.counters <= CHECKED_ALWAYS_MAX {
            return 0..self.settings.counters;
        }
        let number = match event {
            Event::Call { region, plan } => Some(self.regions[*region].settings.callers[*plan].counter),
            Event::Charge { counter, .. } => Some(*counter),
            Event::Write { counter: Some(counter), .. } => self.numbers.get(counter).copied(),
            Event::Appended(record) => self.number_of(&record.entry),
            _ => None,
        };
        number.map_or(0..0, |number| number..number + 1)
    }

    fn start(&mut self) {
        self.queue.push(SAMPLED_EVERY_MS, Event::Sample);
        for number in 0..self.settings.coordinators {
            let process = self.new_process(None);
            self.coordinators.push(process);
            self.queue.push(1 + number as u64 * 7, Event::Tick(LedgerMember::Coordinator(number)));
            self.schedule_restart(LedgerMember::Coordinator(number));
        }
        for region in 0..self.regions.len() {
            for process in 0..self.regions[region].settings.processes {
                let new = self.new_process(Some(region));
                self.regions[region].processes.push(new);
                let member = LedgerMember::Region(region, process);
                let first_ms = self.rng.u64(1..=self.settings.tick_ms);
                self.queue.push(first_ms, Event::Tick(member));
                self.schedule_restart(member);
            }
            let faults = self.regions[region].settings.store_faults.clone();
            faults
                .steps
                .iter()
                .for_each(|(at_ms, by_ms)| self.queue.push(*at_ms, Event::Step { region, by_ms: *by_ms }));
            faults.losses.iter().for_each(|at_ms| self.queue.push(*at_ms, Event::Loss { region }));
            for (from_ms, until_ms) in self.regions[region].settings.machine_pauses.clone() {
                self.queue.push(from_ms, Event::Pause { region, until_ms });
            }
            for plan in 0..self.regions[region].settings.callers.len() {
                let from_ms = self.regions[region].settings.callers[plan].from_ms;
                self.schedule_call(region, plan, from_ms);
            }
        }
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Call { region, plan } => self.call(region, plan),
            Event::Charge { region, .. } | Event::Write { region, .. } if self.paused_until(region).is_some() => {
                let until_ms = self.paused_until(region).unwrap_or(self.now_ms);
                self.queue.push(until_ms, event);
            }
            Event::Charge { region, counter } => self.charge(region, counter),
            Event::Pause { region, until_ms } => self.pause(region, until_ms),
            Event::Counted { region, counter } => self.count(region, counter),
            Event::Step { region, by_ms } => self.step_clock(region, by_ms),
            Event::Loss { region } => self.regions[region].store.lose(),
            Event::Tick(member) => self.tick(member),
            Event::Appended(record) => self.append(record),
            Event::Mirrored { region, place } => {
                self.mirror(region, place);
                for process in 0..self.regions[region].processes.len() {
                    self.catch_up(LedgerMember::Region(region, process));
                }
            }
            Event::Write { region, process, origin, counter, write } => {
                let (store_now, life) = (self.store_time(region).clock, origin.life);
                if self.mistake == Some(RegionMistake::LimitDies) {
                    self.regions[region].store.forget_ended(store_now);
                }
                let is_fenced = self.mistake != Some(RegionMistake::FenceIgnored);
                let store = &mut self.regions[region].store;
                let answer = match counter {
                    Some(counter) => {
                        let mut answer = store.write(counter, store_now, &write, origin, is_fenced);
                        if self.mistake == Some(RegionMistake::GiveBackUnseen) {
                            answer.used = 0;
                        }
                        WriteAnswer::Counter(counter, answer)
                    }
                    None => WriteAnswer::Floor(store.write_floor(&write, origin.window_ms)),
                };
                let at_ms = self.now_ms + self.rng.u64(0..=STORE_MS_MAX);
                self.queue.push(at_ms, Event::Written { region, process, life, answer, store: store_now });
            }
            Event::Written { region, process, life, .. } => {
                let member = LedgerMember::Region(region, process);
                let Some(known) = self.process(member) else { return };
                if known.life != life {
                    return;
                }
                let suspended_ms = known.suspended_until_ms;
                if suspended_ms > self.now_ms {
                    self.queue.push(suspended_ms, event);
                    return;
                }
                self.written(member, &event);
            }
            Event::Restart(member) => self.restart(member),
            Event::Resume(member) => self.catch_up(member),
            Event::Sample => {
                self.queue.push(self.now_ms + SAMPLED_EVERY_MS, Event::Sample);
                self.sample();
            }
        }
    }
}
