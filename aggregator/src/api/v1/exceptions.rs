//! `/api/v1/exceptions?rule=R&limit=50&offset=0`: the exceptions of rules and the list entries that are in force and end by themselves.

use axum::extract::State;
use axum::response::Response;
use serde::Deserialize;
use serde_json::{Value, json};
use tollgate_core::rules::RuleSet;
use tollgate_rules::{ExceptionTarget, ExceptionText};

use super::query::{Refusal, limit};
use super::state::V1;
use crate::api::params::Params;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ExceptionsQuery {
    rule: Option<String>,
    limit: Option<usize>,
    #[serde(default)]
    offset: usize,
}

pub(super) async fn exceptions(
    State(v1): State<V1>,
    Params(query): Params<ExceptionsQuery>,
) -> Result<Response, Refusal> {
    let limit = limit(query.limit)?;
    let (known, key) = (v1.analytics.rules.clone(), v1.analytics.key.clone());
    v1.answer(move |_, now| {
        let in_force = |set: &RuleSet| (set.generation, ExceptionText::in_force_at(now, set, &key));
        let (generation, mut exceptions) = known.read(in_force).unzip();
        let exceptions = exceptions.get_or_insert_default();
        exceptions.retain(|exception| is_of_rule(exception, query.rule.as_deref()));
        let shown: Vec<Value> = exceptions.iter().skip(query.offset).take(limit).map(exception).collect();
        Ok(json!({
            "now_ms": now.as_ms(),
            "generation": generation,
            "matched": exceptions.len(),
            "exceptions": shown,
        }))
    })
    .await
}

/// Returns true if calls of a rule may meet the exception. A list stands before all rules.
fn is_of_rule(exception: &ExceptionText, wanted: Option<&str>) -> bool {
    match (&exception.target, wanted) {
        (ExceptionTarget::Rule(rule), Some(wanted)) => **rule == *wanted,
        _ => true,
    }
}

fn exception(ExceptionText { target, callers, quota, end }: &ExceptionText) -> Value {
    let (rule, list) = match target {
        ExceptionTarget::Rule(rule) => (Some(&**rule), None),
        ExceptionTarget::Allow => (None, Some("allow")),
        ExceptionTarget::Deny => (None, Some("deny")),
    };
    json!({
        "rule": rule,
        "list": list,
        "callers": callers,
        "quota": quota,
        "until_ms": end.until.as_ms(),
        "reason": *end.reason,
    })
}
