//! Leases: units that the store has charged to this agent, which spends them without asking again.
//!
//! The store charges leased units into the sub-window of its answer. Spent until that sub-window ends, they are in the
//! window of every later instant for exactly as long as units of calls that the store itself admits. Unspent units
//! leave with it.
//!
//! A lease ends
//! * with its sub-window, or with the term of units that the region has been granted, at the instant that the agent
//!   computes from the *sending* of the request, by its own clock, less the maximum drift between the two clocks: the
//!   store's clock cannot be later there than the agent believes. If the store counts by the window of newer rules, the
//!   sub-window is the store's: with the longer one of older rules, units would leave the store's window too early;
//! * with its generation, and when another limit applies to the caller;
//! * when a time sample contradicts the bounds of the store's time, when the connection is lost, when another process
//!   of the store answers, when the store has lost units, and when its clock steps. Each of these begins a new epoch of
//!   the agent (`time/lease_epoch`), and a lease has the number of the epoch in which it was *requested*;
//! * when the store has lost the counter.
//!
//! A call that several rules limit takes its units out of the leases before it asks the store about the other counters. Units
//! of a call in flight are in no lease, so that no other call spends them. If the call is denied, they return to the lease that
//! they come from, by its number, while it can be spent.
//!
//! While the store is away, leases are not spent: then the agents divide the units that its last answer left free. An agent that
//! has not noticed yet that the store is away may still spend its lease. No signal contains these units, so other agents take
//! the last answer of the store into account until the sub-window of that answer has ended.

use std::sync::Arc;
use std::time::Duration;

use tollgate_core::algorithm::{Limit, Verdict};
use tollgate_core::clock::Timestamp;
use tollgate_core::rules::Generation;

use super::lease_grant::{LeaseFacts, LeaseGrant, LeaseNumber, ends_at, last_at};
use crate::report::RuleCounts;
use crate::time::LeaseEpoch;

/// Lease of one counter, or the request for one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lease {
    /// Agent's own time until which a request for units is under way.
    asked_until: Timestamp,
    granted: Option<Granted>,
}

/// Units of a lease, and the conditions under which they may be spent.
#[derive(Clone, Debug)]
struct Granted {
    number: LeaseNumber,
    units: u64,
    /// Units that calls have taken which are not decided yet.
    in_flight: u64,
    /// Units of the quota that are left by the store's answer, less those that were spent.
    remaining: u64,
    reset_at: Timestamp,
    span: LeaseSpan,
    /// Agent's own time from which the span may have ended.
    ends_at: Timestamp,
    generation: Generation,
    limit: Limit,
    epoch: LeaseEpoch,
    /// True once the units that are left are counted as stranded.
    is_stranded: bool,
    /// Counts of the rule, which learn of the units that were never spent.
    counts: Arc<RuleCounts>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct LeasedCall {
    pub(crate) verdict: Verdict,
    pub(crate) span: LeaseSpan,
    /// Units that the lease pays, of the cost of the call.
    pub(crate) units: u64,
}

/// Units that a call has taken out of a lease. They are spent with its admission, and returned with its denial.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TakenUnits {
    pub(crate) units: u64,
    pub(crate) span: LeaseSpan,
    of: LeaseNumber,
}

/// Time in which a lease may be spent, in store time. It begins with the charge of the lease, and ends with its
/// sub-window or with the term of the units that the region has been granted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LeaseSpan {
    charged_at: Timestamp,
    last_at: Timestamp,
}

impl LeaseSpan {
    /// Returns the instant at which an admission counts: `at`, or the nearest one of the span.
    #[inline]
    pub(crate) fn nearest(self, at: Timestamp) -> Timestamp {
        at.max(self.charged_at).min(self.last_at)
    }

    /// Returns true if a step that is sent now and expires at `at` runs within the span, or not at all.
    pub(crate) fn lasts_until(self, at: Timestamp) -> bool {
        at <= self.last_at
    }

    fn common_with(self, other: Self) -> Self {
        Self { charged_at: self.charged_at.max(other.charged_at), last_at: self.last_at.min(other.last_at) }
    }
}

impl Lease {
    /// Returns true if it has no units that were charged after `at`, in store time.
    pub(super) fn was_charged_by(&self, at: Timestamp) -> bool {
        self.granted.as_ref().is_none_or(|granted| granted.span.charged_at <= at)
    }

    /// Returns the part of a call of this cost that the lease pays, and the verdict if that is all of it; nothing if the lease
    /// has no units or has ended.
    #[inline]
    pub(super) fn pays(&self, facts: &LeaseFacts<'_>, cost: u64) -> Option<LeasedCall> {
        let granted = self.granted.as_ref()?;
        let Granted { units, remaining, reset_at, span, .. } = *granted;
        let units = units.min(cost);
        let pays = units > 0 && granted.is_live(facts);
        pays.then(|| LeasedCall {
            verdict: Verdict {
                admitted: true,
                remaining: remaining.saturating_sub(units),
                retry_at: span.nearest(facts.store_now.latest),
                reset_at,
                delay_ms: 0,
            },
            span,
            units,
        })
    }

    #[inline]
    pub(super) fn spend(&mut self, cost: u64) {
        if let Some(granted) = &mut self.granted {
            granted.units = granted.units.saturating_sub(cost);
            granted.remaining = granted.remaining.saturating_sub(cost);
        }
    }

