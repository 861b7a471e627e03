//! Tokens: by whose keys an agent believes them, and the calls that it makes of requests with them.

use std::path::PathBuf;

use tollgate_core::call::Call;

use super::{Agent, Builder};
use crate::request::{self, Request};
use crate::store::ChargeStore;

impl<S: ChargeStore> Builder<S> {
    /// Believes the claims of bearer tokens that a key of this JWKS file signed, and follows its changes; a broken file never
    /// replaces good keys.
    #[must_use]
    pub fn jwks_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.jwks_file = Some(path.into());
        self
    }

    /// Believes only tokens of this issuer (`iss`).
    #[must_use]
    pub fn jwt_issuer(mut self, issuer: impl Into<String>) -> Self {
        self.tokens.issuer = Some(issuer.into());
        self
    }

    /// Believes only tokens that are for this audience (one of `aud`).
    #[must_use]
    pub fn jwt_audience(mut self, audience: impl Into<String>) -> Self {
        self.tokens.audience = Some(audience.into());
        self
    }
}

impl<S: ChargeStore> Agent<S> {
    /// The call that a request is, by the rules in force and by the claims of its token. It borrows nothing from them, since
    /// they are not held while the store is asked.
    #[must_use]
    pub fn describe(&self, request: &Request<'_>) -> Call<'static> {
        let shared = &self.shared;
        let claims = || shared.tokens.claims(request.headers, shared.clock.now());
        shared.engine.with_rules(|rules| request::describe(rules, request, claims).into_owned())
    }

    /// Why the latest keys of tokens were refused, if they were; the ones before them stay.
    #[must_use]
    pub fn keys_refusal(&self) -> Option<String> {
        self.shared.tokens.keys_error()
    }
}
