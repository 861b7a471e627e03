//! Gateways in front of an agent, and the headers in which each forwards the client's request.
//!
//! A gateway sets its own headers and passes on all others, which the client may have set. So where the gateway is named, only its
//! own headers are believed. All of these gateways write the client's address into `X-Forwarded-For`, of which the rules tell
//! how many entries are trusted.

use std::str::FromStr;

/// Gateway that asks the agent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Gateway {
    /// Any of the others. Headers that contradict each other are refused.
    #[default]
    Any,
    /// nginx `auth_request`.
    Nginx,
    /// ingress-nginx with `auth-url`, which sets another header than nginx. Each of the two passes the other's header on from the
    /// client, so one name for both would believe a forged one.
    IngressNginx,
    /// Envoy's `ext_authz` over HTTP, which asks for `/check/PATH` by the client's method.
    Envoy,
    /// Traefik's `forwardAuth`.
    Traefik,
    /// Caddy's `forward_auth`.
    Caddy,
    /// `HAProxy` with the Lua action in `deploy/haproxy`.
    Haproxy,
}

impl Gateway {
    /// All gateways.
    pub const ALL: [Self; 7] =
        [Self::Nginx, Self::IngressNginx, Self::Envoy, Self::Traefik, Self::Caddy, Self::Haproxy, Self::Any];

    /// Returns the name of the gateway in settings.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Any => "any",
            Self::Nginx => "nginx",
            Self::IngressNginx => "ingress-nginx",
            Self::Envoy => "envoy",
            Self::Traefik => "traefik",
            Self::Caddy => "caddy",
            Self::Haproxy => "haproxy",
        }
    }

    /// Returns the headers that hold the method of the client's request.
    pub(crate) const fn method_headers(self) -> &'static [&'static str] {
        match self {
            Self::Any => &["x-forwarded-method", "x-original-method"],
            Self::Nginx | Self::IngressNginx => &["x-original-method"],
            Self::Traefik | Self::Caddy | Self::Haproxy => &["x-forwarded-method"],
            Self::Envoy => &[],
        }
    }

    /// Returns the headers that hold its path and query, or its whole URL.
    pub(crate) const fn uri_headers(self) -> &'static [&'static str] {
        match self {
            Self::Any => &["x-forwarded-uri", "x-original-uri", "x-original-url"],
            Self::Nginx => &["x-original-uri"],
            Self::IngressNginx => &["x-original-url"],
            Self::Traefik | Self::Caddy | Self::Haproxy => &["x-forwarded-uri"],
            Self::Envoy => &[],
        }
    }
}

impl FromStr for Gateway {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = Self::ALL.into_iter().find(|gateway| gateway.as_str() == text);
        known.ok_or_else(|| format!("write {}", Self::ALL.map(Self::as_str).join(", ")))
    }
}
