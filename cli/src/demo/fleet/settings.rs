//! Parameters of the demo.

use std::time::Duration;

use tollgate::Quota;

pub(super) const AGENTS: u32 = 3;
pub(super) const CALLERS: u32 = 500;
pub(super) const QUOTA_UNITS: u64 = 100;
pub(super) const QUOTA_WIDTH_MS: u64 = 2_000;
/// Time between two calls of the abuser.
pub(super) const ABUSER_PERIOD_MS: u64 = 2;
pub(super) const LENGTH: Duration = Duration::from_secs(10);

pub(super) fn quota() -> Quota {
    Quota::new(QUOTA_UNITS, QUOTA_WIDTH_MS).expect("neither is zero")
}
