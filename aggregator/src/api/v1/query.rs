//! Bounds of the parameters of the questions: a wrong one is refused with the reason and the remedy.

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use tollgate_aggregator_engine::analytics::FleetView;

use crate::api::responses::problem;

/// Maximum number of minutes that are summed for a list: a day.
const MINUTES_MAX: u64 = 1_440;
const MINUTES_DEFAULT: u64 = 5;
const LIMIT_MAX: usize = 10_000;
const LIMIT_DEFAULT: usize = 50;

/// A question that is refused.
pub(super) struct Refusal {
    status: StatusCode,
    detail: String,
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        problem(self.status, &self.detail)
    }
}

pub(super) fn bad_request(detail: impl Into<String>) -> Refusal {
    Refusal { status: StatusCode::BAD_REQUEST, detail: detail.into() }
}

/// Refuses a rule that no call of the last day met.
///
/// # Errors
/// If the rule is unknown.
pub(super) fn known_rule(view: &FleetView, rule: Option<&str>) -> Result<(), Refusal> {
    let unknown = |rule| {
        let detail = format!("no call of the last day met a rule `{rule}`; /api/v1/rules lists those in use");
        Err(Refusal { status: StatusCode::NOT_FOUND, detail })
    };
    rule.filter(|rule| !view.knows_rule(rule)).map_or(Ok(()), unknown)
}

/// Returns the minutes to sum.
///
/// # Errors
/// If there are none, or more than a day.
pub(super) fn minutes(wanted: Option<u64>) -> Result<u64, Refusal> {
    let minutes = wanted.unwrap_or(MINUTES_DEFAULT);
    let is_kept = (1..=MINUTES_MAX).contains(&minutes);
    let refuse = || bad_request(format!("minutes={minutes}: write a number from 1 to {MINUTES_MAX}"));
    is_kept.then_some(minutes).ok_or_else(refuse)
}

/// Returns the number of entries of one answer.
///
/// # Errors
/// If it is too large.
pub(super) fn limit(wanted: Option<usize>) -> Result<usize, Refusal> {
    let limit = wanted.unwrap_or(LIMIT_DEFAULT);
    let refuse =
        || bad_request(format!("limit={limit}: write a number up to {LIMIT_MAX}, and offset= for the next ones"));
    (limit <= LIMIT_MAX).then_some(limit).ok_or_else(refuse)
}
