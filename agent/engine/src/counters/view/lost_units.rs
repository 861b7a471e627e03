//! Lost units: units that the store acknowledged, that are still inside the window, and that the store does not hold.
//!
//! The answer to a charge tells the birth of the stored counter and the instant of the step before. A young counter
//! alone proves nothing, because a value also expires once all its units have left. A store keeps a counter for a
//! window after its last charge, so it has lost one if it acknowledged a charge within the window that lies before the
//! counter's birth, or after the step before: to this agent, or to others by a signal. Not taken for evidence: units
//! that are counted and that the store has not acknowledged, because another agent may still enter them; instants of
//! before the store's clock was set back, and counters that were re-based then; and charges under another window,
//! because the counter may have expired by that one. A rule with `on_failure: limit` over a window of its own keeps the
//! agent's own charges by that window: its losses are seen in signals only. After a loss of the whole store that a
//! witness has shown, the first answer about each counter is not believed either, because a replica
//! may hold an older value of it.

use tollgate_core::algorithm::{Algorithm, CounterState};
use tollgate_core::clock::Timestamp;
use tollgate_core::rules::LimitPolicy;
use tollgate_core::window::Ring;

use super::acknowledgement::Acknowledgement;
use super::counter_view::CounterView;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LostUnits {
    /// Store time at which it was noticed.
    pub(crate) noticed: Timestamp,
    /// Count with which the counter opens at least.
    pub(crate) floor: u64,
}

impl CounterView {
    /// Returns the loss, if the store lacks units of the counter. It is called before the charge is entered.
    pub(crate) fn lost_units(&self, policy: &LimitPolicy, answer: &Acknowledgement) -> Option<LostUnits> {
        let (at, width_ms) = (answer.at, policy.window.width_ms());
        let local = self.local.as_ref();
        let acknowledged = local.map_or(Timestamp::default(), |local| local.acknowledged);
        let is_first_since_loss = acknowledged < answer.lost_before && at < answer.lost_before.plus_ms(width_ms);
        let own = local.filter(|local| local.ring.window() == policy.window).map(|local| local.acknowledged);
        let own = own.filter(|charged| *charged > answer.own_proves_after);
        let remote = self.remote.as_ref().filter(|remote| remote.admitted.window() == policy.window);
        let remote = remote.map(|remote| remote.charged_at).filter(|charged| *charged > answer.proves_after);
        let charged = own.max(remote).unwrap_or_default();
        let is_in_window = charged < at && charged.plus_ms(width_ms) > at;
        let is_behind = charged < answer.born || charged > answer.previous;
        let is_lost = is_first_since_loss || answer.is_comparable() && is_in_window && is_behind;
        let has_signal = self.remote.as_ref().is_some_and(|remote| !remote.admitted.is_empty_at(at));
        let floor = if is_first_since_loss && !has_signal { answer.floor } else { 0 };
        (is_lost && (floor > 0 || self.known_units(policy, at).is_some())).then_some(LostUnits { noticed: at, floor })
    }

    /// Returns the units that the counter had in the window at `at`, by the latest signal and by the agent's own
    /// admissions. The larger count of each sub-window is taken. Returns none if no units are known.
    pub(crate) fn known_units(&self, policy: &LimitPolicy, at: Timestamp) -> Option<Ring> {
        let mut known = Ring::new(policy.window);
        known.roll_to(policy.window.sub_window(at));
        let local = self.local.as_ref().map(|local| &local.ring);
        let remote = self.remote.as_ref().map(|remote| &remote.admitted);
        for ring in local.into_iter().chain(remote) {
            let carried;
            let ring = if ring.window() == policy.window {
                ring
            } else {
                carried = ring.carried_to(policy.window);
                &carried
            };
            for (sub_window, units) in ring.counts() {
                known.add(sub_window, units.saturating_sub(known.get(sub_window)));
            }
        }
        let is_known = known.counts().next().is_some();
        is_known.then_some(known)
    }
}

/// Returns the instants and counts by which a counter with these units is opened again. A bucket opens with the level
/// to which they would have filled it.
pub(crate) fn reopening(policy: &LimitPolicy, known: &Ring, now: Timestamp) -> Vec<(Timestamp, u64)> {
    let window = known.window();
    let latest = |sub_window| window.end_of(sub_window).min(now);
    let counts = known.counts().map(|(sub_window, units)| (latest(sub_window), units));
    if !matches!(policy.algorithm, Algorithm::TokenBucket | Algorithm::LeakyBucket) {
        return counts.collect();
    }
    let mut bucket = CounterState::new(&policy.limit());
    counts.for_each(|(at, units)| bucket.charge(at, units));
    bucket.advance(&policy.limit(), now);
    vec![(now, bucket.held_around(now))]
}

#[cfg(test)]
mod tests {
    use tollgate_core::rules::{OnFailure, Rule};

    use super::super::counter_view::RemoteCount;
    use super::super::flow::Flow;
    use super::super::signal_parts::SignalParts;
    use super::*;

    const QUOTA: &str = "100/min";

    const fn at(ms: u64) -> Timestamp {
        Timestamp::from_ms(1_000_000 + ms)
    }

    fn policy(quota: &str) -> LimitPolicy {
        let rule = Rule::per("r", &["k"], quota.parse().expect("a quota"));
        *rule.all_policies().next().expect("a policy")
    }

    fn answer(ms: u64, born_ms: u64, previous_ms: u64) -> Acknowledgement {
        let (lost_before, proves_after, own_proves_after) = Default::default();
        let (born, previous) = (at(born_ms), at(previous_ms));
        Acknowledgement { at: at(ms), born, previous, proves_after, own_proves_after, lost_before, floor: 0 }
    }

