//! Matches, descriptors and origins as text, in the words of the rules file. Settings are shown by `settings`.

use jiff::Timestamp as Instant;
use serde_json::{Map, Value};
use tollgate_core::clock::Timestamp;
use tollgate_core::one_line::one_line;
use tollgate_core::regions::RegionFloorRatio;
use tollgate_core::rules::{
    DescriptorSource, DescriptorSpec, LimitPolicy, Matches, Origin, Pattern, Rule, RuleSet, TimedEnd, show_units,
};

use crate::hint::cut;
use crate::percent::percent_text;

/// Returns the conditions of `match`, in one line.
#[must_use]
pub fn matches(matches: &Matches) -> String {
    let matches: Vec<String> = matches.iter().map(|(name, pattern)| format!("{name}={pattern}")).collect();
    if matches.is_empty() { "every call".to_owned() } else { one_line(&matches.join(" ")).into_owned() }
}

/// Returns the conditions of `match` as JSON.
#[must_use]
pub fn matches_json(matches: &Matches) -> Value {
    matches.iter().map(|(name, pattern)| (name.to_string(), pattern.to_string().into())).collect::<Map<_, _>>().into()
}

/// Returns the descriptors that select the counter.
#[must_use]
pub fn per(rule: &Rule) -> String {
    if rule.per.is_empty() { "(one counter)".to_owned() } else { rule.per.join(", ") }
}

/// Returns the counters of a rule: one for each combination of values, or one for all calls.
#[must_use]
pub fn counted_per(rule: &Rule) -> String {
    if rule.per.is_empty() { "one counter".to_owned() } else { format!("per {}", per(rule)) }
}

/// Returns the source of a descriptor.
#[must_use]
pub fn descriptor(spec: &DescriptorSpec) -> String {
    let mut words = vec![match &spec.source {
        DescriptorSource::Header(name) => format!("header {name}"),
        DescriptorSource::Query(name) => format!("query {name}"),
        DescriptorSource::Cookie(name) => format!("cookie {name}"),
        DescriptorSource::Jwt(path) => format!("jwt {path}"),
        DescriptorSource::ClientIp { trusted_hops, ipv6_prefix } => {
            format!("client_ip, {trusted_hops} trusted hops, IPv6 /{ipv6_prefix}")
        }
        DescriptorSource::Method => "method".to_owned(),
        DescriptorSource::Path { normalized: true } => "path normalized".to_owned(),
        DescriptorSource::Path { normalized: false } => "path raw".to_owned(),
        DescriptorSource::Constant(value) => format!("constant {value}"),
        DescriptorSource::Map { of, table } => {
            let table: Vec<_> = table.iter().map(|(pattern, value)| format!("{pattern}={value}")).collect();
            format!("of {of}: {}", table.join(" "))
        }
    }];
    words.extend(spec.default.as_ref().map(|default| format!("default {default}")));
    words.extend(spec.verified.then(|| "verified".to_owned()));
    words.extend(spec.public.then(|| "public".to_owned()));
    words.join(", ")
}

/// Returns the origin of a policy, and the end of the exception that it comes from.
#[must_use]
pub fn origin(origin: Origin<'_>, until: Option<&TimedEnd>) -> String {
    let origin = match origin {
        Origin::Rule => "the rule's own".to_owned(),
        Origin::Key => "this key's own".to_owned(),
        Origin::Tier(name) => format!("of the tier {name}"),
        Origin::Descriptor(name) => format!("from the descriptor {name}"),
    };
    until.map_or(origin.clone(), |until| format!("{origin} {}", end(until)))
}

/// Returns the end of an exception or a list entry, and its reason.
#[must_use]
pub fn end(TimedEnd { until, reason }: &TimedEnd) -> String {
    let until = utc(*until);
    if reason.is_empty() { format!("until {until}") } else { format!("until {until} ({})", one_line(reason)) }
}

/// Returns a time as people and rules files write it, in UTC.
#[must_use]
pub fn utc(at: Timestamp) -> String {
    let instant = i64::try_from(at.as_ms()).ok().and_then(|ms| Instant::from_millisecond(ms).ok());
    instant.unwrap_or(Instant::MAX).to_string()
}

/// Parses a time with its zone, such as `2026-12-01T12:00:00Z`.
///
/// # Errors
/// The form that is expected.
pub fn parse_utc(text: &str) -> Result<Timestamp, &'static str> {
    let ms = text.parse::<Instant>().ok().and_then(|instant| u64::try_from(instant.as_millisecond()).ok());
    ms.map(Timestamp::from_ms).ok_or("write a time with its zone, such as 2026-12-01T12:00:00Z")
}

/// Returns the regions with their floors in percent.
#[must_use]
pub fn regions(regions: &[RegionFloorRatio]) -> String {
    let parts: Vec<_> =
        regions.iter().map(|part| format!("{} {}", part.region, percent_text(part.floor_ppm))).collect();
    parts.join(", ")
}

/// Returns the floors of all regions under a policy with a global scope.
#[must_use]
pub fn floors(set: &RuleSet, policy: &LimitPolicy) -> String {
    let floor = |part: &RegionFloorRatio| {
        format!("{} {}", part.region, show_units(part.units_of(policy.units_over_regions()), policy.quota.unit()))
    };
    set.regions.iter().map(floor).collect::<Vec<_>>().join(", ")
}

/// Returns a pattern for a message: cut where values of its descriptor are secret.
pub(crate) fn quoted_pattern(pattern: &Pattern, name: &str, known: &[DescriptorSpec]) -> String {
    let secret = known.iter().find(|spec| *spec.name == *name).is_none_or(DescriptorSpec::is_secret);
    let text = pattern.to_string();
    if secret { cut(&text).into_owned() } else { text }
}
