//! State of the limit of one descriptor, as Envoy's API shows it, and the units of limits.

use tollgate_core::decision::{Decision, LimitKind, LimitStatus};

/// Windows with a unit in Envoy's API, in ms.
const UNITS: [(u64, LimitUnit); 7] = [
    (1_000, LimitUnit::Second),
    (60_000, LimitUnit::Minute),
    (3_600_000, LimitUnit::Hour),
    (86_400_000, LimitUnit::Day),
    (7 * 86_400_000, LimitUnit::Week),
    (30 * 86_400_000, LimitUnit::Month),
    (365 * 86_400_000, LimitUnit::Year),
];

/// State of the limit of one descriptor, as Envoy's API shows it.
pub struct DescriptorStatus<'d> {
    /// True if the descriptor is over its limit.
    pub is_over_limit: bool,
    /// The deciding limit; none if no rule applies.
    pub limit: Option<CurrentLimit<'d>>,
}

/// A limit.
pub struct CurrentLimit<'d> {
    /// Name of the rule.
    pub name: &'d str,
    /// Quota in units, at most what the API has room for.
    pub requests_per_unit: u32,
    /// Window of the quota.
    pub unit: LimitUnit,
    /// Units that are left.
    pub remaining: u32,
    /// Time until the whole quota is free again, in ms.
    pub reset_ms: u64,
}

/// Unit of a limit. The numbers are those of the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitUnit {
    /// A window that the API has no name for, or no window.
    Unknown = 0,
    /// 1 s.
    Second = 1,
    /// 60 s.
    Minute = 2,
    /// 1 h.
    Hour = 3,
    /// 24 h.
    Day = 4,
    /// 30 days.
    Month = 5,
    /// 365 days.
    Year = 6,
    /// 7 days.
    Week = 7,
}

impl<'d> DescriptorStatus<'d> {
    pub(super) fn of(decision: &'d Decision) -> Self {
        let limit = decision.status.as_ref().map(CurrentLimit::of);
        Self { is_over_limit: !decision.allowed || decision.is_over_quota, limit }
    }
}

impl<'d> CurrentLimit<'d> {
    pub(super) fn of(status: &'d LimitStatus) -> Self {
        // Slots are not counted by time.
        let is_unit = |(width_ms, _): &&(u64, _)| *width_ms == status.window_ms && status.kind != LimitKind::Slots;
        Self {
            name: &status.rule,
            requests_per_unit: number(status.limit),
            unit: UNITS.iter().find(is_unit).map_or(LimitUnit::Unknown, |(_, unit)| *unit),
            remaining: number(status.remaining.min(status.limit)),
            reset_ms: status.reset_ms,
        }
    }
}

impl LimitUnit {
    /// Returns the unit with a number of the API; [`Unknown`](Self::Unknown) if there is none.
    #[must_use]
    pub fn numbered(number: i32) -> Self {
        Self::find(|unit| unit as i32 == number)
    }

    /// Returns the unit with a name in Protobuf's JSON encoding; [`Unknown`](Self::Unknown) if there is none.
    #[must_use]
    pub fn named(name: &str) -> Self {
        Self::find(|unit| unit.as_str() == name)
    }

    /// Returns the window in ms; none of [`Unknown`](Self::Unknown).
    pub(super) fn width_ms(self) -> Option<u64> {
        UNITS.iter().find(|(_, unit)| *unit == self).map(|(width_ms, _)| *width_ms)
    }

    fn find(is_meant: impl Fn(Self) -> bool) -> Self {
        UNITS.iter().map(|(_, unit)| *unit).find(|unit| is_meant(*unit)).unwrap_or(Self::Unknown)
    }

    /// Returns the name in Protobuf's JSON encoding.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unknown => "UNKNOWN",
            Self::Second => "SECOND",
            Self::Minute => "MINUTE",
            Self::Hour => "HOUR",
            Self::Day => "DAY",
            Self::Month => "MONTH",
            Self::Year => "YEAR",
            Self::Week => "WEEK",
        }
    }
}

/// Returns a number of units in the 32 bits of the API.
fn number(units: u64) -> u32 {
    u32::try_from(units).unwrap_or(u32::MAX)
}
