//! Tokens of requests: the builder's settings of their keys and requirements, and calls made of requests with their claims.

#[cfg(feature = "jwt")]
use std::path::PathBuf;

use tollgate_core::call::Call;

use super::Agent;
#[cfg(feature = "jwt")]
use super::Builder;
#[cfg(feature = "jwt")]
use crate::request::jwt::TokenRequirements;
use crate::request::{self, Request};
use crate::store::ChargeStore;

#[cfg(feature = "jwt")]
impl<S: ChargeStore> Builder<S> {
    /// Verifies bearer tokens with the keys of this JWKS file, and reloads them when it changes. An invalid file never replaces
    /// valid keys.
    pub fn jwks_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.parts.jwks_file = Some(path.into());
        self
    }

    /// Requires this issuer and audience of every token.
    pub fn token_requirements(mut self, requirements: TokenRequirements) -> Self {
        self.parts.tokens = requirements;
        self
    }
}

impl<S: ChargeStore> Agent<S> {
    /// Makes a call of a request, by the rules in force and the verified claims of its token. The call borrows nothing,
    /// because the rules are not held while the store is asked.
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
