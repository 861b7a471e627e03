//! Dynamic metadata of a decision, for the access log and for later filters of Envoy.

use prost_types::value::Kind;
use prost_types::{ListValue, Struct, Value};
use tollgate::Decision;

/// Returns the rule (none if no rule applies) and the source of the deciding decision, and of all decisions the rules in quota mode
/// whose limits are exceeded although the request passes.
pub(crate) fn metadata(deciding: &Decision, all: &[Decision]) -> Struct {
    let value = |kind| Value { kind: Some(kind) };
    let text = |text: &str| value(Kind::StringValue(text.to_owned()));
    let rule_of = |decision: &Decision| decision.status.as_ref().map(|status| text(&status.rule));
    let rule = rule_of(deciding).map(|rule| ("rule".to_owned(), rule));
    let source = ("source".to_owned(), text(deciding.source.as_str()));
    let rules: Vec<_> = all.iter().filter(|decision| decision.is_over_quota).filter_map(rule_of).collect();
    let over_quota =
        (!rules.is_empty()).then(|| ("over_quota".to_owned(), value(Kind::ListValue(ListValue { values: rules }))));
    Struct { fields: rule.into_iter().chain([source]).chain(over_quota).collect() }
}
