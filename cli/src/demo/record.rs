//! Decided calls of a demo, and an exact count of what was admitted.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::Duration;

use tollgate::{Decision, Quota};
use tollgate_core::clock::Timestamp;
use tollgate_sim::oracle::Oracle;

#[derive(Clone, Debug)]
pub(super) struct DemoCall {
    /// Number of the caller, or of the region in which it called.
    pub(super) origin: u32,
    pub(super) decision: Decision,
    /// Duration of the check.
    pub(super) took: Duration,
    /// Time of the answer since the run began.
    pub(super) answered: Duration,
}

/// Decided calls, in the order of their answers.
#[derive(Default)]
pub(super) struct DemoRecord {
    pub(super) calls: Vec<DemoCall>,
    shown: usize,
}

/// Admissions beside an exact count of the window that ends with each call.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct DemoJudgement {
    /// Calls admitted with more than the quota in their window.
    pub(super) over_admitted: u64,
    /// Calls denied although the window had room.
    pub(super) under_admitted: u64,
    /// Most units in a window of any counter.
    pub(super) fullest: u64,
}

impl DemoRecord {
    pub(super) fn enter(&mut self, call: DemoCall) {
        self.calls.push(call);
    }

    /// Takes the calls since the last time.
    pub(super) fn take_new(&mut self) -> &[DemoCall] {
        let from = std::mem::replace(&mut self.shown, self.calls.len());
        &self.calls[from..]
    }

    /// Judges the calls in the order of their instants; calls at one instant are in the order of their answers. Calls with
    /// the same key share a quota.
    pub(super) fn judge<K: Eq + Hash>(
        &self,
        quota: Quota,
        instant: impl Fn(&DemoCall) -> Timestamp,
        key: impl Fn(&DemoCall) -> K,
    ) -> DemoJudgement {
        let mut calls: Vec<(Timestamp, &DemoCall)> = self.calls.iter().map(|call| (instant(call), call)).collect();
        calls.sort_by_key(|(at, _)| *at);
        let (mut oracles, mut judgement) = (HashMap::new(), DemoJudgement::default());
        for (at, call) in calls {
            let oracle = oracles.entry(key(call)).or_insert_with(|| Oracle::new(quota));
            if call.decision.allowed {
                judgement.over_admitted += u64::from(oracle.admit(at, 1));
                judgement.fullest = judgement.fullest.max(oracle.units());
            } else {
                judgement.under_admitted += u64::from(oracle.has_room(at, 1));
            }
        }
        judgement
    }
}
