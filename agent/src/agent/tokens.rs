//! Calls made of requests, with the claims of their tokens.

use tollgate_core::call::Call;

use super::shared::Agent;
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
        shared.engine.with_rules(|rules| request::describe(rules, request, claims).into_owned())
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
