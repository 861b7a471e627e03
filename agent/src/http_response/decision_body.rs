//! Body of a decision, whose members are written in alphabetical order, without a tree of values in between.

use std::borrow::Cow;
use std::ops::Not;

use serde::ser::{Serialize, SerializeMap, Serializer};
use tollgate_core::own_answer::FieldValue;

#[derive(serde::Serialize)]
pub(super) struct DecisionBody<'d> {
    pub(super) allowed: bool,
    pub(super) at_ms: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) by: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) delay_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) detail: Option<Cow<'d, str>>,
    /// `/settle` and `/release` name the call by it.
    pub(super) id: &'d str,
    pub(super) limit: Option<u64>,
    #[serde(skip_serializing_if = "Not::not")]
    pub(super) over_quota: bool,
    pub(super) remaining: Option<u64>,
    pub(super) reset_ms: Option<u64>,
    pub(super) retry_after_ms: Option<u64>,
    pub(super) rule: Option<&'d str>,
    #[serde(skip_serializing_if = "Not::not")]
    pub(super) slots: bool,
    pub(super) source: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) status: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) title: Option<&'d str>,
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub(super) kind: Option<&'static str>,
    #[serde(rename = "violated-policies", skip_serializing_if = "Option::is_none")]
    pub(super) violated_policies: Option<[&'d str; 1]>,
    #[serde(flatten)]
    pub(super) own: OwnFields<'d>,
}

/// Further members that the rule of a denial chooses.
pub(super) struct OwnFields<'d>(pub(super) &'d [(Box<str>, FieldValue)]);

/// Value of such a member.
pub(super) struct OwnField<'d>(pub(super) &'d FieldValue);

impl DecisionBody<'_> {
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
