//! Dynamic metadata of a decision, for the access log and for later filters of Envoy.

use prost_types::value::Kind;
use prost_types::{Struct, Value};
use tollgate::Decision;

/// Returns the deciding rule (none if no rule applies), and the source of the decision.
pub(crate) fn metadata(decision: &Decision) -> Struct {
    let text = |text: &str| Value { kind: Some(Kind::StringValue(text.to_owned())) };
    let rule = decision.status.as_ref().map(|status| ("rule".to_owned(), text(&status.rule)));
    let source = ("source".to_owned(), text(decision.source.as_str()));
    Struct { fields: rule.into_iter().chain([source]).collect() }
}
