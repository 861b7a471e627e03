//! Where the descriptors of a request come from. Taking them out of a request is the agent's work.

use std::sync::Arc;

/// The name of a descriptor and where its value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DescriptorSpec {
    /// Its name.
    pub name: Arc<str>,
    /// Where its value comes from.
    pub source: DescriptorSource,
    /// Whether its value may be shown although it comes from a place where secrets are.
    pub public: bool,
}

/// A part of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DescriptorSource {
    /// The value of a header, by its lower-case name.
    Header(Box<str>),
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
}

impl DescriptorSpec {
    /// The descriptors of a rule set that declares none: `api_key` (header `x-api-key`), `ip`, `method`, `endpoint`.
    #[must_use]
    pub fn defaults() -> Vec<Self> {
        let spec = |name: &str, source| Self { name: name.into(), source, public: false };
        vec![
            spec("api_key", DescriptorSource::Header("x-api-key".into())),
            spec("ip", DescriptorSource::ClientIp { trusted_hops: 0, ipv6_prefix: 64 }),
            spec("method", DescriptorSource::Method),
            spec("endpoint", DescriptorSource::Path { normalized: true }),
        ]
    }

    /// Whether the value must be cut wherever people see it.
    #[must_use]
    pub fn is_secret(&self) -> bool {
        matches!(self.source, DescriptorSource::Header(_)) && !self.public
    }
}
