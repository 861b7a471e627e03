//! Baseline: sticky sessions. Each caller is hashed to one of the running nodes, which alone counts it. A node that joins takes
//! callers over without their counts, and one that leaves loses them.

use std::collections::BTreeMap;

use tollgate_core::rendezvous;
use tollgate_core::rules::Quota;
use tollgate_sim::oracle::Oracle;

use super::course::Course;
use super::settings::ScaleOutSettings;
use super::timeline::ScaleOutCall;
use crate::scenario::arrivals::BEGIN;

/// Decides the calls at nodes that count exactly and share nothing. Rendezvous hashing moves as few callers as possible.
pub(super) fn sticky(settings: &ScaleOutSettings, quota: Quota, calls: &[ScaleOutCall]) -> Course {
    let mut course = Course::default();
    let mut nodes: BTreeMap<(usize, u64), Oracle> = BTreeMap::new();
    let mut callers: Vec<Oracle> = (0..settings.callers).map(|_| Oracle::new(quota)).collect();
    let mut calls = calls.iter().peekable();
    for second in 0..settings.seconds() {
        let (running, end) = (settings.agents_at(second), BEGIN.plus_ms((second + 1) * 1_000));
        nodes.retain(|(node, _), _| *node < running);
        let tally = if second < settings.peak_end_s() { &mut course.joining } else { &mut course.leaving };
        while let Some(ScaleOutCall { at, caller, .. }) = calls.next_if(|call| call.at < end) {
            let weight = |node: &usize| rendezvous::weight(&node.to_string(), 0, u128::from(*caller));
            let node = (0..running).max_by_key(weight).unwrap_or_default();
            let count = nodes.entry((node, *caller)).or_insert_with(|| Oracle::new(quota));
            if count.has_room(*at, 1) {
                count.admit(*at, 1);
                let caller = &mut callers[usize::try_from(*caller).unwrap_or_default()];
                caller.admit(*at, 1);
                tally.admitted += 1;
                tally.worst_window = tally.worst_window.max(caller.units());
            }
        }
        let units = |caller: &mut Oracle| {
            caller.move_to(end);
            caller.units()
        };
        course.fullest.push(callers.iter_mut().map(units).max().unwrap_or_default());
    }
    course
}

#[cfg(test)]
mod tests {
    use super::super::tests::small;
    use super::*;

    #[test]
    fn callers_are_admitted_again_at_nodes_that_join() {
        let fullest = |agents| {
            let settings = ScaleOutSettings { agents, callers: 8, ..small() };
            sticky(&settings, "10/min".parse().unwrap(), &settings.calls(1)).joining.worst_window
        };
        assert_eq!(fullest([6, 6]), 10, "nobody moves");
        assert!(fullest([1, 30]) > 10);
    }
}
