//! The rollups of one partition: sums of the newest seconds and minutes, a function of its log.
//!
//! A minute is closed a few seconds after its end, by the time of the log. A late charge changes it again, and its rollups are
//! taken once more. After five minutes it is dropped, and later charges are only tallied. A minute that began before the first
//! record that was read is not summed: an earlier owner of the partition has published it.

use std::collections::BTreeMap;
use std::sync::Arc;

use tollgate_core::clock::{CLOCK_ERROR_MAX_MS, Timestamp};
use tollgate_core::counter::CounterId;
use tollgate_core::messages::calls::{Batch, CounterEntry, DescriptorSet};
use tollgate_core::messages::rollups::{MINUTE_MS, Rollup, SECOND_MS, Subject, Totals};
use tollgate_core::messages::signals::Offset;
use tollgate_core::rules::{ENDPOINT, TIER};

use super::batch_sums::BatchSums;
use super::slice::Slice;

/// Time after its end at which a minute is closed, in ms.
const CLOSED_AFTER_MS: u64 = 3_000;
/// Time after its end at which a minute is closed although the log is silent, in ms.
const CLOSED_IN_SILENCE_AFTER_MS: u64 = 15_000;
/// Time for which seconds and minutes are kept for late charges, in ms.
const SECONDS_KEPT_MS: u64 = 30_000;
const MINUTES_KEPT_MS: u64 = 5 * MINUTE_MS;
/// Maximum delay of a charge behind its record, in ms, for the first minute that is summed.
const LATE_MS_MAX: u64 = 60_000;

/// Caps of the analytics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnalyticsSettings {
    /// Maximum number of callers of one rule that are summed exactly in one minute of one partition; further ones share one sum
    /// until they have made many calls.
    pub callers_max: usize,
    /// Maximum number of callers of one rule with a rollup of their own in one minute of one partition.
    pub rollups_max: usize,
    /// Maximum number of callers in all kept minutes of one partition.
    pub entries_max: usize,
}

impl AnalyticsSettings {
    /// Default of [`Self::callers_max`].
    pub const CALLERS_MAX_DEFAULT: usize = 20_000;

    /// Returns the caps for a maximum number of callers of one rule.
    #[must_use]
    pub fn with_callers_max(callers_max: usize) -> Self {
        Self { callers_max, rollups_max: 2_000, entries_max: 10 * callers_max }
    }
}

impl Default for AnalyticsSettings {
    fn default() -> Self {
        Self::with_callers_max(Self::CALLERS_MAX_DEFAULT)
    }
}

/// Numbers of events since the partition was assigned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AnalyticsTally {
    /// Charges that came too late for their minute.
    pub too_late: u64,
    /// Charges of callers past a cap, which are summed as others.
    pub of_others: u64,
}

/// The rollups of one partition.
#[derive(Clone, Debug)]
pub struct PartitionRollups {
    settings: AnalyticsSettings,
    /// First instant from which all charges are in the records that were read; none before the first record.
    complete_from: Option<Timestamp>,
    /// Time of the newest record.
    newest: Timestamp,
    /// By their starts, in ms.
    seconds: BTreeMap<u64, Slice>,
    minutes: BTreeMap<u64, Slice>,
    /// Number of callers in all minutes.
    entries: usize,
    tally: AnalyticsTally,
    /// True if a row was summed since [`Self::take_changed`].
    changed: bool,
    /// Sums of the batch that is counted; empty in between.
    sums: BatchSums,
}

impl PartitionRollups {
    /// Returns rollups without calls.
    #[must_use]
    pub fn new(settings: AnalyticsSettings) -> Self {
        Self {
            settings,
            complete_from: None,
            newest: Timestamp::default(),
            seconds: BTreeMap::new(),
            minutes: BTreeMap::new(),
            entries: 0,
            tally: AnalyticsTally::default(),
            changed: false,
            sums: BatchSums::default(),
        }
    }

