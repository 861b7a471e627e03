//! The sums of one second or minute of a partition, by subject.

use std::collections::HashMap;
use std::sync::Arc;

use foldhash::fast::RandomState;
use indexmap::IndexMap;
use tollgate_core::clock::Timestamp;
use tollgate_core::counter::CounterId;
use tollgate_core::messages::calls::CounterEntry;
use tollgate_core::messages::rollups::{LimitUse, OTHERS, Rollup, Subject, Totals};

use super::caller_sketch::CallerSketch;
use super::callers_of_rule::CallersOfRule;

/// Maximum number of rules whose callers past the cap are estimated.
const SKETCHES_LEN_MAX: usize = 8;
/// Maximum number of rules, of endpoints, of tiers and of agents in one slice; further ones share one rollup of their kind.
const NAMES_LEN_MAX: usize = 1_000;

/// Sums of one second or minute. A second has no callers, endpoints and tiers.
#[derive(Clone, Debug, Default)]
pub(super) struct Slice {
    by_name: IndexMap<Subject, Sums, RandomState>,
    /// Numbers of rules, endpoints, tiers and agents in `by_name`.
    names_of_kinds: [usize; 4],
    callers: IndexMap<CounterId, CallerEntry, RandomState>,
    /// Number of callers with sums of their own by rule, and of those that have a rollup of their own.
    callers_of_rules: HashMap<Arc<str>, CallersOfRule, RandomState>,
    sketches: usize,
    /// True if it has changed since its rollups were taken.
    changed: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    totals: Totals,
    limit: LimitUse,
    changed: bool,
}

#[derive(Clone, Debug)]
struct CallerEntry {
    rule: Arc<str>,
    label: Arc<str>,
    sums: Sums,
    has_rollup: bool,
}

impl Slice {
    /// Adds to the sums of a subject.
    pub(super) fn add(&mut self, subject: Subject, totals: &Totals) {
        self.entry(subject).add(totals);
        self.changed = true;
    }

    /// Adds to the sums of a rule, and notes its limit.
    pub(super) fn add_rule(&mut self, counter: &CounterEntry, totals: &Totals) {
        let rule = self.entry(Subject::Rule(counter.rule.clone()));
        rule.add(totals);
        rule.follow(counter);
        self.changed = true;
    }

    /// Adds to the sums of a caller. Past `callers_max` callers of one rule, further ones share the sums of one until they have
    /// made many calls; returns false for such a caller.
    pub(super) fn add_caller(&mut self, counter: &CounterEntry, totals: &Totals, callers_max: usize) -> bool {
        self.changed = true;
        if let Some(entry) = self.callers.get_mut(&counter.id) {
            entry.sums.add(totals);
            entry.sums.follow(counter);
            return true;
        }
        let of_rule = self.callers_of_rules.entry(counter.rule.clone()).or_default();
        if !of_rule.is_full && of_rule.callers >= callers_max {
            of_rule.is_full = true;
            if self.sketches < SKETCHES_LEN_MAX {
                let callers = self.callers.iter().filter(|(_, caller)| caller.rule == counter.rule);
                of_rule.sketch = CallerSketch::new(callers.map(|(id, _)| *id)).map(Box::new);
                self.sketches += 1;
            }
        }
        let mut sums = Sums::default();
        if of_rule.is_full {
            let Some(missing_max) = of_rule.add_to_others(counter.id, totals.calls()) else {
                let (rule, caller) = (counter.rule.clone(), OTHERS.into());
                self.entry(Subject::Caller { rule, caller }).add(totals);
                return false;
            };
            sums.limit.missing_max = missing_max;
        } else {
            of_rule.callers += 1;
        }
        sums.add(totals);
        sums.follow(counter);
        let (rule, label) = (counter.rule.clone(), counter.label.clone());
        self.callers.insert(counter.id, CallerEntry { rule, label, sums, has_rollup: false });
        true
    }

    /// Returns the number of callers with sums of their own.
    pub(super) fn callers(&self) -> usize {
        self.callers.len()
    }

    pub(super) fn is_changed(&self) -> bool {
        self.changed
    }