    /// Takes units out of the lease for a call that is not decided yet.
    pub(super) fn take(&mut self, units: u64) -> Option<TakenUnits> {
        self.spend(units);
        let granted = self.granted.as_mut()?;
        granted.in_flight = granted.in_flight.saturating_add(units);
        Some(TakenUnits { units, span: granted.span, of: granted.number })
    }

    /// Returns true if these units come from this lease, and it has not ended.
    pub(super) fn is_live_of(&self, taken: &TakenUnits, facts: &LeaseFacts<'_>) -> bool {
        self.granted.as_ref().is_some_and(|granted| granted.number == taken.of && granted.is_live(facts))
    }

    /// Notes that the call which has taken units is admitted.
    pub(super) fn taken_spent(&mut self, taken: &TakenUnits) {
        self.resolve(taken);
    }

    /// Returns the units of a call that was denied to the lease that they come from. Returns false if they cannot be spent any
    /// more.
    pub(super) fn give_back(&mut self, taken: &TakenUnits, facts: &LeaseFacts<'_>) -> bool {
        let Some(granted) = self.resolve(taken).filter(|granted| granted.is_live(facts)) else { return false };
        granted.units = granted.units.saturating_add(taken.units);
        granted.remaining = granted.remaining.saturating_add(taken.units);
        true
    }

    fn resolve(&mut self, taken: &TakenUnits) -> Option<&mut Granted> {
        let granted = self.granted.as_mut().filter(|granted| granted.number == taken.of)?;
        granted.in_flight = granted.in_flight.saturating_sub(taken.units);
        Some(granted)
    }

    /// Returns true if no request for units is under way.
    pub(super) fn may_ask(&self, own_now: Timestamp) -> bool {
        own_now >= self.asked_until
    }

    /// Notes that units are asked for.
    pub(super) fn ask(&mut self, own_now: Timestamp, deadline: Duration) {
        let deadline_ms = u64::try_from(deadline.as_millis()).unwrap_or(u64::MAX);
        self.asked_until = own_now.plus_ms(deadline_ms.max(1));
    }

    pub(super) fn granted(&mut self, grant: &LeaseGrant<'_>) {
        self.asked_until = Timestamp::default();
        let Some(mut new) = Granted::new(grant) else { return };
        match &mut self.granted {
            // Of the same sub-window, the earlier of the two ends is right for both.
            Some(known) if known.is_of(&new) && !known.is_stranded => {
                known.units = known.units.saturating_add(new.units);
                known.remaining = new.remaining;
                known.reset_at = new.reset_at;
                known.span = known.span.common_with(new.span);
                known.ends_at = known.ends_at.min(new.ends_at);
            }
            Some(known) if known.span.last_at > new.span.last_at && known.epoch == new.epoch => new.strand(),
            _ => {
                if let Some(mut ended) = self.granted.replace(new) {
                    ended.strand();
                }
            }
        }
    }

    pub(super) fn end(&mut self) {
        if let Some(mut ended) = self.granted.take() {
            ended.strand();
        }
    }

    /// Counts the units that are left as stranded if the lease is over at `now`, the earliest that the store's time may be. They
    /// stay known, because the store's count contains them.
    pub(super) fn count_stranded(&mut self, now: Timestamp) {
        if let Some(granted) = self.granted.as_mut().filter(|granted| granted.span.last_at < now) {
            granted.strand();
        }
    }

    /// Returns the units that are left or in flight, even if they cannot be spent any more.
    pub(super) fn unspent(&self) -> u64 {
        self.granted.as_ref().map_or(0, |granted| granted.units.saturating_add(granted.in_flight))
    }

    /// Returns true if no unit can be spent at `now`, the earliest that the store's time may be, or later.
    pub(super) fn is_over_at(&self, now: Timestamp) -> bool {
        self.granted.as_ref().is_none_or(|granted| granted.span.last_at < now)
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.end();
    }
}

impl Granted {
    fn new(grant: &LeaseGrant<'_>) -> Option<Self> {
        let LeaseGrant { number, charge, result, units, epoch, counts, .. } = *grant;
        if units == 0 {
            return None;
        }
        counts.lease_units.add(units);
        Some(Self {
            number,
            units,
            in_flight: 0,
            remaining: result.verdict.remaining,
            reset_at: result.verdict.reset_at,
            span: LeaseSpan { charged_at: result.at, last_at: last_at(grant) },
            ends_at: ends_at(grant),
            generation: charge.generation,
            limit: charge.limit,
            epoch,
            is_stranded: false,
            counts: counts.clone(),
        })
    }

    fn is_live(&self, facts: &LeaseFacts<'_>) -> bool {
        facts.own_now < self.ends_at
            && facts.store_now.earliest <= self.span.last_at
            && facts.generation == self.generation
            && facts.epoch == self.epoch
            && facts.policy.limit() == self.limit
    }

    /// Returns true if a newer lease is of the same sub-window. A lease of a counter that follows another window may be over
    /// before its sub-window ends.
    fn is_of(&self, newer: &Self) -> bool {
        let sub_window = |granted: &Self| granted.limit.window.sub_window(granted.span.charged_at);
        self.span.last_at >= newer.span.charged_at
            && (sub_window(self), self.generation, self.epoch, self.limit)
                == (sub_window(newer), newer.generation, newer.epoch, newer.limit)
    }

    /// Counts the units that were never spent, once.
    fn strand(&mut self) {
        if !self.is_stranded {
            self.is_stranded = true;
            self.counts.lease_units_stranded.add(self.units);
        }
    }
}
