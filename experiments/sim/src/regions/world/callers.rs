//! Callers of the regions.

use tollgate_aggregator_engine::budget::region::RegionInput;
use tollgate_core::counter::CounterId;

use super::event::{Event, LedgerMember};
use super::state::{RegionsWorld, counter_id, rule_name};
use crate::regions::region_store::StoreAdmission;

/// Longest time for which calls that were kept come after a bus is back, in ms.
const BACKLOG_MS_MAX: u64 = 1_000;

impl RegionsWorld {
    pub(super) fn call(&mut self, region: usize, plan: usize) {
        let caller = self.regions[region].settings.callers[plan];
        self.schedule_call(region, plan, self.now_ms);
        let counter = caller.counter;
        self.second(region).0 += 1;
        self.outcome.calls[counter as usize].push((self.now_ms, region));
        match self.paused_until(region) {
            None => self.charge(region, counter),
            // A call to a machine that is suspended fails, or is decided when the machine goes on.
            Some(until_ms) if self.rng.bool() => self.queue.push(until_ms, Event::Charge { region, counter }),
            Some(_) => {}
        }
    }

    /// Lets the store decide a call.
    pub(super) fn charge(&mut self, region: usize, number: u32) {
        let counter = counter_id(number);
        let (store_now, rules) = (self.store_time(region), self.agent_rules(region));
        let terms_window_ms = self.terms_in_force().map_or(rules.window_ms, |terms| terms.window_ms);
        let admission = self.regions[region].store.charge(counter, store_now, rules, terms_window_ms);
        self.outcome.overdue += u64::from(admission == StoreAdmission::Overdue);
        if admission != StoreAdmission::Denied {
            self.second(region).1 += 1;
            self.outcome.admitted[number as usize].push((self.now_ms, region));
        }
        match self.regions[region].settings.bus_away_until(self.now_ms) {
            None => self.count(region, counter),
            // The agent keeps some calls until the bus is back, and loses the others.
            Some(until_ms) if self.rng.bool() => {
                let at_ms = until_ms + self.rng.u64(0..=BACKLOG_MS_MAX);
                self.queue.push(at_ms, Event::Counted { region, counter });
            }
            Some(_) => {}
        }
    }

    /// Returns the calls and admissions of a region in this second.
    fn second(&mut self, region: usize) -> &mut (u64, u64) {
        let second = usize::try_from(self.now_ms / 1_000).unwrap_or(usize::MAX);
        let seconds = &mut self.outcome.seconds[region];
        seconds.resize(seconds.len().max(second + 1), (0, 0));
        &mut seconds[second]
    }

    /// Counts a call as demand, at all processes.
    pub(super) fn count(&mut self, region: usize, counter: CounterId) {
        let rule = rule_name(&self.settings);
        for process in 0..self.regions[region].processes.len() {
            let input = RegionInput::Offered { rule: &rule, counter, units: 1 };
            self.poll(LedgerMember::Region(region, process), input);
        }
    }

    pub(super) fn schedule_call(&mut self, region: usize, plan: usize, after_ms: u64) {
        let caller = self.regions[region].settings.callers[plan];
        if caller.per_minute == 0 {
            return;
        }
        #[expect(clippy::cast_precision_loss, reason = "a rate")]
        let mean_ms = 60_000.0 / caller.per_minute as f64;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a time in ms")]
        let gap_ms = (-(1.0 - self.rng.f64()).ln() * mean_ms).round() as u64;
        if after_ms + gap_ms < caller.until_ms {
            self.queue.push(after_ms + gap_ms, Event::Call { region, plan });
        }
    }
}
