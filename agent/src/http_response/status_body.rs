//! Body of the answers to settlements and releases: the limit after them.

use serde_json::{Value, json};
use tollgate_core::decision::{LimitKind, LimitStatus};

/// Returns the body of a settlement: the members of a decision's body that describe its rule.
#[must_use]
pub fn status_body(status: Option<&LimitStatus>) -> Value {
    let mut body = json!({
        "rule": status.map(|status| &*status.rule),
        "limit": status.map(|status| status.at_once),
        "remaining": status.filter(|status| !status.hides_remaining).map(|status| status.remaining),
        "reset_ms": status.map(|status| status.reset_ms),
    });
    if status.is_some_and(|status| status.kind == LimitKind::Slots) {
        body["slots"] = true.into();
    }
    body
}
