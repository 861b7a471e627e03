//! The view of the whole fleet: the rollups of all partitions, as an aggregator reads them from the bus.
//!
//! Seconds are kept for 15 minutes and minutes for a day. A rollup may be replaced for ten minutes; then the sums are closed, and
//! of the callers, endpoints and tiers those with the most calls are kept. It does not matter which aggregator has written a rollup.
//! Minutes are closed by the time of the log, so that an aggregator which reads the last day holds no more open minutes than later.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use foldhash::fast::RandomState;
use tollgate_core::clock::Timestamp;
use tollgate_core::messages::rollups::{LimitUse, MINUTE_MS, OTHERS, Rollup, RollupBatch, SECOND_MS, Subject, Totals};

use super::answers::{CallerSums, CallersOrder, RuleState};
use super::denied_callers::{CallerName, DeniedCallers};
use super::fleet_slice::{FleetSlice, sums_by_name};
use super::shown_uses::ShownUses;
use super::used_rules::UsedRules;

/// Time for which seconds and minutes are kept, in ms.
pub const SECONDS_KEPT_MS: u64 = 15 * MINUTE_MS;
/// Time for which minutes are kept, in ms.
pub const MINUTES_KEPT_MS: u64 = 24 * 60 * MINUTE_MS;
/// Time in which a rollup may be replaced, in ms.
const OPEN_MS: u64 = 10 * MINUTE_MS;
/// Age at which a minute is closed that no record of the log of closed minutes has, because it cannot be written, in ms.
const UNPUBLISHED_MS: u64 = 20 * MINUTE_MS;
/// Maximum number of callers of a rule in a minute that is closed.
const CALLERS_KEPT_MAX: usize = 50;
/// Maximum number of endpoints, and of tiers, in a minute that is closed.
const NAMES_KEPT_MAX: usize = 200;
/// Maximum time ahead of this aggregator's clock, in ms; rollups of a later time are not credible.
const AHEAD_MS_MAX: u64 = MINUTE_MS;
/// Time without a rollup after which an aggregator is silent, in ms.
const SILENT_AFTER_MS: u64 = 5_000;

/// The rollups of all partitions.
#[derive(Clone, Debug, Default)]
pub struct FleetView {
    /// By their starts, in ms.
    seconds: BTreeMap<u64, FleetSlice>,
    minutes: BTreeMap<u64, FleetSlice>,
    /// Minute of the log of closed minutes, at whose begin old sums were closed last.
    closed_in: u64,
    /// Minute in which old facts were forgotten last.
    forgotten_in: u64,
    denied: DeniedCallers,
    uses: ShownUses,
    /// Rules that calls of the last day met.
    rules: UsedRules,
    /// Aggregators, and when their last rollups came.
    writers: HashMap<Arc<str>, Timestamp, RandomState>,
}

impl FleetView {
    /// Applies rollups that were read: of the log of closed minutes, to which they were `written` at this time, or of the newest seconds,
    /// which have no such time. Those of a time that is not kept are ignored; returns an error for those of the future.
    ///
    /// # Errors
    /// If the batch has a rollup of more than a minute ahead.
    pub fn apply(&mut self, now: Timestamp, written: Option<Timestamp>, batch: &RollupBatch) -> Result<(), String> {
        if batch.rollups.iter().any(|rollup| rollup.start > now.plus_ms(AHEAD_MS_MAX)) {
            return Err(format!("aggregator {} reports calls of the future; set its clock", batch.aggregator));
        }
        self.writers.insert(batch.aggregator.clone(), now);
        self.drop_old(now);
        // The clock of the bus may be ahead, and would close minutes that still change.
        let written = written.map(|log_time| log_time.min(now));
        if let Some(log_time) = written {
            self.close_old(log_time);
        }
        for rollup in &batch.rollups {
            self.apply_rollup(now, written, batch, rollup);
        }
        Ok(())
    }

