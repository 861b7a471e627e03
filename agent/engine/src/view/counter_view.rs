//! What an agent has seen of one counter.

use tollgate_core::algorithm::CounterState;
use tollgate_core::clock::Timestamp;
use tollgate_core::messages::signals::{LogId, Offset};
use tollgate_core::rules::{LimitPolicy, OnFailure};
use tollgate_core::window::{Ring, Window};

use super::cached_denial::CachedDenial;
use super::local_usage::LocalUsage;

/// What an agent has seen of one counter: a denial, its own admissions, a signal, and the pace it kept alone.
#[derive(Clone, Debug, Default)]
pub(crate) struct CounterView {
    /// The last denial of the store.
    pub(crate) denial: Option<CachedDenial>,
    /// What the agent itself admitted.
    pub(crate) own: Option<Box<LocalUsage>>,
    /// What the aggregator said.
    pub(crate) signal: Option<Box<RemoteCount>>,
    /// What the agent let pass of a bucket while the store was away.
    pub(crate) alone: Option<Box<CounterState>>,
}

/// The last signal of a counter.
#[derive(Clone, Debug)]
pub(crate) struct RemoteCount {
    /// Of which log it counts.
    pub(crate) log: LogId,
    /// Up to which offset of it.
    pub(crate) as_of: Offset,
    /// Admitted units per sub-window.
    pub(crate) admitted: Ring,
    /// The time of the newest charge that it counts.
    pub(crate) newest_at: Timestamp,
}

impl CounterView {
    /// What the agent itself admitted, over the window in which these policy' `on_failure` looks back.
    pub(crate) fn own(&mut self, policy: &LimitPolicy) -> &mut LocalUsage {
        let window = look_back(policy);
        let own = self.own.get_or_insert_with(|| Box::new(LocalUsage::new(window)));
        own.fit(window);
        own
    }

    /// Takes back units that the agent let pass at `at`.
    pub(crate) fn refund(&mut self, policy: &LimitPolicy, at: Timestamp, units: u64) {
        self.own(policy).refund(at, units);
        if let Some(meter) = &mut self.alone {
            meter.refund(at, units);
        }
    }

    /// Whether something passed that the store was not asked for.
    #[must_use]
    pub(crate) fn has_unsynced(&self) -> bool {
        self.own.as_ref().is_some_and(|own| own.has_unsynced())
    }

    /// Whether nothing here matters any more.
    #[must_use]
    pub(crate) fn is_idle_at(&self, now: Timestamp) -> bool {
        self.denial.is_none_or(|denial| denial.until <= now)
            && self.own.as_ref().is_none_or(|own| own.is_idle_at(now))
            && self.signal.as_ref().is_none_or(|told| told.admitted.is_empty_at(now))
            && self.alone.as_ref().is_none_or(|meter| meter.is_idle_at(now))
    }
}

fn look_back(policy: &LimitPolicy) -> Window {
    match policy.on_failure {
        OnFailure::Limit(quota) => Window::with_default_parts(quota.width_ms()).unwrap_or(policy.window),
        _ => policy.window,
    }
}
