//! The changes of a view: one function per way in which the agent learns about a counter.
//!
//! [`update`] applies an event: an admission that was planned, a decision, a correction, a backfill or a signal.
//! [`update_in_step`] applies the result of a charge to counts in the engine's own table, under the same lock as the charge.

use tollgate_core::algorithm::{CounterState, Limit};
use tollgate_core::clock::Timestamp;
use tollgate_core::counter::{Charge, ChargeMode, ChargeResult};
use tollgate_core::messages::signals::{LogId, Offset, Signal};
use tollgate_core::rules::{Generation, LimitPolicy};

use super::cached_denial::CachedDenial;
use super::counter_view::{CounterView, RemoteCount};
use super::uncovered::{CoveredBatches, Sequence};
use super::unsynced_units::BackfillStep;
use crate::time_bounds::TimeBounds;

/// Event that changes the view of a counter.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ViewEvent<'a> {
    /// The store evaluated a charge.
    Charged {
        /// Result of the charge.
        result: &'a ChargeResult,
        /// Units that count for this call.
        cost: u64,
        /// Cost that the store evaluated.
        evaluated_cost: u64,
        /// Generation of the charge.
        generation: Generation,
        /// Batch that publishes the charge.
        sequence: Sequence,
    },
    /// The plan admits a call without the store.
    Planned {
        /// Bounds of the store's time.
        now: TimeBounds,
        /// Units.
        cost: u64,
        /// Limit of the meter that paces the admission.
        pace: Option<Limit>,
        /// Own batches that fresh signals contain, if signals decide.
        covered: Option<&'a CoveredBatches>,
    },
    /// A call was admitted without the store.
    AdmittedLocally {
        /// Instant under which the plan entered the units.
        at: Timestamp,
        /// Units.
        cost: u64,
        /// Batch that publishes them.
        sequence: Sequence,
        /// True if the store must be told; false if it may have charged them.
        is_unsynced: bool,
    },
    /// The plan had entered units, but another counter denied the call.
    Withdrawn {
        /// Instant under which the plan entered the units.
        at: Timestamp,
        /// Units.
        cost: u64,
    },
    /// A settlement reported more units than were charged.
    Used {
        /// Instant at which they count.
        at: Timestamp,
        /// Units.
        units: u64,
        /// Batch that publishes them.
        sequence: Sequence,
        /// True if the store must be told.
        is_unsynced: bool,
    },
    /// Units were refunded.
    Refunded {
        /// Instant of their charge.
        at: Timestamp,
        /// Units.
        units: u64,
        /// True if the store may not know of the refund: it also applies to units that are being backfilled.
        is_unsynced: bool,
    },
    /// Unsynced units were refunded, so the store need not be told.
    UnsyncedRefunded {
        /// Instant of their admission.
        at: Timestamp,
        /// Units.
        units: u64,
    },
    /// A backfill has made progress. A counter without units leaves the queue when the others are sent.
    Backfill(BackfillStep),
    /// A signal has arrived.
    Signal {
        /// The signal.
        signal: &'a Signal,
        /// Log whose records it counts.
        log: LogId,
        /// Last offset of `calls` that it counts.
        as_of: Offset,
    },
}

/// Changes a view by an event.
pub(crate) fn update(policy: &LimitPolicy, view: &mut CounterView, event: ViewEvent<'_>) {
    match event {
        ViewEvent::Charged { result, cost, sequence, .. } if result.charged && !result.repeated => {
            view.local(policy).admit(result.at, cost, sequence);
        }
        ViewEvent::Charged { result, evaluated_cost, generation, .. } if !result.verdict.admitted => {
            view.denial = Some(CachedDenial::new(result, policy.limit(), generation, evaluated_cost));
        }
        // The counter had room, but another counter denied the call.
        ViewEvent::Charged { .. } => {}
        ViewEvent::Planned { now, cost, pace, covered } => {
            let local = view.local(policy);
            if let Some(covered) = covered {
                local.uncovered.forget_covered(covered, now.earliest, policy.window.width_ms());
            }
            local.admit(now.latest, cost, Sequence::Unknown);
            if let Some(limit) = pace {
                let meter = view.pace.get_or_insert_with(|| Box::new(CounterState::new(&limit)));
                meter.step(&limit, now.earliest, cost);
            }
        }
        ViewEvent::AdmittedLocally { at, cost, sequence, is_unsynced } => {
            view.local(policy).uncovered.published(at, cost, sequence);
            add_unsynced(policy, view, at, cost, is_unsynced);
        }
        ViewEvent::Withdrawn { at, cost } => refund(policy, view, at, cost, false),
        ViewEvent::Used { at, units, sequence, is_unsynced } => {
            view.local(policy).admit(at, units, sequence);
            add_unsynced(policy, view, at, units, is_unsynced);
        }
        ViewEvent::Refunded { at, units, is_unsynced } => {
            refund(policy, view, at, units, is_unsynced);
            forget_denial(view);
        }
        ViewEvent::UnsyncedRefunded { at, units } => refund(policy, view, at, units, true),
        ViewEvent::Backfill(step) => {
            view.unsynced.iter_mut().for_each(|unsynced| unsynced.backfill(step));
            view.unsynced.take_if(|unsynced| unsynced.is_empty());
        }
        ViewEvent::Signal { signal, log, as_of } => {
            // An older signal changes nothing; offsets of different logs cannot be compared.
            if view.remote.as_ref().is_none_or(|remote| remote.log != log || remote.as_of <= as_of) {
                view.remote = Some(Box::new(RemoteCount {
                    log,
                    as_of,
                    admitted: signal.admitted.clone(),
                    newest_at: signal.newest_at,
                }));
            }
        }
    }
}

/// Changes a view by the result of a charge to counts in the same table. Local usage is not kept then, because nothing else
/// ever decides.
pub(crate) fn update_in_step(view: &mut CounterView, charge: &Charge, result: &ChargeResult) {
    if matches!(charge.mode, ChargeMode::Refund { .. }) {
        forget_denial(view);
    } else if !result.charged && !result.verdict.admitted {
        view.denial = Some(CachedDenial::new(result, charge.limit, charge.generation, charge.cost));
    }
}

/// Drops the cached denial: the store's clock has stepped back, or units were refunded.
pub(crate) fn forget_denial(view: &mut CounterView) {
    view.denial = None;
}

fn add_unsynced(policy: &LimitPolicy, view: &mut CounterView, at: Timestamp, units: u64, is_unsynced: bool) {
    if is_unsynced {
        let part_ms = view.local(policy).ring.window().part_ms();
        view.unsynced.get_or_insert_default().add(at, units, part_ms);
    }
}

fn refund(policy: &LimitPolicy, view: &mut CounterView, at: Timestamp, units: u64, is_unsynced: bool) {
    if is_unsynced && let Some(unsynced) = &mut view.unsynced {
        unsynced.remove(at, units);
    }
    view.local(policy).refund(at, units);
    if let Some(pace) = &mut view.pace {
        pace.refund(at, units);
    }
}
