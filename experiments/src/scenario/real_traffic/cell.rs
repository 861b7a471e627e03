//! Results of one fleet under one rule.

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TrafficCell {
    pub(super) calls: u64,
    pub(super) admitted: u64,
    pub(super) denied: u64,
    pub(super) over_admitted: u64,
    pub(super) under_admitted: u64,
    pub(super) worst_window: u64,
}
