//! The layer and its service.
//!
//! A request that is decided at once goes to the service that was polled ready. Any other one takes that service with it,
//! and leaves a clone that is not ready yet.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::{fmt, mem};

use http::request::Parts;
use http::{Request, Response};
use tollgate::{Agent, Call};
use tower_layer::Layer;
use tower_service::Service;

use crate::denied_response::{grpc_type, response};
use crate::request_limits::RequestLimits;
use crate::response_body::ResponseBody;
use crate::response_future::ResponseFuture;

/// Layer that limits requests by the rules of an agent. Clones share the agent.
#[derive(Clone)]
pub struct RateLimitLayer(Arc<RequestLimits>);

/// Service that passes admitted requests on, and answers denied ones.
#[derive(Clone)]
pub struct RateLimit<S> {
    inner: S,
    limits: Arc<RequestLimits>,
}

impl RateLimitLayer {
    /// Creates a layer that describes requests by the descriptors of the agent's rules.
    #[must_use]
    pub fn new(agent: Agent) -> Self {
        Self(Arc::new(RequestLimits::new(agent, None)))
    }

    /// Completes or replaces the call that the rules make of a request: `map_call` gets it with the request's parts. Their
    /// extensions have what an outer layer has found out about the request.
    ///
    /// ```
    /// # use tollgate::{Agent, Rule};
    /// # use tollgate_tower::RateLimitLayer;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// #[derive(Clone)]
    /// struct User(String); // which an outer layer has verified
    ///
    /// let agent = Agent::builder().rule(Rule::per("per-user", &["user"], "100/min".parse()?)).start()?;
    /// let layer = RateLimitLayer::new(agent).map_call(|call, parts| match parts.extensions.get::<User>() {
    ///     Some(User(name)) => call.with("user", name.clone()),
    ///     None => call,
    /// });
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn map_call(self, map_call: impl Fn(Call<'static>, &Parts) -> Call<'static> + Send + Sync + 'static) -> Self {
        Self(Arc::new(RequestLimits::new(self.0.agent.clone(), Some(Box::new(map_call)))))
    }
}

impl<S> Layer<S> for RateLimitLayer {
    type Service = RateLimit<S>;

    fn layer(&self, inner: S) -> RateLimit<S> {
        RateLimit { inner, limits: self.0.clone() }
    }
}

impl<S, B, R> Service<Request<B>> for RateLimit<S>
where
    S: Service<Request<B>, Response = Response<R>> + Clone,
{
    type Response = Response<ResponseBody<R>>;
    type Error = S::Error;
    type Future = ResponseFuture<S, B>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> ResponseFuture<S, B> {
        let limits = self.limits.clone();
        let (mut parts, body) = request.into_parts();
        let (call, grpc_type) = (limits.describe(&mut parts), grpc_type(&parts.headers));
        let request = Request::from_parts(parts, body);
        match limits.agent.try_check(&call) {
            Some(Ok(admission)) if admission.delay().is_zero() => {
                ResponseFuture::admitted(limits, self.inner.call(request), admission)
            }
            Some(Err(denial)) => {
                let response = response(&limits.agent, &call, &denial, grpc_type);
                ResponseFuture::denied(limits, response)
            }
            decided => {
                let clone = self.inner.clone();
                let ready = mem::replace(&mut self.inner, clone);
                let waiting = limits.clone();
                let admitting = Box::pin(async move { waiting.admit(&call, grpc_type, decided).await });
                ResponseFuture::waiting(limits, admitting, (ready, request))
            }
        }
    }
}

impl fmt::Debug for RateLimitLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimitLayer").field("node", &self.0.agent.node()).finish_non_exhaustive()
    }
}

impl<S: fmt::Debug> fmt::Debug for RateLimit<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimit").field("inner", &self.inner).finish_non_exhaustive()
    }
}
