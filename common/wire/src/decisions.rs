//! Records of the topic `decisions` and lines of the decision log: one JSON object for each decision.
//!
//! docs/analytics.md describes the fields. A field without a value is left out. Nothing in Tollgate reads these records.

use std::collections::BTreeMap;

use serde::Serialize;
use tollgate_core::decision::LocalAnswer;
use tollgate_core::messages::calls::DenialCause;
use tollgate_core::messages::decisions::{DecisionEvent, DecisionLimit};

use super::VERSION;

#[derive(Serialize)]
struct DecisionObject<'a> {
    version: u32,
    at_ms: u64,
    agent: &'a str,
    region: &'a str,
    id: &'a str,
    allowed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    cause: Option<&'static str>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    shadow_denied: bool,
    source: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    by: Option<&'static str>,
    cost: u64,
    #[serde(flatten)]
    rule: Option<DecidingRule<'a>>,
    descriptors: BTreeMap<&'a str, &'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    traceparent: Option<&'a str>,
    one_of: f64,
}

#[derive(Serialize)]
struct DecidingRule<'a> {
    rule: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    caller: Option<&'a str>,
    limit: u64,
    window_ms: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    remaining: Option<u64>,
    retry_after_ms: u64,
}

/// Returns the JSON object of a decision, without an end of line.
#[must_use]
pub fn decision_line(event: &DecisionEvent) -> String {
    let rule = event.limit.as_ref().map(|limit| {
        let DecisionLimit { rule, caller, quota, window_ms, remaining, retry_after_ms } = limit;
        DecidingRule {
            rule,
            caller: caller.as_deref(),
            limit: *quota,
            window_ms: *window_ms,
            remaining: *remaining,
            retry_after_ms: *retry_after_ms,
        }
    });
    let line = DecisionObject {
        version: VERSION,
        at_ms: event.at.as_ms(),
        agent: &event.agent,
        region: &event.region,
        id: &event.id,
        allowed: event.allowed,
        cause: event.cause.map(DenialCause::as_str),
        shadow_denied: event.shadow_denied,
        source: event.source.as_str(),
        by: event.by.map(LocalAnswer::as_str),
        cost: event.cost,
        rule,
        descriptors: event.descriptors.iter().map(|(name, value)| (&**name, &**value)).collect(),
        traceparent: event.trace.as_deref(),
        one_of: event.one_of,
    };
    // A line has no value that JSON lacks.
    serde_json::to_string(&line).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use tollgate_core::clock::Timestamp;
    use tollgate_core::decision::Source;

    use super::*;

    #[test]
    fn a_decision_is_one_line_and_leaves_out_what_it_has_not() {
        let limit = DecisionLimit {
            rule: "per-key".into(),
            caller: Some("api_key=key-1".into()),
            quota: 10,
            window_ms: 60_000,
            remaining: Some(0),
            retry_after_ms: 900,
        };
        let mut event = DecisionEvent {
            at: Timestamp::from_ms(5),
            agent: "gw-1".into(),
            region: "eu".into(),
            id: "gw-1.1.2".into(),
            allowed: false,
            cause: Some(DenialCause::Count),
            shadow_denied: true,
            source: Source::Local,
            by: Some(LocalAnswer::CachedDenial),
            cost: 3,
            limit: Some(limit),
            descriptors: vec![("endpoint".into(), "/a\n\"b".into())],
            trace: Some("00-1-2-01".into()),
            one_of: 1.0,
        };
        assert_eq!(
            decision_line(&event),
            r#"{"version":1,"at_ms":5,"agent":"gw-1","region":"eu","id":"gw-1.1.2","allowed":false,"cause":"count","shadow_denied":true,"source":"local","by":"cached_denial","cost":3,"rule":"per-key","caller":"api_key=key-1","limit":10,"window_ms":60000,"remaining":0,"retry_after_ms":900,"descriptors":{"endpoint":"/a\n\"b"},"traceparent":"00-1-2-01","one_of":1.0}"#
        );
        event = DecisionEvent {
            allowed: true,
            cause: None,
            shadow_denied: false,
            by: None,
            limit: None,
            trace: None,
            ..event
        };
        assert_eq!(
            decision_line(&event),
            r#"{"version":1,"at_ms":5,"agent":"gw-1","region":"eu","id":"gw-1.1.2","allowed":true,"source":"local","cost":3,"descriptors":{"endpoint":"/a\n\"b"},"one_of":1.0}"#
        );
    }
}