    /// Returns the aggregators of these names that publish nothing.
    #[must_use]
    pub fn silent<'a>(&self, now: Timestamp, members: impl Iterator<Item = &'a Arc<str>>) -> Vec<Arc<str>> {
        let is_silent =
            |member: &&Arc<str>| self.writers.get(*member).is_none_or(|heard| now.ms_since(*heard) > SILENT_AFTER_MS);
        members.filter(is_silent).cloned().collect()
    }

    /// Returns the sums of a subject by second or by minute, those without calls left out, from one instant up to another.
    #[must_use]
    pub fn series(&self, subject: &Subject, size_ms: u64, from: Timestamp, to: Timestamp) -> Vec<(Timestamp, Totals)> {
        let slices = if size_ms == SECOND_MS { &self.seconds } else { &self.minutes };
        let point = |(start, slice): (&u64, &FleetSlice)| {
            let totals = slice.get(subject)?.totals;
            (!totals.is_empty()).then_some((Timestamp::from_ms(*start), totals))
        };
        slices.range(from.as_ms()..to.as_ms().max(from.as_ms())).filter_map(point).collect()
    }

    /// Returns the sums of all subjects of a kind in the newest minutes, by name. `name` selects the kind.
    #[must_use]
    pub fn sums(
        &self,
        minutes: u64,
        now: Timestamp,
        name: impl Fn(&Subject) -> Option<Arc<str>>,
    ) -> Vec<(Arc<str>, Totals)> {
        sums_by_name(self.newest_minutes(minutes, now), name)
    }

    /// Returns the sums of each agent in the last 60 s, by name.
    #[must_use]
    pub fn agents(&self, now: Timestamp) -> Vec<(Arc<str>, Totals)> {
        let seconds = self.seconds.range(now.minus_ms(MINUTE_MS).as_ms()..).map(|(_, second)| second);
        sums_by_name(seconds, |subject| if let Subject::Agent(name) = subject { Some(name.clone()) } else { None })
    }

    /// Returns the rules that were used in the newest minutes, by name.
    #[must_use]
    pub fn rules(&self, now: Timestamp) -> Vec<RuleState> {
        let mut rules: BTreeMap<Arc<str>, RuleState> = BTreeMap::new();
        let named = |rule: &Arc<str>| RuleState {
            rule: rule.clone(),
            last_minute: Totals::default(),
            limit: LimitUse::default(),
            changed_at: self.rules.changed_at(rule),
        };
        for slice in self.newest_minutes(SECONDS_KEPT_MS / MINUTE_MS, now) {
            for (subject, sums) in slice.iter() {
                if let Subject::Rule(rule) = subject {
                    let state = rules.entry(rule.clone()).or_insert_with(|| named(rule));
                    // The newest minute comes first.
                    if state.limit == LimitUse::default() {
                        state.limit = sums.limit;
                    }
                }
            }
        }
        for (_, second) in self.seconds.range(now.minus_ms(MINUTE_MS).as_ms()..) {
            for (subject, sums) in second.iter() {
                if let Subject::Rule(rule) = subject {
                    rules.entry(rule.clone()).or_insert_with(|| named(rule)).last_minute.add(&sums.totals);
                }
            }
        }
        rules.into_values().collect()
    }

    /// Returns true if a call of the last day met a rule of this name.
    #[must_use]
    pub fn knows_rule(&self, rule: &str) -> bool {
        self.rules.knows(rule)
    }

    /// Returns the latest time at which the rules were seen to change.
    #[must_use]
    pub fn rules_changed_at(&self) -> Option<Timestamp> {
        self.rules.newest_change()
    }

    /// Returns the callers of the newest minutes in an order, as far as a condition holds for rule and label.
    #[must_use]
    pub fn callers(
        &self,
        now: Timestamp,
        minutes: u64,
        order: CallersOrder,
        is_wanted: impl Fn(&str, &str) -> bool,
    ) -> Vec<CallerSums> {
        let mut callers: HashMap<CallerName, CallerSums, RandomState> = HashMap::default();
        let empty = |name: &CallerName| CallerSums {
            rule: name.0.clone(),
            caller: name.1.clone(),
            totals: Totals::default(),
            limit: self.uses.get(name, now).unwrap_or_default(),
            denied_from: self.denied.get(name).map(|denied| (denied.first, denied.last)),
        };
        for slice in self.newest_minutes(minutes, now) {
            for (subject, sums) in slice.iter() {
                let Subject::Caller { rule, caller } = subject else { continue };
                if is_wanted(rule, caller) {
                    let name = (rule.clone(), caller.clone());
                    let known = callers.entry(name.clone()).or_insert_with(|| empty(&name));
                    known.totals.add(&sums.totals);
                    let missing_max = known.limit.missing_max.saturating_add(sums.limit.missing_max);
                    if known.limit.quota == 0 {
                        known.limit = LimitUse { used: known.limit.used, ..sums.limit };
                    }
                    known.limit.missing_max = missing_max;
                }
            }
        }
        if order == CallersOrder::Near {
            for name in self.uses.names().filter(|(rule, caller)| is_wanted(rule, caller)) {
                callers.entry(name.clone()).or_insert_with(|| empty(name));
            }
        }
        let mut callers: Vec<CallerSums> = callers
            .into_values()
            .filter(|caller| self.is_listed(caller, order, now.minus_ms(minutes * MINUTE_MS)))
            .collect();
        callers.sort_by_cached_key(|caller| {
            (Reverse((caller.rank_by(order), caller.totals.calls())), caller.rule.clone(), caller.caller.clone())
        });
        callers
    }

    /// Returns true if a list of the callers of a rule, or of any, lacks calls of the newest minutes.
    #[must_use]
    pub fn lacks_callers(&self, now: Timestamp, minutes: u64, rule: Option<&str>) -> bool {
        self.newest_minutes(minutes, now).any(|slice| slice.lacks_callers(rule))
    }

    fn is_listed(&self, caller: &CallerSums, order: CallersOrder, from: Timestamp) -> bool {
        let is_one = *caller.caller != *OTHERS;
        match order {
            CallersOrder::Denied => caller.totals.denied() > 0,
            CallersOrder::Calls => true,
            CallersOrder::Near => is_one && caller.limit.used.is_some(),
            CallersOrder::New => {
                let changed_at = self.rules.changed_at(&caller.rule);
                let since = changed_at.map_or(from, |changed_at| changed_at.minus_ms(changed_at.as_ms() % MINUTE_MS));
                is_one && caller.denied_from.is_some_and(|(first, _)| first >= since)
            }
        }
    }

    /// Returns the newest minutes, the newest first.
    fn newest_minutes(&self, minutes: u64, now: Timestamp) -> impl Iterator<Item = &FleetSlice> {
        let from = now.minus_ms(minutes.saturating_mul(MINUTE_MS)).as_ms();
        self.minutes.range(from - from % MINUTE_MS..).rev().map(|(_, slice)| slice)
    }

    fn apply_rollup(&mut self, now: Timestamp, written: Option<Timestamp>, batch: &RollupBatch, rollup: &Rollup) {
        let start = rollup.start.as_ms();
        let is_second = rollup.size_ms == SECOND_MS;
        let kept_ms = if is_second { SECONDS_KEPT_MS } else { MINUTES_KEPT_MS };
        if rollup.start.plus_ms(kept_ms) < now {
            return;
        }
        let slices = if is_second { &mut self.seconds } else { &mut self.minutes };
        slices.entry(start).or_default().apply(written, (batch.partition, batch.log, batch.as_of), rollup);
        match &rollup.subject {
            Subject::Rule(rule) => {
                self.rules.used(rule, rollup.limit.map_or(0, |limit| limit.generation), rollup.start);
            }
            Subject::Caller { rule, caller } => {
                let name = (rule.clone(), caller.clone());
                if let Some(limit) = rollup.limit {
                    self.uses.note(name.clone(), limit, now);
                }
                if rollup.totals.denied() > 0 {
                    self.denied.denied(name, rollup.start);
                }
            }
            _ => {}
        }
    }

    fn drop_old(&mut self, now: Timestamp) {
        let first_second = now.minus_ms(SECONDS_KEPT_MS).as_ms();
        while self.seconds.first_key_value().is_some_and(|(start, _)| *start < first_second) {
            self.seconds.pop_first();
        }
        let first_minute = now.minus_ms(MINUTES_KEPT_MS).as_ms();
        while self.minutes.first_key_value().is_some_and(|(start, _)| *start < first_minute) {
            self.minutes.pop_first();
        }
        // Once a minute, in whichever direction the clock was set.
        if now.as_ms() / MINUTE_MS == self.forgotten_in {
            return;
        }
        self.forgotten_in = now.as_ms() / MINUTE_MS;
        self.rules.forget_before(Timestamp::from_ms(first_minute));
        let age_ms = |at: Timestamp| now.as_ms().abs_diff(at.as_ms());
        self.uses.forget_old(now);
        self.writers.retain(|_, heard| age_ms(*heard) <= SECONDS_KEPT_MS);
        self.close_before(now.minus_ms(UNPUBLISHED_MS), FleetSlice::is_unpublished);
    }

    /// Closes the minutes that are old at a time of the log, once a minute of it, in whichever direction its clock was set. A minute that is
    /// written so late stays open for another one.
    fn close_old(&mut self, log_time: Timestamp) {
        if log_time.as_ms() / MINUTE_MS == self.closed_in {
            return;
        }
        self.closed_in = log_time.as_ms() / MINUTE_MS;
        self.close_before(log_time.minus_ms(OPEN_MS), |slice| slice.is_quiet(log_time, MINUTE_MS));
    }

    fn close_before(&mut self, end: Timestamp, is_due: impl Fn(&FleetSlice) -> bool) {
        for slice in self.minutes.range_mut(..end.as_ms()).map(|(_, slice)| slice).filter(|slice| is_due(slice)) {
            slice.close(CALLERS_KEPT_MAX, NAMES_KEPT_MAX);
        }
    }

    /// Returns the number of sums in memory.
    #[cfg(test)]
    pub(super) fn entries(&self) -> usize {
        self.minutes.values().chain(self.seconds.values()).map(FleetSlice::entries).sum()
    }
}
