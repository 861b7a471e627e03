//! The rollups of all partitions in one second or minute.

use std::collections::HashMap;
use std::sync::Arc;

use foldhash::fast::RandomState;
use tollgate_core::clock::Timestamp;
use tollgate_core::counter::Partition;
use tollgate_core::messages::rollups::{LimitUse, OTHERS, Rollup, Subject, Totals};
use tollgate_core::messages::signals::{LogId, Offset};

use super::slice::others_of;

/// Rollups of one second or minute, by subject.
#[derive(Clone, Debug, Default)]
pub(super) struct FleetSlice {
    sums: HashMap<Subject, FleetSums, RandomState>,
    /// Time at which the newest of its rollups was written to the log of closed minutes.
    written_at: Timestamp,
    is_closed: bool,
    /// The newest rollup of each subject and partition, until the slice is closed.
    newest: HashMap<(Partition, LogId, Subject), Newest, RandomState>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Newest {
    as_of: Offset,
    totals: Totals,
    limit: LimitUse,
}

/// Sums over all partitions.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FleetSums {
    pub(super) totals: Totals,
    pub(super) limit: LimitUse,
}

impl FleetSlice {
    /// Adds a rollup, or replaces an earlier one of the same name. A closed slice stays as it is.
    pub(super) fn apply(&mut self, written: Option<Timestamp>, name: (Partition, LogId, Offset), rollup: &Rollup) {
        let (partition, log, as_of) = name;
        if self.is_closed {
            return;
        }
        self.written_at = written.unwrap_or(self.written_at);
        let known = self.newest.entry((partition, log, rollup.subject.clone())).or_default();
        if as_of < known.as_of {
            return;
        }
        let limit = rollup.limit.unwrap_or_default();
        let sums = self.sums.entry(rollup.subject.clone()).or_default();
        sums.totals.replace(&known.totals, &rollup.totals);
        let before = known.limit;
        let replace = |sum: &mut u64, before: u64, after: u64| *sum = sum.saturating_sub(before).saturating_add(after);
        replace(&mut sums.limit.callers, before.callers, limit.callers);
        replace(&mut sums.limit.callers_error, before.callers_error, limit.callers_error);
        replace(&mut sums.limit.missing_max, before.missing_max, limit.missing_max);
        sums.follow(limit);
        *known = Newest { as_of, totals: rollup.totals, limit };
    }

    /// Returns the sums of a subject.
    pub(super) fn get(&self, subject: &Subject) -> Option<&FleetSums> {
        self.sums.get(subject)
    }

    /// Returns all sums.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&Subject, &FleetSums)> {
        self.sums.iter()
    }

    /// Returns true if callers of a rule, or of any, share the sums of one, or have no sums here.
    pub(super) fn lacks_callers(&self, rule: Option<&str>) -> bool {
        let is_wanted = |of: &str| rule.is_none_or(|rule| rule == of);
        let mut listed: HashMap<&str, u64, RandomState> = HashMap::default();
        for subject in self.sums.keys() {
            if let Subject::Caller { rule, caller } = subject
                && is_wanted(rule)
            {
                if **caller == *OTHERS {
                    return true;
                }
                *listed.entry(&**rule).or_default() += 1;
            }
        }
        let lacks = |rule: &str, sums: &FleetSums| sums.limit.callers > listed.get(rule).copied().unwrap_or_default();
        self.sums.iter().any(|(subject, sums)| matches!(subject, Subject::Rule(of) if is_wanted(of) && lacks(of, sums)))
    }

    /// Returns true if the slice is open, and no rollup of it was written for a time, up to an instant of the log.
    pub(super) fn is_quiet(&self, log_time: Timestamp, ms: u64) -> bool {
        !self.is_closed && log_time.ms_since(self.written_at) >= ms
    }

    /// Returns true if the slice is open, and no record of the log of closed minutes had a rollup of it.
    pub(super) fn is_unpublished(&self) -> bool {
        !self.is_closed && self.written_at == Timestamp::default()
    }

    /// Returns the number of entries in memory.
    #[cfg(test)]
    pub(super) fn entries(&self) -> usize {
        self.sums.len() + self.newest.len()
    }

    /// Forgets from which partitions the sums are. Of the callers of a rule, of the endpoints and of the tiers, those with the most
    /// calls keep their sums, and the others share one.
    pub(super) fn close(&mut self, callers_max: usize, names_max: usize) {
        (self.is_closed, self.newest) = (true, HashMap::default());
        let mut ranked: Vec<(Subject, u64, Subject)> = Vec::new();
        for (subject, sums) in &self.sums {
            let others = others_of(subject);
            let is_capped = matches!(subject, Subject::Caller { .. } | Subject::Endpoint(_) | Subject::Tier(_));
            if is_capped && *subject != others {
                ranked.push((others, sums.totals.calls(), subject.clone()));
            }
        }
        ranked.sort_unstable_by(|a, b| (&a.0, b.1, &a.2).cmp(&(&b.0, a.1, &b.2)));
        for of_kind in ranked.chunk_by(|a, b| a.0 == b.0) {
            let max = if matches!(of_kind[0].0, Subject::Caller { .. }) { callers_max } else { names_max };
            for (others, _, subject) in of_kind.iter().skip(max) {
                if let Some(sums) = self.sums.remove(subject) {
                    self.sums.entry(others.clone()).or_default().totals.add(&sums.totals);
                }
            }
        }
        self.sums.shrink_to_fit();
    }
}

impl FleetSums {
    fn follow(&mut self, limit: LimitUse) {
        let known = &mut self.limit;
        if limit.generation > known.generation || limit.generation == known.generation && limit.quota >= known.quota {
            (known.generation, known.quota, known.window_ms) = (limit.generation, limit.quota, limit.window_ms);
        }
    }
}

/// Returns the sums of the subjects that a function names, the most calls first.
pub(super) fn sums_by_name<'a>(
    slices: impl Iterator<Item = &'a FleetSlice>,
    name: impl Fn(&Subject) -> Option<Arc<str>>,
) -> Vec<(Arc<str>, Totals)> {
    let mut sums: HashMap<Arc<str>, Totals, RandomState> = HashMap::default();
    for (subject, of) in slices.flat_map(FleetSlice::iter) {
        if let Some(name) = name(subject) {
            sums.entry(name).or_default().add(&of.totals);
        }
    }
    let mut sums: Vec<_> = sums.into_iter().collect();
    sums.sort_unstable_by(|a, b| b.1.calls().cmp(&a.1.calls()).then_with(|| a.0.cmp(&b.0)));
    sums
}
