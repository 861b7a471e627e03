//! Envoy's rate limit API (`envoy.service.ratelimit.v3`) without its encoding. `POST /json` and gRPC share it.
//!
//! Each descriptor of a request is a call, with its entries and `domain`. [`Agent::decide_all`](crate::Agent::decide_all) decides all
//! of them as one request. The rules of `--envoy-config` and `rules import` have `exact_match`: only one whose `match` names exactly
//! the entries of a descriptor in their order applies to it.

use tollgate_core::call::{COST_MAX, Call, DESCRIPTORS_LEN_MAX};
use tollgate_core::decision::{Decision, LimitKind};
use tollgate_core::rules::MatchScope;
use tollgate_rules::import::envoy_names;

/// Maximum number of descriptors in a request.
pub const CALLS_LEN_MAX: usize = 64;
/// Descriptor that holds a request's domain.
const DOMAIN: &str = "domain";
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

/// One descriptor of a request.
pub struct RateLimitDescriptor<E> {
    /// Keys and values.
    pub entries: E,
    /// Hits of this descriptor in place of those of the request.
    pub hits: Option<u64>,
    /// True if the hits are to be given back.
    pub is_negative_hits: bool,
    /// True if the request brings the limit.
    pub has_limit: bool,
}

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

/// Returns the scope of a request: the order of its entries counts.
#[must_use]
pub fn scope() -> MatchScope<'static> {
    MatchScope { ordered_entries: true, ..MatchScope::default() }
}

/// Returns the call of each descriptor of a request. `hits` counts for descriptors without hits of their own; 0 is 1.
///
/// # Errors
/// The reason and the remedy, if the request lacks a part, has too many, or asks for something that is not supported.
pub fn calls<'r, E: ExactSizeIterator<Item = (&'r str, &'r str)> + Clone>(
    domain: &'r str,
    hits: u64,
    descriptors: impl ExactSizeIterator<Item = RateLimitDescriptor<E>>,
) -> Result<Vec<Call<'r>>, String> {
    if domain.is_empty() {
        return Err("the `domain` is missing".to_owned());
    }
    if descriptors.len() == 0 || descriptors.len() > CALLS_LEN_MAX {
        return Err(format!("it has {} descriptors; it must have 1 to {CALLS_LEN_MAX}", descriptors.len()));
    }
    let calls = descriptors.zip(1..).map(|(descriptor, number)| {
        descriptor.call(domain, hits.max(1)).map_err(|why| format!("descriptor {number}: {why}"))
    });
    calls.collect()
}

/// Returns the decision that stands for the whole request: the first denial, or else the first decision.
#[must_use]
pub fn deciding(decisions: &[Decision]) -> Option<&Decision> {
    decisions.iter().find(|decision| !decision.allowed).or(decisions.first())
}

impl<'r, E: ExactSizeIterator<Item = (&'r str, &'r str)> + Clone> RateLimitDescriptor<E> {
    fn call(self, domain: &'r str, hits: u64) -> Result<Call<'r>, String> {
        if self.has_limit {
            return Err("a `limit` of the request is not supported; write the limit into the rules".to_owned());
        }
        if self.is_negative_hits {
            return Err("negative hits are not supported; refund with `POST /settle`".to_owned());
        }
        if self.entries.len() == 0 || self.entries.len() >= DESCRIPTORS_LEN_MAX {
            let most = DESCRIPTORS_LEN_MAX - 1;
            return Err(format!("it has {} entries; it must have 1 to {most}", self.entries.len()));
        }
        let hits = self.hits.unwrap_or(hits);
        if hits > COST_MAX {
            return Err(format!("it has {hits} hits; it may have 0 to {COST_MAX}"));
        }
        let mut call = Call::new().costing(hits);
        let refused = |error: tollgate_core::call::DescriptorError| error.to_string();
        call.add(DOMAIN.into(), domain.into()).map_err(refused)?;
        let names = envoy_names(self.entries.clone().map(|(key, _)| key));
        for (name, (_, value)) in names.into_iter().zip(self.entries) {
            call.add(name, value.into()).map_err(refused)?;
        }
        Ok(call)
    }
}

impl<'d> DescriptorStatus<'d> {
    /// Returns the status of a descriptor by its decision.
    #[must_use]
    pub fn of(decision: &'d Decision) -> Self {
        let limit = decision.status.as_ref().map(|status| {
            // Slots are not counted by time.
            let is_unit = |(width_ms, _): &&(u64, _)| *width_ms == status.window_ms && status.kind != LimitKind::Slots;
            CurrentLimit {
                name: &status.rule,
                requests_per_unit: number(status.limit),
                unit: UNITS.iter().find(is_unit).map_or(LimitUnit::Unknown, |(_, unit)| *unit),
                remaining: number(status.remaining.min(status.limit)),
                reset_ms: status.reset_ms,
            }
        });
        Self { is_over_limit: !decision.allowed, limit }
    }
}

impl LimitUnit {
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
