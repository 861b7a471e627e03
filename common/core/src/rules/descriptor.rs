//! Where the descriptors of a request come from. Taking them out of a request is the agent's work; what follows from others
//! is found here.

use std::sync::Arc;

use super::match_rules::TIER;
use super::{Matches, Pattern};
use crate::call::{Call, Descriptors, bit};

/// The name of a descriptor and where its value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DescriptorSpec {
    /// Its name.
    pub name: Arc<str>,
    /// Where its value comes from.
    pub source: DescriptorSource,
    /// What it is when the source has none.
    pub default: Option<Box<str>>,
    /// Whether its value may be shown although it comes from a place where secrets are.
    pub public: bool,
    /// Whether whoever asks has verified what the client wrote there.
    pub verified: bool,
}

/// A part of a request, or what follows from another descriptor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DescriptorSource {
    /// The value of a header, by its lower-case name.
    Header(Box<str>),
    /// The value of a parameter of the query.
    Query(Box<str>),
    /// The value of a cookie.
    Cookie(Box<str>),
    /// A claim of a token whose signature holds; parts of the path to it are parted by dots.
    Jwt(Box<str>),
    /// The address of the client.
    ClientIp {
        /// How many proxies in front may be believed about whom they speak for (`X-Forwarded-For`).
        trusted_hops: u8,
        /// How many bits of an IPv6 address make one client.
        ipv6_prefix: u8,
    },
    /// The method, in upper case.
    Method,
    /// The path without its query.
    Path {
        /// Whether numbers, UUIDs and hexadecimal parts become `{id}`.
        normalized: bool,
    },
    /// Always the same.
    Constant(Box<str>),
    /// What another descriptor's value stands for: that of the first pattern which matches.
    Map {
        /// The other one.
        of: Arc<str>,
        /// Patterns and what they stand for.
        table: Vec<(Pattern, Box<str>)>,
    },
}

/// A call as rules see it: what it says of itself, and what follows from that.
#[derive(Clone, Copy, Debug)]
pub struct ResolvedCall<'a> {
    descriptors: &'a Descriptors<'a>,
    claims: u64,
    entries: bool,
    without: &'a [String],
    specs: &'a [DescriptorSpec],
}

impl DescriptorSpec {
    /// A descriptor without default, not public, not verified.
    #[must_use]
    pub fn new(name: &str, source: DescriptorSource) -> Self {
        Self { name: name.into(), source, default: None, public: false, verified: false }
    }

    /// The descriptors of a rule set that declares none: `api_key` (header `x-api-key`), `ip`, `method`, `endpoint`.
    #[must_use]
    pub fn defaults() -> Vec<Self> {
        vec![
            Self::new("api_key", DescriptorSource::Header("x-api-key".into())),
            Self::new("ip", DescriptorSource::ClientIp { trusted_hops: 0, ipv6_prefix: 64 }),
            Self::new("method", DescriptorSource::Method),
            Self::new("endpoint", DescriptorSource::Path { normalized: true }),
        ]
    }

    /// Whether the value must be cut wherever people see it.
    #[must_use]
    pub fn is_secret(&self) -> bool {
        let from_client = matches!(
            self.source,
            DescriptorSource::Header(_)
                | DescriptorSource::Query(_)
                | DescriptorSource::Cookie(_)
                | DescriptorSource::Jwt(_)
        );
        from_client && !self.public
    }

    /// Whether a client can write there what it likes.
    #[must_use]
    pub fn is_claim(&self) -> bool {
        let from_client = matches!(
            self.source,
            DescriptorSource::Header(_) | DescriptorSource::Query(_) | DescriptorSource::Cookie(_)
        );
        from_client && !self.verified
    }
}

impl<'a> ResolvedCall<'a> {
    pub(super) fn new(call: &'a Call<'_>, specs: &'a [DescriptorSpec]) -> Self {
        let (descriptors, claims) = call.parts();
        Self { descriptors, claims, entries: call.is_entries(), without: call.left_aside(), specs }
    }

    /// Whether a rule that asks for these descriptors may speak of the call at all.
    pub(super) fn admits(&self, rule: &str, names: &Matches) -> bool {
        let said = self.descriptors.iter().map(|(name, _)| &**name);
        let whole = !self.entries || said.eq(names.iter().map(|(name, _)| &**name));
        whole && self.without.iter().all(|other| *other != rule)
    }

    /// The names that may have a value; some may come twice.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.descriptors.iter().map(|(name, _)| &**name).chain(self.specs.iter().map(|spec| &*spec.name))
    }

    /// The value of a descriptor; of the tier only a verified one.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&'a str> {
        if name == TIER {
            return self.verified(name);
        }
        self.said(name, false).or_else(|| self.follows(name, false))
    }

    /// The value of a descriptor that is more than a client's word: what was not verified is as if it was not said.
    #[must_use]
    pub fn verified(&self, name: &str) -> Option<&'a str> {
        self.said(name, true).or_else(|| self.follows(name, true))
    }

    /// What the call itself says.
    fn said(&self, name: &str, verified: bool) -> Option<&'a str> {
        let place = self.descriptors.iter().position(|(known, _)| known == name)?;
        (!verified || self.claims & bit(place) == 0).then(|| &*self.descriptors[place].1)
    }

    /// What follows from other descriptors, or stands for what is missing.
    fn follows(&self, name: &str, verified: bool) -> Option<&'a str> {
        let spec = self.specs.iter().find(|spec| *spec.name == *name)?;
        let derived = match &spec.source {
            DescriptorSource::Constant(value) => Some(&**value),
            DescriptorSource::Map { of, table } => self
                .said(of, verified)
                .or_else(|| self.specs.iter().find(|spec| spec.name == *of)?.default.as_deref())
                .and_then(|known| table.iter().find(|(pattern, _)| pattern.matches(known)).map(|(_, value)| &**value)),
            _ => None,
        };
        derived.or(spec.default.as_deref())
    }
}
