//! Calls made of requests, with the claims of their tokens.

use std::sync::atomic::Ordering;

use tollgate_core::call::Call;
use tollgate_core::rules::{DescriptorSource, DescriptorSpec};

use super::shared::{Agent, Shared};
use crate::request::{self, Request};
use crate::store::ChargeStore;

impl<S: ChargeStore> Agent<S> {
    /// Makes a call of an HTTP request: the descriptors that the rules file declares, or else `api_key`, `ip`, `method` and
    /// `endpoint`. With the feature `jwt`, claims come from the verified bearer token.
    #[must_use]
    pub fn describe(&self, request: &Request<'_>) -> Call<'static> {
        let shared = &self.shared;
        #[cfg(feature = "jwt")]
        let claims = || shared.tokens.claims(request.headers, shared.clock.now());
        #[cfg(not(feature = "jwt"))]
        let claims = || None;
        self.warn_of_gateway(request);
        shared.engine.with_rules(|rules| request::describe(rules, request, claims).into_owned())
    }

    /// Logs once that clients are counted by the address of the gateway before them.
    fn warn_of_gateway(&self, request: &Request<'_>) {
        let Shared { engine, has_warned_of_gateway, .. } = &*self.shared;
        if has_warned_of_gateway.load(Ordering::Relaxed) || !request.headers.contains_key("x-forwarded-for") {
            return;
        }
        let counts_peers = engine.with_rules(|rules| {
            let is_of_peer =
                |spec: &&DescriptorSpec| matches!(spec.source, DescriptorSource::ClientIp { trusted_hops: 0, .. });
            let is_used = |spec: &DescriptorSpec| rules.rules.iter().any(|rule| rule.per.contains(&spec.name));
            rules.descriptors.iter().filter(is_of_peer).any(is_used)
        });
        if counts_peers && !has_warned_of_gateway.swap(true, Ordering::Relaxed) {
            let remedy = "write descriptors: { ip: { client_ip: { trusted_hops: 1 } } } into the rules, with the number of proxies in front of this agent; or let the gateway remove the header";
            tracing::warn!(
                remedy,
                "requests have X-Forwarded-For, but trusted_hops is 0: all clients of a gateway have one address, and share its quota"
            );
        }
    }

    /// Returns the error of the latest token keys, if they were refused. The previous ones stay in use.
    #[must_use]
    pub fn keys_refusal(&self) -> Option<String> {
        #[cfg(feature = "jwt")]
        return self.shared.tokens.keys_error();
        #[cfg(not(feature = "jwt"))]
        return None;
    }
}
