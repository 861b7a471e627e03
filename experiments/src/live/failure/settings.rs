//! Parameters that are fixed.

use std::num::NonZeroU32;
use std::time::Duration;

pub(super) const QUOTA: u64 = 100;
/// Quota of the tenant of the callers of a fleet and rule, in the same window. At 3,000 calls/s they use up to 3,300 units, and an agent's
/// part has room for all of them.
pub(super) const TENANT_QUOTA: u64 = 40_000;
/// Quota that two abusers share, and that of a rule in shadow, which denies nobody, in the same window.
pub(super) const SHARED_QUOTA: u64 = 150;
pub(super) const WATCHED_QUOTA: u64 = 20;
pub(super) const WIDTH_MS: u64 = 5_000;
pub(super) const FAULT_LENGTH: Duration = Duration::from_secs(3);
/// Time after the recovery until the next fault: a window and a margin.
pub(super) const PAUSE: Duration = Duration::from_millis(WIDTH_MS + 500);
pub(super) const TOPIC_PREFIX: &str = "failure-";
/// Number of agents of a fleet; the callers are spread over them.
pub(super) const AGENTS: usize = FLEET_SIZE.get() as usize;
/// Number of agents that each agent expects.
pub(super) const FLEET_SIZE: NonZeroU32 = NonZeroU32::new(3).unwrap();
