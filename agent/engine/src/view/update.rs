//! What news change in what was seen of a counter.

use tollgate_core::clock::Timestamp;
use tollgate_core::messages::signals::{LogId, Offset, Signal};
use tollgate_core::rules::{Generation, LimitPolicy};

use super::cached_denial::CachedDenial;
use super::counter_view::{CounterView, RemoteCount};
use super::local_usage::Sequence;
use tollgate_core::counter::ChargeResult;

/// Something that an agent hears of a counter.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ViewEvent<'a> {
    /// The store answered a question about `cost` units.
    ChargeResult {
        /// The answer.
        taken: &'a ChargeResult,
        /// Of the question.
        cost: u64,
        /// Of the question.
        generation: Generation,
        /// Which batch publishes the charge.
        sequence: Sequence,
    },
    /// A call passed that the agent answered without the store, and this batch publishes it.
    PassedAlone {
        /// The time under which the plan entered it.
        at: Timestamp,
        /// Units.
        cost: u64,
        /// Which batch.
        sequence: Sequence,
        /// Whether the store must be told; not when it was asked and may have charged it.
        unsynced: bool,
    },
    /// The plan had admitted it without the store, but another counter denied the call.
    Spared {
        /// The time under which the plan entered it.
        at: Timestamp,
        /// Units.
        cost: u64,
    },
    /// The aggregator says how full the counter is.
    Signal {
        /// What it says.
        signal: &'a Signal,
        /// Of which log.
        log: LogId,
        /// Up to which offset of `calls` that counts.
        as_of: Offset,
    },
}

/// Takes news into account.
pub(crate) fn update(policy: &LimitPolicy, seen: &mut CounterView, news: ViewEvent<'_>) {
    match news {
        ViewEvent::ChargeResult { taken, cost, sequence, .. } if taken.charged && !taken.repeated => {
            seen.own(policy).admit(taken.at, cost, sequence);
        }
        ViewEvent::ChargeResult { taken, cost, generation, .. } if !taken.verdict.admitted => {
            seen.denial = Some(CachedDenial::of(taken, policy, generation, cost));
        }
        // Had room, but another counter of the call denied.
        ViewEvent::ChargeResult { .. } => {}
        ViewEvent::PassedAlone { at, cost, sequence, unsynced } => {
            let own = seen.own(policy);
            own.published(at, cost, sequence);
            if unsynced {
                own.owe(at, cost);
            }
        }
        ViewEvent::Spared { at, cost } => seen.refund(policy, at, cost),
        ViewEvent::Signal { signal, log, as_of } => {
            // What is older than what is known changes nothing; offsets of another log cannot be compared.
            if seen.signal.as_ref().is_none_or(|told| told.log != log || told.as_of <= as_of) {
                seen.signal = Some(Box::new(RemoteCount {
                    log,
                    as_of,
                    admitted: signal.admitted.clone(),
                    newest_at: signal.newest_at,
                }));
            }
        }
    }
}
