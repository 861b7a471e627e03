//! Counter of a row for the bus, with the numbers by which a signal describes it.

use tollgate_core::counter::CounterId;
use tollgate_core::rules::LimitPolicy;
use tollgate_core::window::Window;

/// Counter of a row, with what its description needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChargedCounter {
    pub(crate) id: CounterId,
    pub(crate) rule: usize,
    /// Quota in units, over all regions.
    pub(crate) quota: u64,
    pub(crate) window: Window,
}

impl ChargedCounter {
    pub(crate) fn new(id: CounterId, rule: usize, policy: &LimitPolicy) -> Self {
        Self { id, rule, quota: policy.units_over_regions(), window: policy.window }
    }
}
