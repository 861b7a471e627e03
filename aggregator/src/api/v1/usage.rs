//! `/api/v1/usage?api_key=k9&minutes=60`: units of one caller under each rule, now and over time.
//!
//! A caller is named by descriptors as it sends them, or as labels show them. Rules are known by their callers' labels only, so each
//! label that consists of these descriptors is an answer.

use std::collections::BTreeMap;

use axum::extract::State;
use axum::response::Response;
use serde_json::{Value, json};
use tollgate_aggregator_engine::analytics::{CallerSums, CallersOrder, FleetView};
use tollgate_core::clock::Timestamp;
use tollgate_core::messages::rollups::{MINUTE_MS, Subject};

use super::query::{Refusal, bad_request, minutes};
use super::series::point;
use super::state::V1;
use crate::api::params::Params;

/// Parameter that is no descriptor.
const MINUTES: &str = "minutes";

pub(super) async fn usage(
    State(v1): State<V1>,
    Params(mut query): Params<BTreeMap<String, String>>,
) -> Result<Response, Refusal> {
    let wanted = query.remove(MINUTES).map(|text| text.parse().map_err(|_| refuse_minutes(&text))).transpose()?;
    let minutes = minutes(wanted)?;
    if query.is_empty() {
        return Err(bad_request("name a caller by its descriptors, such as /api/v1/usage?api_key=k9"));
    }
    // Only one name may begin at each place of a label.
    if let Some(name) = query.keys().find(|name| name.contains(['=', ' '])) {
        return Err(bad_request(format!("`{name}`: a descriptor's name has neither `=` nor a blank")));
    }
    // A label has a value as it is, cut to a line, or digested.
    let values = |(name, value): (String, String)| {
        let [cut, digested] = [false, true].map(|secret| v1.analytics.key.shown(&value, secret));
        [value, cut, digested].map(|value| format!("{name}={value}"))
    };
    let parts: Vec<_> = query.into_iter().map(values).collect();
    v1.answer(move |view, now| Ok(find(view, now, &parts, minutes))).await
}

fn refuse_minutes(text: &str) -> Refusal {
    bad_request(format!("minutes={text}: write a number"))
}

fn find(view: &FleetView, now: Timestamp, parts: &[[String; 3]], minutes: u64) -> Value {
    let is_wanted = |_: &str, caller: &str| consists_of(caller, parts);
    let callers = view.callers(now, minutes, CallersOrder::Calls, is_wanted);
    let usage: Vec<_> = callers.iter().map(|sums| of_rule(view, now, sums, minutes)).collect();
    let is_exact = !view.lacks_callers(now, minutes, None);
    json!({ "now_ms": now.as_ms(), "minutes": minutes, "exact": is_exact, "usage": usage })
}

fn of_rule(view: &FleetView, now: Timestamp, sums: &CallerSums, minutes: u64) -> Value {
    let subject = Subject::Caller { rule: sums.rule.clone(), caller: sums.caller.clone() };
    let from = now.minus_ms(minutes * MINUTE_MS);
    let points = view.series(&subject, MINUTE_MS, from.minus_ms(from.as_ms() % MINUTE_MS), now);
    let limit = &sums.limit;
    json!({
        "rule": *sums.rule,
        "caller": *sums.caller,
        "quota": limit.quota,
        "window_ms": limit.window_ms,
        "used": limit.used,
        "left": limit.used.map(|used| limit.quota.saturating_sub(used)),
        "reset_ms_max": limit.used.map(|used| if used > 0 { limit.window_ms } else { 0 }),
        "points": points.iter().map(point).collect::<Vec<_>>(),
    })
}

/// Returns true if a label is one or several of the parts, each in one of its forms, joined by blanks. Values may contain blanks.
fn consists_of(label: &str, parts: &[[String; 3]]) -> bool {
    parts.iter().flatten().any(|part| match label.strip_prefix(&**part) {
        Some("") => true,
        Some(rest) => rest.strip_prefix(' ').is_some_and(|rest| consists_of(rest, parts)),
        None => false,
    })
}

#[cfg(test)]
mod tests {
    use tollgate_core::counter::DigestKey;

    use super::*;

    #[test]
    fn a_label_consists_of_descriptors_in_plain_or_digested_form() {
        let key = DigestKey::default();
        let parts = [("api_key", "k1"), ("tenant", "a b"), ("ip", "::1")].map(|(name, value)| {
            [value.to_owned(), key.shown(value, false), key.shown(value, true)].map(|value| format!("{name}={value}"))
        });
        let secret = format!("api_key={}", key.shown("k1", true));
        for label in ["tenant=a b", "tenant=a b ip=::1", &secret, &format!("{secret} tenant=a b")] {
            assert!(consists_of(label, &parts), "{label}");
        }
        for label in ["", "tenant=a", "tenant=a b c", "api_key=k11", "(all calls)", "(others)", "tenant=a b user=u"] {
            assert!(!consists_of(label, &parts), "{label}");
        }
    }
}