    /// Returns true if a row was summed since the last time, or its second was not taken because it had not ended.
    pub(crate) fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.changed) || self.seconds.values().any(Slice::is_changed)
    }

    /// Sums the rows of a batch that was appended at an instant.
    pub fn count(&mut self, offset: Offset, appended: Timestamp, batch: &Batch) {
        // The log begins with its first record: no owner has read an earlier one.
        let first = if offset == 0 { Timestamp::default() } else { appended.plus_ms(LATE_MS_MAX) };
        let mut complete_from = self.complete_from.unwrap_or(first);
        // After a step back of the bus's clock, a log whose times are minutes behind is followed, or its calls would be too late.
        if appended > self.newest || self.newest.ms_since(appended) > MINUTES_KEPT_MS {
            if appended < self.newest {
                complete_from = complete_from.min(first);
            }
            self.newest = appended;
            self.drop_old();
        }
        self.complete_from = Some(complete_from);
        let latest = appended.plus_ms(CLOCK_ERROR_MAX_MS);
        let mut sums = std::mem::take(&mut self.sums);
        let mut second = None;
        for row in &batch.rows {
            let at = row.at.min(latest).as_ms();
            let of_row = at - at % SECOND_MS;
            if second != Some(of_row) {
                self.enter(second, complete_from, batch, &mut sums);
                second = Some(of_row);
            }
            sums.add(row);
        }
        self.enter(second, complete_from, batch, &mut sums);
        self.sums = sums;
    }

    /// Returns the events so far.
    #[must_use]
    pub fn tally(&self) -> AnalyticsTally {
        self.tally
    }

    /// Returns the starts of the minutes that are held, in ms, and the number of their callers.
    #[cfg(test)]
    pub(super) fn held(&self) -> (Vec<u64>, usize) {
        (self.minutes.keys().copied().collect(), self.entries)
    }

    /// Takes the changed rollups of minutes that are closed.
    pub fn take_minutes(&mut self, now: Timestamp, is_restored: bool) -> Vec<(u64, Vec<Rollup>)> {
        let silent = if is_restored { now.minus_ms(CLOSED_IN_SILENCE_AFTER_MS) } else { Timestamp::default() };
        let closed = self.newest.minus_ms(CLOSED_AFTER_MS).max(silent).as_ms();
        let rollups_max = self.settings.rollups_max;
        let mut taken = Vec::new();
        for (start, minute) in
            self.minutes.iter_mut().filter(|(start, minute)| **start + MINUTE_MS <= closed && minute.is_changed())
        {
            taken.push((*start, minute.take_changed(Timestamp::from_ms(*start), MINUTE_MS, rollups_max)));
        }
        if !taken.is_empty() {
            self.entries = self.minutes.values().map(Slice::callers).sum();
        }
        taken
    }

    /// Lets the rollups of a minute be taken again, because they were lost.
    pub fn lost(&mut self, minute: u64) {
        if let Some(slice) = self.minutes.get_mut(&minute) {
            slice.change_all();
        }
    }

    /// Takes the changed rollups of seconds that have ended.
    pub fn take_seconds(&mut self, now: Timestamp) -> Vec<Rollup> {
        let mut taken = Vec::new();
        for (start, second) in self.seconds.iter_mut().filter(|(start, _)| **start + SECOND_MS <= now.as_ms()) {
            taken.extend(second.take_changed(Timestamp::from_ms(*start), SECOND_MS, 0));
        }
        taken
    }

    /// Returns the start of the newest minute that has begun, its rollups except for callers, and its callers with the most calls or
    /// denials; at most `len_max` of each. After a step back of the clocks, there may be later minutes.
    #[must_use]
    pub fn open_minute(&self, now: Timestamp, len_max: usize) -> Option<(Timestamp, Vec<Rollup>, Vec<CounterId>)> {
        let (start, minute) = self.minutes.range(..=now.as_ms()).next_back()?;
        let start = Timestamp::from_ms(*start);
        Some((start, minute.names(start, MINUTE_MS, len_max), minute.top_callers(len_max)))
    }

    /// Gives a caller a rollup of its own in a minute. Returns its sums, and the maximum number of its calls that are missing in them;
    /// none if it has no sums, or half of the cap on rollups is reached.
    pub fn choose_caller(&mut self, minute: Timestamp, counter: CounterId) -> Option<(Totals, u64)> {
        self.minutes.get_mut(&minute.as_ms())?.choose_caller(counter, self.settings.rollups_max)
    }

    /// Enters the sums of the rows of one second into the slices.
    fn enter(&mut self, second: Option<u64>, complete_from: Timestamp, batch: &Batch, sums: &mut BatchSums) {
        let Some(second) = second else { return };
        let minute = second - second % MINUTE_MS;
        let is_too_late = minute + MINUTE_MS + MINUTES_KEPT_MS <= self.newest.as_ms();
        let is_partial = minute < complete_from.as_ms();
        if is_too_late || is_partial {
            let dropped = sums.clear();
            self.tally.too_late += if is_partial { 0 } else { dropped };
            return;
        }
        self.changed = true;
        let takes_second = second + SECOND_MS + SECONDS_KEPT_MS > self.newest.as_ms();
        let mut second = takes_second.then(|| self.seconds.entry(second).or_default());
        let minute = self.minutes.entry(minute).or_default();
        let entered = minute.callers();
        let calls = std::mem::take(&mut sums.calls);
        if !calls.is_empty() {
            if let Some(second) = &mut second {
                second.add(Subject::Calls, &calls);
                second.add(Subject::Agent(batch.name.agent.clone()), &calls);
            }
            minute.add(Subject::Calls, &calls);
            minute.add(Subject::Agent(batch.name.agent.clone()), &calls);
        }
        let mut of_rule: Option<(&CounterEntry, Totals)> = None;
        let mut add_rule = |minute: &mut Slice, (counter, totals): (&CounterEntry, Totals)| {
            if let Some(second) = &mut second {
                second.add_rule(counter, &totals);
            }
            minute.add_rule(counter, &totals);
        };
        for (index, totals) in sums.by_counter.drain() {
            let Some(counter) = batch.counters.get(index as usize) else { continue };
            let has_room = self.entries < self.settings.entries_max;
            let callers_max = if has_room { self.settings.callers_max } else { 0 };
            if !minute.add_caller(counter, &totals, callers_max) {
                self.tally.of_others += totals.calls();
            }
            match &mut of_rule {
                Some((known, sums)) if known.rule == counter.rule && known.quota == counter.quota => sums.add(&totals),
                _ => of_rule.replace((counter, totals)).into_iter().for_each(|of_rule| add_rule(minute, of_rule)),
            }
        }
        if let Some(of_rule) = of_rule {
            add_rule(minute, of_rule);
        }
        self.entries += minute.callers() - entered;
        for (index, totals) in sums.by_decider.drain() {
            if let Some(rule) = batch.texts.get(index) {
                let rule: Arc<str> = rule.into();
                if let Some(second) = &mut second {
                    second.add(Subject::Rule(rule.clone()), &totals);
                }
                minute.add(Subject::Rule(rule), &totals);
            }
        }
        for (index, totals) in sums.by_descriptors.drain() {
            let Some(set) = batch.descriptor_sets.get(index as usize) else { continue };
            if let Some(endpoint) = value_of(batch, set, ENDPOINT) {
                minute.add(Subject::Endpoint(endpoint.into()), &totals);
            }
            if let Some(tier) = value_of(batch, set, TIER) {
                minute.add(Subject::Tier(tier.into()), &totals);
            }
        }
    }

    fn drop_old(&mut self) {
        let newest = self.newest.as_ms();
        let first_second = newest.saturating_sub(SECONDS_KEPT_MS + SECOND_MS);
        let first_minute = newest.saturating_sub(MINUTES_KEPT_MS + MINUTE_MS);
        while self.seconds.first_key_value().is_some_and(|(start, _)| *start <= first_second) {
            self.seconds.pop_first();
        }
        while self.minutes.first_key_value().is_some_and(|(start, _)| *start <= first_minute) {
            let dropped = self.minutes.pop_first().map_or(0, |(_, minute)| minute.callers());
            self.entries -= dropped;
        }
    }
}

fn value_of<'a>(batch: &'a Batch, set: &DescriptorSet, name: &str) -> Option<&'a str> {
    let (_, value) = set.iter().find(|(of, _)| batch.texts.get(*of) == Some(name))?;
    batch.texts.get(*value)
}