    /// Lets all rollups be taken again, because the last ones were lost.
    pub(super) fn change_all(&mut self) {
        self.changed = true;
        self.by_name.values_mut().for_each(|sums| sums.changed = true);
        self.callers.values_mut().for_each(|caller| caller.sums.changed = true);
    }

    /// Returns the rollups that have changed. At most `rollups_max` callers of a rule have one of their own; the others share one.
    /// A caller that has one keeps it, so that no call is in two.
    pub(super) fn take_changed(&mut self, start: Timestamp, size_ms: u64, rollups_max: usize) -> Vec<Rollup> {
        if !std::mem::take(&mut self.changed) {
            return Vec::new();
        }
        self.choose(rollups_max);
        let rollup = |subject, sums: &Sums, callers| sums.rollup(start, size_ms, subject, callers);
        let mut taken = Vec::new();
        for (subject, sums) in self.by_name.iter_mut().filter(|(_, sums)| sums.changed) {
            taken.push(rollup(subject.clone(), sums, callers_of(&self.callers_of_rules, subject)));
            sums.changed = false;
        }
        for caller in self.callers.values_mut().filter(|caller| caller.sums.changed) {
            let (rule, label) = (caller.rule.clone(), caller.label.clone());
            taken.push(rollup(Subject::Caller { rule, caller: label }, &caller.sums, (0, 0)));
            caller.sums.changed = false;
        }
        taken
    }

    /// Returns the rollups of the subjects with the most calls, except for callers.
    pub(super) fn names(&self, start: Timestamp, size_ms: u64, len_max: usize) -> Vec<Rollup> {
        let mut ranked: Vec<(&Subject, &Sums)> = self.by_name.iter().collect();
        ranked.sort_by_key(|(_, sums)| std::cmp::Reverse(sums.totals.calls()));
        ranked.truncate(len_max);
        let rollup = |(subject, sums): (&Subject, &Sums)| {
            sums.rollup(start, size_ms, subject.clone(), callers_of(&self.callers_of_rules, subject))
        };
        ranked.into_iter().map(rollup).collect()
    }

    /// Returns the callers with the most calls, and those with the most denials, at most `len_max` of each.
    pub(super) fn top_callers(&self, len_max: usize) -> Vec<CounterId> {
        let mut places: Vec<usize> = Vec::new();
        for key in [Totals::calls, Totals::denied] {
            let ranked = self.callers.values().enumerate().map(|(place, caller)| (key(&caller.sums.totals), place));
            let mut ranked: Vec<(u64, usize)> = ranked.filter(|(calls, _)| *calls > 0).collect();
            if ranked.len() > len_max {
                ranked.select_nth_unstable_by(len_max, |a, b| b.cmp(a));
                ranked.truncate(len_max);
            }
            places.extend(ranked.into_iter().map(|(_, place)| place));
        }
        places.sort_unstable();
        places.dedup();
        places.into_iter().filter_map(|place| self.callers.get_index(place)).map(|(id, _)| *id).collect()
    }

    /// Gives a caller a rollup of its own if it has none, and less than half of `rollups_max` callers of its rule have one. Returns its
    /// sums, and the maximum number of its calls that are missing in them. A caller without a rollup may share one later, so its sums are
    /// not shown. The other half is for the callers with the most calls at the end of the minute.
    pub(super) fn choose_caller(&mut self, counter: CounterId, rollups_max: usize) -> Option<(Totals, u64)> {
        let caller = self.callers.get_mut(&counter)?;
        if !caller.has_rollup {
            let of_rule = self.callers_of_rules.entry(caller.rule.clone()).or_default();
            if of_rule.with_rollup >= rollups_max / 2 {
                return None;
            }
            of_rule.with_rollup += 1;
            caller.has_rollup = true;
        }
        Some((caller.sums.totals, caller.sums.limit.missing_max))
    }