    /// A view with a charge that the store acknowledged to this agent, and a signal with one that it acknowledged to
    /// another.
    fn view(policy: &LimitPolicy, own_ms: Option<u64>, signalled_ms: Option<u64>) -> CounterView {
        let mut view = CounterView::default();
        if let Some(ms) = own_ms {
            let local = view.local(policy);
            local.admit(at(ms), 1, None);
            local.acknowledge(&answer(ms, ms, ms));
        }
        view.remote = signalled_ms.map(|ms| {
            let mut admitted = Ring::new(policy.window);
            admitted.add(policy.window.sub_window(at(ms)), 1);
            let flow = Flow::new(std::iter::empty(), 1);
            let (newest_at, charged_at, parts) = (at(ms), at(ms), SignalParts::default());
            Box::new(RemoteCount { admitted, newest_at, charged_at, flow, parts })
        });
        view
    }

    /// I12: a charge that was acknowledged before the birth of the counter, or after its last step, is lost. Nothing
    /// else is.
    #[test]
    fn a_counter_is_lost_if_it_lacks_an_acknowledged_charge_of_the_window() {
        // Name, own and signalled charge, the answer's instant, the counter's birth and its step before, and the result.
        type Case = (&'static str, Option<u64>, Option<u64>, (u64, u64, u64), bool);
        let cases: [Case; 11] = [
            ("nothing is known", None, None, (90, 90, 90), false),
            ("the value is as old as the charge", Some(50), None, (90, 50, 50), false),
            ("others have charged since", Some(50), Some(60), (90, 10, 70), false),
            ("a value that was deleted", Some(50), None, (90, 90, 90), true),
            ("deleted, and another agent was first", Some(50), None, (90, 60, 70), true),
            ("a replica that lacks the charge", Some(50), None, (90, 10, 40), true),
            ("deleted, by a signal", None, Some(50), (90, 90, 90), true),
            ("a replica that lacks a signalled charge", None, Some(50), (90, 10, 40), true),
            ("the charge has left the window", Some(50), Some(50), (60_050, 60_050, 60_050), false),
            ("it has not yet", Some(50), None, (60_049, 60_049, 60_049), true),
            ("an answer that overtook another", Some(50), None, (45, 10, 40), false),
        ];
        let policy = policy(QUOTA);
        for (name, own, signalled, (ms, born, previous), is_lost) in cases {
            let lost = view(&policy, own, signalled).lost_units(&policy, &answer(ms, born, previous));
            assert_eq!(lost, is_lost.then_some(LostUnits { noticed: at(ms), floor: 0 }), "{name}");
        }
    }

    /// A store drops a counter by the window of its last charge, so a charge under another window proves nothing.
    #[test]
    fn a_charge_under_the_window_of_other_rules_proves_nothing() {
        let (before, after) = (policy("100/1s"), policy("100/2s"));
        for (then, is_lost) in [(&after, true), (&before, false)] {
            let mut view = view(then, Some(50), None);
            view.local(&after).admit(at(1_400), 1, None);
            assert_eq!(view.lost_units(&after, &answer(1_900, 1_500, 1_500)).is_some(), is_lost, "{then:?}");
        }
    }

    #[test]
    fn instants_that_cannot_be_compared_prove_nothing() {
        let this = policy(QUOTA);
        let lost = answer(90, 90, 90);
        let mut own_window = policy(QUOTA);
        own_window.on_failure = OnFailure::Limit("10/s".parse().expect("a quota"));
        // Name, policy of the charges and of the answer, and the answer.
        let cases = [
            ("re-based", &this, &this, Acknowledgement { born: Timestamp::default(), ..lost }),
            (
                "the clock was set back",
                &this,
                &this,
                Acknowledgement { proves_after: at(50), own_proves_after: at(50), ..lost },
            ),
            ("another window", &policy("100/h"), &this, lost),
        ];
        for (name, charged, policy, answer) in cases {
            assert_eq!(view(charged, Some(50), Some(50)).lost_units(policy, &answer), None, "{name}");
        }
        let ahead = Acknowledgement { proves_after: at(3_600_000), ..lost };
        let found = view(&this, Some(50), None).lost_units(&this, &ahead);
        assert!(found.is_some(), "own charges are forgotten with a large step, and later ones prove a loss");
        let of_limit = |own, signalled| view(&own_window, own, signalled).lost_units(&own_window, &lost);
        assert!(of_limit(Some(50), None).is_none() && of_limit(None, Some(50)).is_some());
    }

    /// I10: after a witnessed loss, the first answer opens the counter, and the second does not.
    #[test]
    fn the_first_answer_after_a_witnessed_loss_is_not_believed() {
        let policy = policy(QUOTA);
        let answer = |ms| Acknowledgement { lost_before: at(100), floor: 50, ..answer(ms, 10, ms - 1) };
        let mut view = view(&policy, Some(50), None);
        assert_eq!(view.lost_units(&policy, &answer(120)), Some(LostUnits { noticed: at(120), floor: 50 }));
        view.local(&policy).acknowledge(&answer(120));
        assert_eq!(view.lost_units(&policy, &answer(130)), None);
        let unknown = CounterView::default();
        assert_eq!(unknown.lost_units(&policy, &answer(120)), Some(LostUnits { noticed: at(120), floor: 50 }));
        assert_eq!(unknown.lost_units(&policy, &answer(60_100)), None, "a window later");
    }
}
