//! Descriptors of a rule set, and the calls that they complete.
//!
//! A [`DescriptorSpec`] declares where a value comes from. The agent extracts values from a request; this file derives the
//! others (constants, maps, defaults) in [`ResolvedCall`]. They are derived for every call: one whose gateway names its
//! descriptors gets the same tier as an HTTP request. `match_rules` decides which rules apply to a resolved call.

use std::borrow::Cow;
use std::sync::Arc;

use super::pattern::Pattern;
use super::rule::{Matches, Rule};
use crate::call::{Descriptors, bit};
use crate::client_network::client_network;
use crate::request_path::normalize;

/// Name of the descriptor that holds the endpoint of a call: its normalised path, unless the rules say otherwise.
pub const ENDPOINT: &str = "endpoint";
/// Name of the descriptor that holds the tier of a caller.
pub const TIER: &str = "tier";

/// Declaration of a descriptor: its name and the source of its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DescriptorSpec {
    /// Name of the descriptor.
    pub name: Arc<str>,
    /// Source of the value.
    pub source: DescriptorSource,
    /// Value for calls in which the source has none.
    pub default: Option<Box<str>>,
    /// Permission to show the value although its source may hold secrets.
    pub public: bool,
    /// Declaration that the gateway has verified the value before it asks.
    pub verified: bool,
}

/// Source of a descriptor's value: a part of a request, or another descriptor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DescriptorSource {
    /// The value of a header, by its lower-case name.
    Header(Box<str>),
    /// The value of a query parameter.
    Query(Box<str>),
    /// The value of a cookie.
    Cookie(Box<str>),
    /// A claim of a token with a valid signature; the parts of its path are separated by dots.
    Jwt(Box<str>),
    /// The address of the client.
    ClientIp {
        /// Number of proxies in front of the gateway whose `X-Forwarded-For` entry is trusted.
        trusted_hops: u8,
        /// Number of bits of an IPv6 address that identify one client.
        ipv6_prefix: u8,
    },
    /// The method, in upper case.
    Method,
    /// The path without its query.
    Path {
        /// Replacement of numbers, UUIDs and hexadecimal segments by `{id}`.
        normalized: bool,
    },
    /// A constant.
    Constant(Box<str>),
    /// A value looked up by the value of another descriptor; the first pattern that matches wins.
    Map {
        /// Name of the other descriptor.
        of: Arc<str>,
        /// Patterns and their values.
        table: Vec<(Pattern, Box<str>)>,
    },
}

/// Restriction of the rules that may apply to a call. The default is no restriction.
///
/// Requests of several descriptors (`/json`, Envoy's protocol) use it: each descriptor becomes a call of its own.
#[derive(Clone, Copy, Debug, Default)]
pub struct MatchScope<'a> {
    /// Restriction of the rules with `exact_match` to those whose `match` names exactly the call's descriptors, in the same order.
    pub ordered_entries: bool,
    /// Names of rules that do not apply.
    pub excluded: &'a [Arc<str>],
    /// True if the decision tells the state of every rule that applies, and not only of the one that it shows.
    pub tells_all: bool,
}

/// A call together with the descriptors that a rule set derives from it.
#[derive(Clone, Copy, Debug)]
pub struct ResolvedCall<'a> {
    descriptors: &'a Descriptors<'a>,
    unverified: u64,
    scope: MatchScope<'a>,
    specs: &'a [DescriptorSpec],
}

impl DescriptorSpec {
    /// Creates a descriptor without default, not public, not verified.
    #[must_use]
    pub fn new(name: &str, source: DescriptorSource) -> Self {
        Self { name: name.into(), source, default: None, public: false, verified: false }
    }

    /// Returns the descriptors of a rule set that declares none: `api_key` (header `x-api-key`), `ip`, `method`, `endpoint`.
    #[must_use]
    pub fn defaults() -> Vec<Self> {
        vec![
            Self::new("api_key", DescriptorSource::Header("x-api-key".into())),
            Self::new("ip", DescriptorSource::ClientIp { trusted_hops: 0, ipv6_prefix: 64 }),
            Self::new("method", DescriptorSource::Method),
            Self::new(ENDPOINT, DescriptorSource::Path { normalized: true }),
        ]
    }

    /// Returns true if values must be cut wherever people see them.
    #[must_use]
    pub fn is_secret(&self) -> bool {
        let from_client = self.source.is_client_text() || matches!(self.source, DescriptorSource::Jwt(_));
        from_client && !self.public
    }

    /// Returns true if a client can write any value and nobody has verified it.
    #[must_use]
    pub fn is_unverified(&self) -> bool {
        self.source.is_client_text() && !self.verified
    }
}

impl DescriptorSource {
    /// Returns true for text that a client writes as it likes: a header, a query parameter or a cookie.
    #[must_use]
    pub const fn is_client_text(&self) -> bool {
        matches!(self, Self::Header(_) | Self::Query(_) | Self::Cookie(_))
    }

