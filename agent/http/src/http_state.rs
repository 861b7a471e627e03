//! State of the routes: the agent, and the settings that handlers read.

use std::sync::Arc;

use axum::extract::FromRef;
use tollgate::Agent;
use tollgate::store::ChargeStore;
use tollgate_listen::Tls;

use crate::body::BodyLimit;
use crate::forwarded_request::ForwardedRequests;
use crate::http_settings::HttpSettings;
use crate::operator::OperatorToken;

/// State of the routes; clones share it.
pub(crate) struct HttpState<S: ChargeStore>(Arc<SharedState<S>>);

struct SharedState<S: ChargeStore> {
    agent: Agent<S>,
    forwarded: ForwardedRequests,
    body_limit: BodyLimit,
    token: Option<OperatorToken>,
    tls: Option<Tls>,
}

impl<S: ChargeStore> HttpState<S> {
    pub(crate) fn new(settings: HttpSettings, agent: Agent<S>) -> Self {
        let forwarded = ForwardedRequests::of(settings.gateway);
        let body_limit = BodyLimit(settings.body_bytes_max);
        let HttpSettings { token, tls, .. } = settings;
        Self(Arc::new(SharedState { agent, forwarded, body_limit, token, tls }))
    }
}

impl<S: ChargeStore> Clone for HttpState<S> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<S: ChargeStore> FromRef<HttpState<S>> for Agent<S> {
    fn from_ref(state: &HttpState<S>) -> Self {
        state.0.agent.clone()
    }
}

impl<S: ChargeStore> FromRef<HttpState<S>> for ForwardedRequests {
    fn from_ref(state: &HttpState<S>) -> Self {
        state.0.forwarded.clone()
    }
}

impl<S: ChargeStore> FromRef<HttpState<S>> for BodyLimit {
    fn from_ref(state: &HttpState<S>) -> Self {
        state.0.body_limit
    }
}

impl<S: ChargeStore> FromRef<HttpState<S>> for Option<OperatorToken> {
    fn from_ref(state: &HttpState<S>) -> Self {
        state.0.token.clone()
    }
}

impl<S: ChargeStore> FromRef<HttpState<S>> for Option<Tls> {
    fn from_ref(state: &HttpState<S>) -> Self {
        state.0.tls.clone()
    }
}
