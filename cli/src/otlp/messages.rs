//! Parts that the messages of spans and of metrics have in common: attributes, resource, scope and times.

use std::time::Duration;

use super::proto::opentelemetry::proto::common::v1::any_value::Value;
use super::proto::opentelemetry::proto::common::v1::{AnyValue, InstrumentationScope, KeyValue};
use super::proto::opentelemetry::proto::resource::v1::Resource;

/// Returns an attribute.
pub(super) fn attribute(key: &str, value: &str) -> KeyValue {
    let value = AnyValue { value: Some(Value::StringValue(value.to_owned())) };
    KeyValue { key: key.to_owned(), value: Some(value) }
}

/// Returns the process as a resource: its kind, its name in the fleet, and its version.
pub(super) fn resource(service: &str, instance: &str) -> Resource {
    let attributes =
        [("service.name", service), ("service.instance.id", instance), ("service.version", env!("CARGO_PKG_VERSION"))];
    Resource { attributes: attributes.map(|(key, value)| attribute(key, value)).into() }
}

/// Returns the scope of all spans and metrics.
pub(super) fn scope() -> InstrumentationScope {
    let (name, version) = ("tollgate".to_owned(), env!("CARGO_PKG_VERSION").to_owned());
    InstrumentationScope { name, version }
}

/// Returns a time in ns.
pub(super) fn whole_ns(time: Duration) -> u64 {
    time.as_nanos().try_into().unwrap_or(u64::MAX)
}