    /// Returns the value that a request with this text has: the method in upper case, the path without its query (`/` if it is
    /// empty), and the client of an address. Other values are as written.
    #[must_use]
    pub fn value_of<'v>(&self, text: Cow<'v, str>) -> Cow<'v, str> {
        match self {
            Self::Method if text.bytes().any(|byte| byte.is_ascii_lowercase()) => text.to_ascii_uppercase().into(),
            Self::Path { normalized: true } => on(text, normalize),
            Self::Path { normalized: false } => on(text, |path| {
                let path = path.split(['?', '#']).next().unwrap_or_default();
                Cow::Borrowed(if path.is_empty() { "/" } else { path })
            }),
            Self::ClientIp { ipv6_prefix, .. } => match text.trim().parse() {
                Ok(address) => client_network(address, *ipv6_prefix).into(),
                Err(_) => text,
            },
            _ => text,
        }
    }

    /// Returns true if the value is extracted from the request.
    #[must_use]
    pub const fn is_of_request(&self) -> bool {
        !matches!(self, Self::Constant(_) | Self::Map { .. })
    }
}

/// Applies a function to a text, which is borrowed from it where possible.
fn on(text: Cow<'_, str>, change: fn(&str) -> Cow<'_, str>) -> Cow<'_, str> {
    match text {
        Cow::Borrowed(text) => change(text),
        Cow::Owned(text) => Cow::Owned(change(&text).into_owned()),
    }
}

impl<'a> ResolvedCall<'a> {
    pub(super) fn new(
        descriptors: &'a Descriptors<'a>,
        unverified: u64,
        scope: MatchScope<'a>,
        specs: &'a [DescriptorSpec],
    ) -> Self {
        Self { descriptors, unverified, scope, specs }
    }

    /// Returns a descriptor of the call itself that a rule with an exact match does not name.
    pub(super) fn unmatched_by(&self, rule: &Rule) -> Option<&'a str> {
        let named = || rule.matches.iter().map(|(name, _)| name).chain(&rule.per).chain(&rule.quota_from);
        let is_named = |own: &str| named().any(|name| **name == *own);
        let mut others = self.descriptors.iter().map(|(own, _)| &**own).filter(|own| !is_named(own));
        others.next().filter(|_| rule.exact_match)
    }

    /// Returns true if a rule is within the scope of the call.
    pub(super) fn has_in_scope(&self, rule: &Rule) -> bool {
        let is_quota = |name: &&str| rule.quota_from.as_deref() == Some(*name);
        let names = self.descriptors.iter().map(|(name, _)| &**name).filter(|name| !is_quota(name));
        let is_ordered = || names.eq(rule.matches.iter().map(|(name, _)| &**name));
        (!self.scope.ordered_entries || !rule.exact_match || is_ordered())
            && self.scope.excluded.iter().all(|excluded| **excluded != *rule.name)
    }

    /// Returns true if all conditions hold, on request by verified values alone.
    #[must_use]
    pub fn satisfies(&self, matches: &Matches, only_verified: bool) -> bool {
        matches.iter().all(|(name, pattern)| {
            let value = if only_verified { self.verified(name) } else { self.get(name) };
            value.is_some_and(|value| pattern.matches(value))
        })
    }

    /// Returns the names that may have a value; some may come twice.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.descriptors.iter().map(|(name, _)| &**name).chain(self.specs.iter().map(|spec| &*spec.name))
    }

    /// Returns the value of a descriptor. An unverified tier has no value.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&'a str> {
        if name == TIER {
            return self.verified(name);
        }
        self.given(name, false).or_else(|| self.derived(name, false))
    }

    /// Returns the value of a descriptor if it is verified. Unverified descriptors are treated as absent.
    #[must_use]
    pub fn verified(&self, name: &str) -> Option<&'a str> {
        self.given(name, true).or_else(|| self.derived(name, true))
    }

    /// Value that the call itself carries.
    fn given(&self, name: &str, only_verified: bool) -> Option<&'a str> {
        let position = self.descriptors.iter().position(|(known, _)| known == name)?;
        (!only_verified || self.unverified & bit(position) == 0).then(|| &*self.descriptors[position].1)
    }

    /// Value derived from other descriptors, or the default.
    fn derived(&self, name: &str, only_verified: bool) -> Option<&'a str> {
        let spec = self.specs.iter().find(|spec| *spec.name == *name)?;
        let derived = match &spec.source {
            DescriptorSource::Constant(value) => Some(&**value),
            DescriptorSource::Map { of, table } => self
                .given(of, only_verified)
                .or_else(|| self.specs.iter().find(|spec| spec.name == *of)?.default.as_deref())
                .and_then(|known| table.iter().find(|(pattern, _)| pattern.matches(known)).map(|(_, value)| &**value)),
            _ => None,
        };
        derived.or(spec.default.as_deref())
    }
}
