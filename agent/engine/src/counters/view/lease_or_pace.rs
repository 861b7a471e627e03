//! The lease of a counter, or its pace: only limits without a burst are leased, and only those with one are paced, so a view
//! has one pointer for both. After a change of the rules, the first use of the other one ends it; but the answer to an earlier
//! request for a lease does not end a pace, which holds the agent to its part while the store is away.

use tollgate_core::algorithm::{CounterState, Limit};
use tollgate_core::clock::Timestamp;

use super::lease::Lease;

#[derive(Clone, Debug, Default)]
pub(crate) struct LeaseOrPace(Option<Box<OneOfBoth>>);

#[derive(Clone, Debug)]
enum OneOfBoth {
    Lease(Lease),
    /// Meter of the units that the agent admitted from a burst while the store was away.
    Pace(CounterState),
}

impl LeaseOrPace {
    #[inline]
    pub(super) fn lease(&self) -> Option<&Lease> {
        if let Some(OneOfBoth::Lease(lease)) = self.0.as_deref() { Some(lease) } else { None }
    }

    #[inline]
    pub(super) fn lease_mut(&mut self) -> Option<&mut Lease> {
        if let Some(OneOfBoth::Lease(lease)) = self.0.as_deref_mut() { Some(lease) } else { None }
    }

    /// Returns the lease, which is an empty one at first. Other rules may have paced the counter before.
    pub(super) fn lease_or_new(&mut self) -> &mut Lease {
        if self.lease().is_none() {
            self.0 = Some(Box::new(OneOfBoth::Lease(Lease::default())));
        }
        self.lease_mut().expect("it was just set")
    }

    pub(super) fn end_lease(&mut self) {
        if self.lease().is_some() {
            self.0 = None;
        }
    }

    /// Ends a lease that was charged by `at`, in store time, and any pace.
    pub(super) fn end_before(&mut self, at: Timestamp) {
        if self.lease().is_none_or(|lease| lease.was_charged_by(at)) {
            self.0 = None;
        }
    }

    pub(crate) fn pace(&self) -> Option<&CounterState> {
        if let Some(OneOfBoth::Pace(pace)) = self.0.as_deref() { Some(pace) } else { None }
    }

    pub(super) fn pace_mut(&mut self) -> Option<&mut CounterState> {
        if let Some(OneOfBoth::Pace(pace)) = self.0.as_deref_mut() { Some(pace) } else { None }
    }

    /// Returns the meter, which is an unused one of this limit at first. Other rules may have leased the counter before.
    pub(super) fn pace_or_new(&mut self, limit: &Limit) -> &mut CounterState {
        if self.pace().is_none() {
            self.0 = Some(Box::new(OneOfBoth::Pace(CounterState::new(limit))));
        }
        self.pace_mut().expect("it was just set")
    }
}

#[cfg(test)]
mod tests {
    use tollgate_core::clock::Timestamp;
    use tollgate_core::counter::{Charge, CounterId, StoredCounter};
    use tollgate_core::rules::LimitPolicy;

    use super::super::lease_grant::LeaseGrant;
    use super::super::{CounterView, ViewEvent, update};
    use crate::report::EngineMetrics;
    use crate::time::LeaseEpoch;

    /// Without its meter, an agent could admit its part of a burst again.
    #[test]
    fn a_late_lease_of_earlier_rules_ends_no_pace() {
        let (at, policy) = (Timestamp::from_ms(1_000_000), LimitPolicy::of("100/min".parse().unwrap()));
        let (mut view, counts) = (CounterView::default(), EngineMetrics::default().of_rule(&"rule".into()));
        let charge = Charge::enforce(CounterId::from_u128(1), policy.limit(), 1, 1, at);
        let result = StoredCounter::new(&charge).evaluate(&charge, at);
        view.lease_or_pace.pace_or_new(&policy.limit()).step(&policy.limit(), at, 7);
        let (epoch, counts) = (LeaseEpoch::default(), &counts);
        let grant = LeaseGrant { number: 1, charge: &charge, result: &result, units: 5, sent_at: at, epoch, counts };
        update(&policy, &mut view, ViewEvent::LeaseGranted(grant));
        assert!(view.lease_or_pace.pace().is_some() && view.lease_or_pace.lease().is_none());
        assert_eq!(counts.lease_units_stranded.get(), 5);
    }
}
