//! Spans as messages. A span lasts from the request to the store until its answer, or until the deadline of the call.
//!
//! No attribute holds a descriptor, because a descriptor may be a secret.

use tollgate::LocalAnswer;
use tollgate::store::StoreError;

use super::messages::{attribute, scope, whole_ns};
use super::proto::opentelemetry::proto::collector::trace::v1::ExportTraceServiceRequest;
use super::proto::opentelemetry::proto::resource::v1::Resource;
use super::proto::opentelemetry::proto::trace::v1::span::SpanKind;
use super::proto::opentelemetry::proto::trace::v1::status::StatusCode;
use super::proto::opentelemetry::proto::trace::v1::{ResourceSpans, ScopeSpans, Span, Status};
use super::span_queue::SpanFacts;

/// Name of all spans.
const NAME: &str = "tollgate.ask_store";
/// Flag of a trace that is sampled, as all are that have spans here.
const SAMPLED: u32 = 1;
/// Flag of a span that tells if its parent is in another process.
const TELLS_REMOTE: u32 = 0x100;
/// Flag of a span whose parent is in another process.
const REMOTE: u32 = 0x200;

/// Returns the request that tells these spans. `store` is the address of the store, if it has one.
pub(super) fn span_request<'f>(
    facts: impl IntoIterator<Item = &'f SpanFacts>,
    resource: &Resource,
    store: Option<&str>,
) -> ExportTraceServiceRequest {
    let spans = facts.into_iter().map(|facts| span(facts, (random_trace(), random_span()), store)).collect();
    let scope_spans = ScopeSpans { scope: Some(scope()), spans };
    let resource_spans = ResourceSpans { resource: Some(resource.clone()), scope_spans: vec![scope_spans] };
    ExportTraceServiceRequest { resource_spans: vec![resource_spans] }
}

/// Returns a span with this identifier, in the trace of its parent or else in this one.
fn span(facts: &SpanFacts, (trace, id): (u128, u64), store: Option<&str>) -> Span {
    let (trace_id, parent_span_id) = match facts.parent {
        Some(parent) => {
            let (trace, parent) = parent.bytes().split_at(size_of::<u128>());
            (trace.to_vec(), parent.to_vec())
        }
        None => (trace.to_be_bytes().to_vec(), Vec::new()),
    };
    let remote = if facts.parent.is_some() { REMOTE } else { 0 };
    let attributes = [
        ("tollgate.rule", facts.rule.as_deref()),
        ("tollgate.decision", Some(if facts.allowed { "allowed" } else { "denied" })),
        ("tollgate.source", Some(facts.source.as_str())),
        ("tollgate.by", facts.by.map(LocalAnswer::as_str)),
        ("tollgate.store", store),
        ("error.type", facts.error.map(|error| StoreError::NAMES[error.place()])),
    ];
    let attributes = attributes.into_iter().filter_map(|(key, value)| Some(attribute(key, value?)));
    let status = facts.error.map(|error| Status { message: error.to_string(), code: StatusCode::Error.into() });
    Span {
        trace_id,
        span_id: id.to_be_bytes().to_vec(),
        parent_span_id,
        flags: SAMPLED | TELLS_REMOTE | remote,
        name: NAME.to_owned(),
        kind: SpanKind::Internal.into(),
        start_time_unix_nano: whole_ns(facts.ended.saturating_sub(facts.took)),
        end_time_unix_nano: whole_ns(facts.ended),
        attributes: attributes.collect(),
        status: Some(status.unwrap_or_default()),
    }
}

/// Returns an identifier of a trace, which is never 0.
fn random_trace() -> u128 {
    fastrand::u128(1..)
}

fn random_span() -> u64 {
    fastrand::u64(1..)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tollgate::Source;
    use tollgate_core::trace_context::TraceContext;

    use super::*;
    use crate::otlp::messages::resource;

    fn allowed() -> SpanFacts {
        SpanFacts {
            parent: None,
            rule: Some("per-key".into()),
            allowed: true,
            source: Source::Store,
            by: None,
            ended: Duration::from_micros(1_800_000_000_000_250),
            took: Duration::from_micros(250),
            error: None,
        }
    }

    #[test]
    fn a_decision_of_the_store_is_a_span_that_begins_a_trace() {
        let made = span(&allowed(), (0xa, 0xb), Some("redis://h:6379"));
        assert_eq!((made.trace_id, made.span_id), (0xa_u128.to_be_bytes().to_vec(), 0xb_u64.to_be_bytes().to_vec()));
        assert_eq!((&*made.name, made.kind, made.flags), ("tollgate.ask_store", 1, 0x101));
        let times = (made.start_time_unix_nano, made.end_time_unix_nano);
        assert_eq!(times, (1_800_000_000_000_000_000, 1_800_000_000_000_250_000));
        assert_eq!((made.parent_span_id, made.status), (Vec::new(), Some(Status::default())));
        let attributes = [
            ("tollgate.rule", "per-key"),
            ("tollgate.decision", "allowed"),
            ("tollgate.source", "store"),
            ("tollgate.store", "redis://h:6379"),
        ];
        assert_eq!(made.attributes, attributes.map(|(key, value)| attribute(key, value)));
    }

    #[test]
    fn a_late_store_is_an_error_in_the_trace_of_the_caller() {
        let late = SpanFacts {
            parent: Some(TraceContext::new(7, 8)),
            rule: None,
            allowed: false,
            source: Source::Fallback,
            by: Some(LocalAnswer::Late),
            error: Some(StoreError::TimedOut),
            ..allowed()
        };
        let made = span(&late, (0xa, 0xb), None);
        assert_eq!((made.trace_id, made.parent_span_id), (7_u128.to_be_bytes().to_vec(), 8_u64.to_be_bytes().to_vec()));
        assert_eq!((made.span_id, made.flags), (0xb_u64.to_be_bytes().to_vec(), 0x301));
        let message = "the store did not answer in time".to_owned();
        assert_eq!(made.status, Some(Status { message, code: StatusCode::Error.into() }));
        let attributes = [
            ("tollgate.decision", "denied"),
            ("tollgate.source", "fallback"),
            ("tollgate.by", "late"),
            ("error.type", "timed_out"),
        ];
        assert_eq!(made.attributes, attributes.map(|(key, value)| attribute(key, value)));
    }

    #[test]
    fn each_span_of_a_request_has_an_identifier_of_its_own() {
        let request = span_request(&[allowed(), allowed()], &resource("tollgate-agent", "gw-1"), None);
        let spans = &request.resource_spans[0].scope_spans[0].spans;
        assert!(spans[0].span_id != spans[1].span_id && spans[0].trace_id != spans[1].trace_id, "{spans:?}");
        assert!(spans.iter().all(|span| (span.trace_id.len(), span.span_id.len()) == (16, 8)));
    }
}
