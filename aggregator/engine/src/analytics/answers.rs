//! Answers of the view of the fleet.

use std::sync::Arc;

use tollgate_core::clock::Timestamp;
use tollgate_core::messages::rollups::{LimitUse, Totals};

/// Order of callers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallersOrder {
    /// Most denied calls first.
    Denied,
    /// Most calls first.
    Calls,
    /// Fullest limit first.
    Near,
    /// Newest first denial first, of the callers that were not denied before the rules changed.
    New,
}

/// Sums of one caller under one rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallerSums {
    /// Name of the rule.
    pub rule: Arc<str>,
    /// Label of the caller.
    pub caller: Arc<str>,
    /// Sums of the minutes that were asked for.
    pub totals: Totals,
    /// State of the limit; `used` is of the last seconds, and `missing_max` is of the minutes that were asked for.
    pub limit: LimitUse,
    /// Minute of the first denial and of the last.
    pub denied_from: Option<(Timestamp, Timestamp)>,
}

/// State of one rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleState {
    /// Name of the rule.
    pub rule: Arc<str>,
    /// Sums of the last 60 s.
    pub last_minute: Totals,
    /// Largest quota with its window, newest generation, and number of callers in the newest minute.
    pub limit: LimitUse,
    /// Time at which this generation was first used, if it was seen to change.
    pub changed_at: Option<Timestamp>,
}

impl CallerSums {
    /// Returns the part of the quota that is used, in thousandths.
    #[must_use]
    pub fn permille(&self) -> u64 {
        self.limit.used.unwrap_or(0).saturating_mul(1_000) / self.limit.quota.max(1)
    }
    /// Returns the number by which an order ranks callers, the largest first.
    pub(super) fn rank_by(&self, order: CallersOrder) -> u64 {
        match order {
            CallersOrder::Denied => self.totals.denied(),
            CallersOrder::Calls => self.totals.calls(),
            CallersOrder::Near => self.permille(),
            CallersOrder::New => self.denied_from.map_or(0, |(first, _)| first.as_ms()),
        }
    }
}
