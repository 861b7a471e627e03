//! `envoy.service.ratelimit.v3.RateLimitService`, which the rate limit filters of Envoy, Istio and Envoy Gateway ask.

use std::borrow::Cow;

use prost_types::Duration;
use tollgate::Agent;
use tollgate::envoy_rate_limit::{
    CurrentLimit, DescriptorStatus, LimitUnit, RateLimitAnswer, RateLimitCalls, RateLimitDescriptor, RateLimitError,
};
use tollgate::store::ChargeStore;
use tonic::{Request, Response, Status};

use crate::headers;
use crate::metadata::metadata;
use crate::proto::envoy::config::core::v3::HeaderValue;
use crate::proto::envoy::extensions::common::ratelimit::v3::RateLimitDescriptor as Descriptor;
use crate::proto::envoy::service::ratelimit::v3::rate_limit_response::{self, Code, RateLimit};
use crate::proto::envoy::service::ratelimit::v3::rate_limit_service_server::RateLimitService;
use crate::proto::envoy::service::ratelimit::v3::{RateLimitRequest, RateLimitResponse};

/// Path of the method of the service.
pub(crate) const ROUTE: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";

pub(crate) struct RateLimits<S: ChargeStore>(Agent<S>);

impl<S: ChargeStore> RateLimits<S> {
    pub(crate) fn new(agent: Agent<S>) -> Self {
        Self(agent)
    }
}

#[tonic::async_trait]
impl<S: ChargeStore> RateLimitService for RateLimits<S> {
    async fn should_rate_limit(
        &self,
        request: Request<RateLimitRequest>,
    ) -> Result<Response<RateLimitResponse>, Status> {
        let (metadata, _, request) = request.into_parts();
        let headers = metadata.into_headers();
        let texts: Vec<Vec<_>> = request.descriptors.iter().map(texts).collect();
        let descriptors = request.descriptors.iter().zip(&texts).map(|(descriptor, texts)| RateLimitDescriptor {
            entries: texts.iter().map(|(key, value)| (&**key, &**value)),
            hits: descriptor.hits_addend,
            is_negative_hits: descriptor.is_negative_hits,
            limit: descriptor.limit.as_ref().map(|limit| (limit.requests_per_unit, LimitUnit::numbered(limit.unit))),
        });
        let calls = RateLimitCalls::new(&request.domain, request.hits_addend.into(), descriptors)
            .map_err(|error| refused(&error))?
            .traced(&headers);
        let answer = calls.decide(&self.0, &headers).await.map_err(|error| refused(&error))?;
        Ok(Response::new(response(&answer, self.0.node())))
    }
}

/// Returns keys and values of the entries. Bytes that are no UTF-8 become U+FFFD, as over HTTP.
fn texts(descriptor: &Descriptor) -> Vec<(Cow<'_, str>, Cow<'_, str>)> {
    let text = |entry| String::from_utf8_lossy(entry);
    descriptor.entries.iter().map(|entry| (text(&entry.key), text(&entry.value))).collect()
}

fn refused(error: &RateLimitError) -> Status {
    match error {
        RateLimitError::Invalid(_) => Status::invalid_argument(error.to_string()),
        RateLimitError::NotRefunded(_) => Status::unavailable(error.to_string()),
    }
}

fn response(answer: &RateLimitAnswer, node: &str) -> RateLimitResponse {
    let deciding = answer.deciding();
    let headers = deciding.into_iter().flat_map(|decision| headers::of_decision(decision, node));
    let header = |(key, value)| HeaderValue { key, value, ..HeaderValue::default() };
    RateLimitResponse {
        overall_code: code(answer.is_allowed()).into(),
        statuses: answer.statuses().iter().map(status).collect(),
        response_headers_to_add: headers.map(header).collect(),
        dynamic_metadata: deciding.map(|decision| metadata(decision, answer.decisions())),
    }
}

fn status(status: &DescriptorStatus<'_>) -> rate_limit_response::DescriptorStatus {
    let limit = status.limit.as_ref();
    rate_limit_response::DescriptorStatus {
        code: code(!status.is_over_limit).into(),
        current_limit: limit.map(current_limit),
        limit_remaining: limit.map_or(0, |limit| limit.remaining),
        duration_until_reset: limit.map(|limit| duration(limit.reset_ms)),
    }
}

fn current_limit(limit: &CurrentLimit<'_>) -> RateLimit {
    RateLimit { name: limit.name.to_owned(), requests_per_unit: limit.requests_per_unit, unit: limit.unit as i32 }
}

fn code(allowed: bool) -> Code {
    if allowed { Code::Ok } else { Code::OverLimit }
}

/// Returns a time in whole seconds, rounded up.
fn duration(ms: u64) -> Duration {
    Duration { seconds: i64::try_from(ms.div_ceil(1_000)).unwrap_or(i64::MAX), nanos: 0 }
}