    /// Gives the callers with the most calls rollups of their own, as far as there is room. The others share one from then on, and
    /// their memory is freed.
    fn choose(&mut self, rollups_max: usize) {
        let mut without: Vec<(u64, usize)> = Vec::new();
        for (place, caller) in self.callers.values().enumerate().filter(|(_, caller)| !caller.has_rollup) {
            without.push((caller.sums.totals.calls(), place));
        }
        without.sort_unstable_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1)));
        for (_, place) in without {
            let Some((_, caller)) = self.callers.get_index_mut(place) else { continue };
            let of_rule = self.callers_of_rules.entry(caller.rule.clone()).or_default();
            if of_rule.with_rollup < rollups_max {
                of_rule.with_rollup += 1;
                (caller.has_rollup, caller.sums.changed) = (true, true);
            } else {
                of_rule.is_full = true;
            }
        }
        let mut others: Vec<(Arc<str>, Totals)> = Vec::new();
        self.callers.retain(|id, caller| {
            if !caller.has_rollup {
                if let Some(sketch) = self.callers_of_rules.get_mut(&caller.rule).and_then(|of| of.sketch.as_mut()) {
                    sketch.add_calls(*id, caller.sums.totals.calls());
                }
                others.push((caller.rule.clone(), caller.sums.totals));
            }
            caller.has_rollup
        });
        if !others.is_empty() {
            self.callers.shrink_to_fit();
        }
        for (rule, totals) in others {
            self.entry(Subject::Caller { rule, caller: OTHERS.into() }).add(&totals);
        }
    }

    /// Returns the sums of a subject; past the cap, those that all further ones of its kind share.
    fn entry(&mut self, mut subject: Subject) -> &mut Sums {
        if let Some(kind) = kind_of(&subject)
            && !self.by_name.contains_key(&subject)
        {
            if self.names_of_kinds[kind] >= NAMES_LEN_MAX {
                subject = others_of(&subject);
            } else {
                self.names_of_kinds[kind] += 1;
            }
        }
        self.by_name.entry(subject).or_default()
    }
}

/// Returns the place of a kind whose names have a cap.
fn kind_of(subject: &Subject) -> Option<usize> {
    match subject {
        Subject::Rule(_) => Some(0),
        Subject::Endpoint(_) => Some(1),
        Subject::Tier(_) => Some(2),
        Subject::Agent(_) => Some(3),
        Subject::Calls | Subject::Caller { .. } => None,
    }
}

/// Returns the subject that those of its kind past a cap share.
pub(super) fn others_of(subject: &Subject) -> Subject {
    match subject {
        Subject::Calls => Subject::Calls,
        Subject::Rule(_) => Subject::Rule(OTHERS.into()),
        Subject::Caller { rule, .. } => Subject::Caller { rule: rule.clone(), caller: OTHERS.into() },
        Subject::Endpoint(_) => Subject::Endpoint(OTHERS.into()),
        Subject::Tier(_) => Subject::Tier(OTHERS.into()),
        Subject::Agent(_) => Subject::Agent(OTHERS.into()),
    }
}

/// Returns the number of callers of a rule, and its maximum error.
fn callers_of(callers_of_rules: &HashMap<Arc<str>, CallersOfRule, RandomState>, subject: &Subject) -> (u64, u64) {
    match subject {
        Subject::Rule(rule) => callers_of_rules.get(rule).map_or((0, 0), CallersOfRule::callers),
        _ => (0, 0),
    }
}

impl Sums {
    fn rollup(&self, start: Timestamp, size_ms: u64, subject: Subject, (callers, callers_error): (u64, u64)) -> Rollup {
        let limit = LimitUse { callers, callers_error, ..self.limit };
        let limit = (limit != LimitUse::default()).then_some(limit);
        Rollup { start, size_ms, subject, totals: self.totals, limit }
    }

    fn add(&mut self, totals: &Totals) {
        self.totals.add(totals);
        self.changed = true;
    }

    fn follow(&mut self, counter: &CounterEntry) {
        let limit = &mut self.limit;
        if counter.generation > limit.generation {
            (limit.generation, limit.quota) = (counter.generation, 0);
        }
        if counter.generation == limit.generation && counter.quota >= limit.quota {
            (limit.quota, limit.window_ms) = (counter.quota, counter.window.width_ms());
        }
    }
}
