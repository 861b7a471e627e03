//! `envoy.service.auth.v3.Authorization`: Envoy's `ext_authz` over gRPC, with the answers of `/check/PATH`.
//!
//! The backend does not see the names of an answer's headers in a client's request. The headers that descriptors read, such as a key,
//! stay: most backends need them.

use std::slice;

use axum::extract::ConnectInfo;
use http::{HeaderMap, HeaderName, HeaderValue};
use tollgate::store::ChargeStore;
use tollgate::{Agent, Call, Decision, http_response, request};
use tollgate_listen::Peer;
use tonic::{Code, Request, Response, Status};

use crate::headers;
use crate::metadata::metadata;
use crate::proto::envoy::config::core::v3::header_value_option::HeaderAppendAction;
use crate::proto::envoy::config::core::v3::{self as core, HeaderValueOption};
use crate::proto::envoy::service::auth::v3::attribute_context::HttpRequest;
use crate::proto::envoy::service::auth::v3::authorization_server::Authorization;
use crate::proto::envoy::service::auth::v3::check_response::HttpResponse;
use crate::proto::envoy::service::auth::v3::{CheckRequest, CheckResponse, DeniedHttpResponse, OkHttpResponse};
use crate::proto::envoy::r#type::v3::HttpStatus;
use crate::proto::google::rpc;

/// Path of the method of the service.
pub(crate) const ROUTE: &str = "/envoy.service.auth.v3.Authorization/Check";

pub(crate) struct ExternalAuth<S: ChargeStore>(Agent<S>);

impl<S: ChargeStore> ExternalAuth<S> {
    pub(crate) fn new(agent: Agent<S>) -> Self {
        Self(agent)
    }
}

#[tonic::async_trait]
impl<S: ChargeStore> Authorization for ExternalAuth<S> {
    async fn check(&self, request: Request<CheckRequest>) -> Result<Response<CheckResponse>, Status> {
        let peer = request.extensions().get::<ConnectInfo<Peer>>().and_then(|ConnectInfo(peer)| peer.ip());
        let (metadata, _, request) = request.into_parts();
        let attributes = request.attributes.and_then(|attributes| attributes.request?.http);
        let missing =
            "the request is not valid: it has no `attributes.request.http`; ask with Envoy's ext_authz filter";
        let http = attributes.ok_or_else(|| Status::invalid_argument(missing))?;
        let mut headers = headers_of(&http);
        take_trace(&mut headers, &metadata.into_headers());
        let described = request::Request { method: &http.method, path: &http.path, peer, headers: &headers };
        let call = self.0.describe(&described);
        let decision = self.0.decide(&call).await;
        self.0.log_answer(&call, &decision, http_response::status_code(&decision), &headers);
        Ok(Response::new(response(&self.0, &call, &decision)))
    }
}

/// Returns the headers of the client's request. Envoy joins several values of a name, unless it sends them raw.
fn headers_of(request: &HttpRequest) -> HeaderMap {
    let joined = request.headers.iter().map(|(name, value)| (&**name, value.as_bytes()));
    let raw = request.header_map.iter().flat_map(|map| &map.headers).map(|header| {
        let value = if header.raw_value.is_empty() { header.value.as_bytes() } else { &header.raw_value };
        (&*header.key, value)
    });
    let header = |(name, value): (&str, &[u8])| {
        // Names such as `:path` are no headers.
        let name = HeaderName::from_bytes(name.as_bytes()).ok()?;
        Some((name, HeaderValue::from_bytes(value).ok()?))
    };
    let mut headers = HeaderMap::new();
    for (name, value) in joined.chain(raw).filter_map(header) {
        // The map has an upper bound of names, far above what Envoy sends.
        if headers.try_append(name, value).is_err() {
            break;
        }
    }
    headers
}

/// Takes over the trace of the question in place of that of the client's request. Envoy traces its questions, and over HTTP sends this
/// trace instead of the client's, too.
fn take_trace(headers: &mut HeaderMap, of_question: &HeaderMap) {
    if request::trace_parent(of_question).is_some() {
        headers.insert(request::TRACE_PARENT, of_question[request::TRACE_PARENT].clone());
    }
}

fn response<S: ChargeStore>(agent: &Agent<S>, call: &Call<'_>, decision: &Decision) -> CheckResponse {
    let (code, answer) = if decision.allowed {
        let response_headers_to_add = options(headers::of_decision(decision, agent.node()));
        let headers_to_remove = http_response::header_names().map(ToOwned::to_owned).collect();
        (Code::Ok, HttpResponse::OkResponse(OkHttpResponse { headers_to_remove, response_headers_to_add }))
    } else {
        let id = agent.decision_id(call, decision);
        let (parts, body) = http_response::response(decision, agent.node(), &id).into_parts();
        let status = HttpStatus { code: parts.status.as_u16().into() };
        let denied =
            DeniedHttpResponse { status: Some(status), headers: options(headers::of_map(&parts.headers)), body };
        (Code::PermissionDenied, HttpResponse::DeniedResponse(denied))
    };
    CheckResponse {
        status: Some(rpc::Status { code: code.into(), message: String::new() }),
        dynamic_metadata: Some(metadata(decision, slice::from_ref(decision))),
        http_response: Some(answer),
    }
}

/// Returns headers that replace those of the backend.
fn options(headers: impl Iterator<Item = (String, String)>) -> Vec<HeaderValueOption> {
    let option = |(key, value)| HeaderValueOption {
        header: Some(core::HeaderValue { key, value, ..core::HeaderValue::default() }),
        append_action: HeaderAppendAction::OverwriteIfExistsOrAdd.into(),
    };
    headers.map(option).collect()
}
