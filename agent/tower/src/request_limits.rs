//! Decisions about requests: their calls, and the answers of the agent.

use std::sync::atomic::{AtomicBool, Ordering};

use http::request::Parts;
use tollgate::{Admission, Agent, Call, Denial, Request};
use tollgate_core::rules::DescriptorSource;

use crate::connection::{path_and_query, peer};
use crate::denied_response::{DeniedResponse, GrpcType, response};

/// Function that completes the call of a request.
pub(crate) type MapCall = dyn Fn(Call<'static>, &Parts) -> Call<'static> + Send + Sync;

/// Agent of a layer, and its way to describe requests.
pub(crate) struct RequestLimits {
    pub(crate) agent: Agent,
    map_call: Option<Box<MapCall>>,
    /// True once the log tells that addresses are missing.
    has_warned: AtomicBool,
}

impl RequestLimits {
    pub(crate) fn new(agent: Agent, map_call: Option<Box<MapCall>>) -> Self {
        Self { agent, map_call, has_warned: AtomicBool::new(false) }
    }

    /// Returns the call of a request.
    pub(crate) fn describe(&self, parts: &mut Parts) -> Call<'static> {
        let peer = peer(parts);
        let request =
            Request { method: parts.method.as_str(), path: path_and_query(parts), peer, headers: &parts.headers };
        let call = self.agent.describe(&request);
        let call = match &self.map_call {
            Some(map_call) => map_call(call, parts),
            None => call,
        };
        if peer.is_none() && !self.has_warned.load(Ordering::Relaxed) {
            self.warn_of_missing_address(&call);
        }
        call
    }

    /// Waits for the decision of a call, and for the turn of an admitted one.
    pub(crate) async fn admit(
        &self,
        call: &Call<'_>,
        grpc_type: GrpcType,
        decided: Option<Result<Admission, Denial>>,
    ) -> Result<Admission, DeniedResponse> {
        let decided = match decided {
            Some(decided) => decided,
            None => self.agent.check(call).await,
        };
        let admission = decided.map_err(|denial| response(&self.agent, call, &denial, grpc_type))?;
        if !admission.delay().is_zero() {
            tokio::time::sleep(admission.delay()).await;
        }
        Ok(admission)
    }

    /// Logs once that rules per address do not apply.
    fn warn_of_missing_address(&self, call: &Call<'_>) {
        let names_address = self.agent.engine().with_rules(|rules| {
            let is_missing = rules.descriptors.iter().filter(|spec| {
                matches!(spec.source, DescriptorSource::ClientIp { .. }) && call.get(&spec.name).is_none()
            });
            is_missing.map(|spec| &spec.name).any(|name| rules.rules.iter().any(|rule| rule.per.contains(name)))
        });
        if names_address && !self.has_warned.swap(true, Ordering::Relaxed) {
            let node = self.agent.node();
            let remedy = "enable the feature axum or tonic of tollgate-tower, and serve an axum router with into_make_service_with_connect_info::<SocketAddr>(); another server adds the SocketAddr to the extensions of the request";
            tracing::warn!(
                node,
                remedy,
                "requests have no client address: rules per client address do not apply to them"
            );
        }
    }
}
