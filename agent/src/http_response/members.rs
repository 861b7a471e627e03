//! Members of the body of a decision, which are written in alphabetical order, without a tree of values in between.

use std::borrow::Cow;
use std::ops::Not;

use serde::ser::{Serialize, SerializeMap, Serializer};
use tollgate_core::decision::{Decision, LimitKind, LocalAnswer};
use tollgate_core::own_answer::FieldValue;

use super::{denial, may_pass_later, own_fields, shown, status_code};

#[derive(serde::Serialize)]
pub(super) struct Members<'d> {
    allowed: bool,
    at_ms: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    by: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    delay_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<Cow<'d, str>>,
    /// `/settle` and `/release` name the call by it.
    id: &'d str,
    limit: Option<u64>,
    #[serde(skip_serializing_if = "Not::not")]
    over_quota: bool,
    remaining: Option<u64>,
    reset_ms: Option<u64>,
    retry_after_ms: Option<u64>,
    rule: Option<&'d str>,
    #[serde(skip_serializing_if = "Not::not")]
    slots: bool,
    source: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<&'d str>,
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    kind: Option<&'static str>,
    #[serde(rename = "violated-policies", skip_serializing_if = "Option::is_none")]
    violated_policies: Option<[&'d str; 1]>,
    #[serde(flatten)]
    own: OwnFields<'d>,
}

/// Further members that the rule of a denial chooses.
struct OwnFields<'d>(&'d [(Box<str>, FieldValue)]);

/// Value of such a member.
pub(super) struct OwnField<'d>(pub(super) &'d FieldValue);

impl<'d> Members<'d> {
    pub(super) fn of(decision: &'d Decision, id: &'d str) -> Self {
        let limit = shown(decision);
        let denied = decision.status.as_ref().filter(|_| !decision.allowed);
        let (kind, title, detail) = match denied.map(|status| denial(decision, status)) {
            Some((kind, title, detail)) => (Some(kind), Some(title), Some(detail)),
            None => (None, None, None),
        };
        let may_pass = |_: &&_| decision.allowed || may_pass_later(decision);
        Self {
            allowed: decision.allowed,
            at_ms: decision.at.as_ms(),
            by: decision.by.map(LocalAnswer::as_str),
            delay_ms: Some(decision.delay_ms).filter(|ms| *ms > 0),
            detail,
            id,
            limit: limit.map(|limit| limit.at_once),
            over_quota: decision.is_over_quota,
            remaining: limit.filter(|limit| !limit.hides_remaining).map(|limit| limit.remaining),
            reset_ms: limit.map(|limit| limit.reset_ms),
            retry_after_ms: limit.filter(may_pass).map(|limit| limit.retry_after_ms),
            rule: limit.map(|limit| &*limit.rule),
            slots: limit.is_some_and(|limit| limit.kind == LimitKind::Slots),
            source: decision.source.as_str(),
            status: denied.map(|_| status_code(decision).as_u16()),
            title,
            kind,
            violated_policies: denied.map(|status| [&*status.rule]),
            own: OwnFields(denied.map_or(&[], own_fields)),
        }
    }

    pub(super) fn to_json(&self) -> String {
        serde_json::to_string(self).expect("texts and numbers have a form in JSON")
    }
}

impl Serialize for OwnFields<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, value) in self.0 {
            map.serialize_entry(name, &OwnField(value))?;
        }
        map.end()
    }
}

impl Serialize for OwnField<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            FieldValue::Text(text) => serializer.serialize_str(text),
            FieldValue::Whole(number) => number.serialize(serializer),
            FieldValue::Flag(flag) => serializer.serialize_bool(*flag),
        }
    }
}
