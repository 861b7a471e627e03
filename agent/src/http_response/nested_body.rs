//! Nested body of a denial: an object `error` with a code, a message and details, as many APIs have it.
//!
//! The numbers are those of the rule: its quota, and the window of the quota. `retry_after_seconds` is the value of `Retry-After`.

use jiff::Timestamp as Instant;
use serde_json::{Value, json};
use tollgate_core::clock::Timestamp;
use tollgate_core::decision::{LimitKind, LimitStatus};

const CODE: &str = "RATE_LIMIT_EXCEEDED";

/// Returns the message of a denial by the count of a window.
pub(super) fn over_quota(status: &LimitStatus) -> String {
    let units = if status.cost == 1 { "requests" } else { "units" };
    format!("Rate limit of {} {units} per {} seconds exceeded", status.limit, seconds(status.window_ms))
}

/// Returns the body of a denial at an instant. Without a time, no retry passes. A call that is denied regardless of its count has
/// neither a limit nor a reset.
pub(super) fn of(status: &LimitStatus, message: &str, retry_after_s: Option<u64>, at: Timestamp) -> Value {
    let has_limit = !matches!(status.kind, LimitKind::Denial(_));
    let reset_at_s = at.plus_ms(status.reset_ms).as_ms().div_ceil(1_000);
    let reset_at = i64::try_from(reset_at_s).ok().and_then(|s| Instant::from_second(s).ok());
    json!({ "error": {
        "code": CODE,
        "message": message,
        "details": {
            "limit": has_limit.then_some(status.limit),
            "window_seconds": (status.kind == LimitKind::Window).then(|| seconds(status.window_ms)),
            "retry_after_seconds": retry_after_s,
            "reset_at": reset_at.filter(|_| has_limit).map(|reset_at| reset_at.to_string()),
        },
    } })
}

/// Returns a time in s, which is a whole number where possible.
#[expect(clippy::cast_precision_loss, reason = "times are below 2^53 ms")]
fn seconds(ms: u64) -> Value {
    if ms.is_multiple_of(1_000) { json!(ms / 1_000) } else { json!(ms as f64 / 1_000.0) }
}
