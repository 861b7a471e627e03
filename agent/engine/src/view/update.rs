//! The changes of a view: one function per way in which the agent learns about a counter.
//!
//! [`update`] applies an event after a decision, a correction, a backfill or a signal. [`update_in_step`] applies the result of
//! a charge; with counts in the engine's own table, under the same lock as the charge.

use tollgate_core::clock::Timestamp;
use tollgate_core::counter::{Charge, ChargeMode, ChargeResult};
use tollgate_core::messages::signals::{LogId, Offset, Signal};
use tollgate_core::rules::LimitPolicy;

use super::cached_denial::CachedDenial;
use super::counter_view::{CounterView, RemoteCount};
use super::uncovered::Sequence;

/// Event that changes the view of a counter.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ViewEvent<'a> {
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
    /// The store charged a call, or a settlement reported more units than were charged.
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
    /// The counter is queued for a backfill.
    BackfillQueued,
    /// The unsynced units were sent to the store.
    BackfillSent,
    /// The units that were sent are charged, or may be, or never will be.
    BackfillEnded,
    /// The units that were sent are not charged.
    BackfillFailed,
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
        ViewEvent::AdmittedLocally { at, cost, sequence, is_unsynced } => {
            let local = view.local(policy);
            local.published(at, cost, sequence);
            if is_unsynced {
                local.add_unsynced(at, cost);
            }
        }
        ViewEvent::Withdrawn { at, cost } => refund(policy, view, at, cost),
        ViewEvent::Used { at, units, sequence, is_unsynced } => {
            let local = view.local(policy);
            local.admit(at, units, sequence);
            if is_unsynced {
                local.add_unsynced(at, units);
            }
        }
        ViewEvent::Refunded { at, units, is_unsynced } => {
            if is_unsynced {
                view.local(policy).remove_unsynced(at, units);
            }
            refund(policy, view, at, units);
            view.denial = None;
        }
        ViewEvent::UnsyncedRefunded { at, units } => {
            view.local(policy).remove_unsynced(at, units);
            refund(policy, view, at, units);
        }
        ViewEvent::BackfillQueued => view.local(policy).is_queued = true,
        ViewEvent::BackfillSent => view.local(policy).backfill_sent(),
        ViewEvent::BackfillEnded => view.local(policy).backfill_ended(),
        ViewEvent::BackfillFailed => view.local(policy).backfill_failed(),
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

/// Changes a view by the result of a charge: keeps a denial, and drops it after a refund. Units that were charged are
/// [`ViewEvent::Used`]; the own table keeps no local usage, because nothing else ever decides there.
pub(crate) fn update_in_step(view: &mut CounterView, charge: &Charge, result: &ChargeResult) {
    if matches!(charge.mode, ChargeMode::Refund { .. }) {
        view.denial = None;
    } else if !result.charged && !result.verdict.admitted {
        view.denial = Some(CachedDenial::new(result, charge.limit, charge.generation, charge.cost));
    }
}

/// Changes a view when the store's clock has stepped back: a denial in store time may hold too long.
pub(crate) fn clock_stepped_back(view: &mut CounterView) {
    view.denial = None;
}

fn refund(policy: &LimitPolicy, view: &mut CounterView, at: Timestamp, units: u64) {
    view.local(policy).refund(at, units);
    if let Some(pace) = &mut view.pace {
        pace.refund(at, units);
    }
}
