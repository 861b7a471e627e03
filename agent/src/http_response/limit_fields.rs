//! The fields `RateLimit-Policy` and `RateLimit`: structured lists (RFC 9651) with an item of each rule that is told.

use tollgate_core::decision::{Decision, LimitKind, LimitStatus};

/// Maximum integer of a structured field (RFC 9651).
const FIELD_NUMBER_MAX: u64 = 999_999_999_999_999;

/// Returns the value of `RateLimit-Policy`.
pub(super) fn policies(decision: &Decision, shown: &LimitStatus) -> String {
    list(told(decision, shown).map(quota_policy))
}

/// Returns the value of `RateLimit`; none if the remaining units of no rule are known.
pub(super) fn limits(decision: &Decision, shown: &LimitStatus) -> Option<String> {
    let limits = list(told(decision, shown).filter_map(|status| service_limit(decision, status)));
    (!limits.is_empty()).then_some(limits)
}

/// Returns the rules that are told: the shown one first, and none in shadow or with hidden headers.
fn told<'d>(decision: &'d Decision, shown: &'d LimitStatus) -> impl Iterator<Item = &'d LimitStatus> {
    let hides = |other: &LimitStatus| other.own_answer.as_deref().is_some_and(|answer| !answer.hide.is_empty());
    std::iter::once(shown).chain(decision.others.iter().filter(move |other| !other.shadow && !hides(other)))
}

/// Returns a list of a structured field.
fn list(items: impl Iterator<Item = String>) -> String {
    let mut list = String::new();
    for item in items {
        if !list.is_empty() {
            list.push_str(", ");
        }
        list.push_str(&item);
    }
    list
}

/// Returns the item of a rule in `RateLimit-Policy`.
fn quota_policy(status: &LimitStatus) -> String {
    format!("\"{}\";q={}{}", status.rule, status.at_once.min(FIELD_NUMBER_MAX), window(status))
}

/// Returns the item of a rule in `RateLimit`; none if the remaining units are not known, because the draft has no value for that.
fn service_limit(decision: &Decision, status: &LimitStatus) -> Option<String> {
    // The draft wants no `Retry-After` before the end of `t`. A rule beside the denying one has none.
    let denies = !decision.allowed && status.cost_max.is_none() && status.retry_after_ms > 0;
    let more_in_ms = if denies { status.retry_after_ms } else { status.reset_ms };
    let (remaining, wait_s) = (status.remaining.min(FIELD_NUMBER_MAX), more_in_ms.div_ceil(1_000));
    (!status.hides_remaining).then(|| format!("\"{}\";r={remaining};t={wait_s}", status.rule))
}

/// Returns the window, or the unit of calls in progress, as parameters of `RateLimit-Policy`.
fn window(status: &LimitStatus) -> String {
    if status.kind == LimitKind::Slots {
        return r#";qu="concurrent-requests""#.to_owned();
    }
    let width_ms = u128::from(status.window_ms) * u128::from(status.at_once);
    match width_ms.checked_div(u128::from(status.limit)) {
        Some(width_ms) => format!(";w={}", width_ms.div_ceil(1_000).clamp(1, FIELD_NUMBER_MAX.into())),
        // A deny list has no window.
        None => String::new(),
    }
}
