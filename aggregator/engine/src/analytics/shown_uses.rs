//! The use of their quotas by callers that are near their limit, of the last seconds.

use std::collections::HashMap;

use foldhash::fast::RandomState;
use tollgate_core::clock::Timestamp;
use tollgate_core::messages::rollups::LimitUse;

use super::denied_callers::CallerName;

/// Age up to which a use is shown, in ms.
const SHOWN_MS: u64 = 5_000;
/// Maximum number of callers.
const USES_LEN_MAX: usize = 10_000;

#[derive(Clone, Debug, Default)]
pub(super) struct ShownUses(HashMap<CallerName, (Timestamp, LimitUse), RandomState>);

impl ShownUses {
    /// Notes the state of a limit, if it tells the use.
    pub(super) fn note(&mut self, name: CallerName, limit: LimitUse, now: Timestamp) {
        if limit.used.is_some() && (self.0.len() < USES_LEN_MAX || self.0.contains_key(&name)) {
            self.0.insert(name, (now, limit));
        }
    }

    /// Returns the state of a caller's limit, without calls that are missing in its sums: the sums of the open minute have them.
    pub(super) fn get(&self, name: &CallerName, now: Timestamp) -> Option<LimitUse> {
        let (seen, used) = self.0.get(name)?;
        (now.ms_since(*seen) <= SHOWN_MS).then_some(LimitUse { missing_max: 0, ..*used })
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &CallerName> {
        self.0.keys()
    }

    /// Forgets uses that are not shown any more, and those that were noted before the clock was set back.
    pub(super) fn forget_old(&mut self, now: Timestamp) {
        self.0.retain(|_, (seen, _)| now.as_ms().abs_diff(seen.as_ms()) <= SHOWN_MS);
    }
}
