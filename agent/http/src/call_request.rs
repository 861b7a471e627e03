//! JSON schema of a call: `{"descriptors": {"api_key": "k1"}, "cost": 1}`.
//!
//! The parser is written by hand instead of derived: a duplicate name, a cost of 0 or an unknown field is rejected with
//! its position, since each of them would otherwise silently weaken a limit.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};
use serde_untagged::UntaggedEnumVisitor;
use tollgate::Call;
use tollgate_core::call::{COST_MAX, VALUE_LEN_MAX};

const NUMBER_MAX: i64 = COST_MAX.cast_signed();

/// Permitted fields of a request body, and an example for error messages.
pub(crate) struct CallSchema {
    fields: &'static [&'static str],
    example: &'static str,
}

pub(crate) const CHECK: CallSchema =
    CallSchema { fields: &["descriptors", "cost", "id"], example: r#"{"descriptors": {"api_key": "k1"}, "cost": 1}"# };
pub(crate) const SETTLE: CallSchema = CallSchema {
    fields: &["descriptors", "unverified", "units", "id"],
    example: r#"{"descriptors": {"api_key": "k1"}, "units": 5}"#,
};
pub(crate) const RELEASE: CallSchema = CallSchema {
    fields: &["descriptors", "unverified", "cost", "id"],
    example: r#"{"descriptors": {"api_key": "k1"}, "id": "(the id of the answer)"}"#,
};

pub(crate) const RESET: CallSchema =
    CallSchema { fields: &["descriptors", "unverified"], example: r#"{"descriptors": {"api_key": "k1"}}"# };
pub(crate) const EXPLAIN: CallSchema = CallSchema {
    fields: &["descriptors", "unverified", "cost"],
    example: r#"{"descriptors": {"api_key": "k1"}, "unverified": {"tier": "pro"}}"#,
};

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct CallRequest<'a> {
    pub(crate) call: Call<'a>,
    pub(crate) units: Option<i64>,
}

struct CallVisitor(&'static CallSchema);
struct BatchVisitor;
struct BatchedCall<'a>(Call<'a>);
struct DescriptorFields<'a>(Call<'a>);
struct DescriptorsVisitor;
struct Text<'a>(Cow<'a, str>);
struct Whole<const MIN: i64, const MAX: i64>(i64);

/// Parses a body; the error contains the cause, the position, and an example.
pub(crate) fn parse<'b>(body: &'b [u8], schema: &'static CallSchema) -> Result<CallRequest<'b>, String> {
    if body.is_empty() {
        return Err(format!("the body is empty; send {}", schema.example));
    }
    let mut json = serde_json::Deserializer::from_slice(body);
    let request = json.deserialize_map(CallVisitor(schema)).and_then(|request| json.end().map(|()| request));
    request.map_err(|error| format!("the body is not a valid call: {error}; send {}", schema.example))
}

/// Parses the body of several calls, `{"calls": [...]}`.
pub(crate) fn parse_all(body: &[u8]) -> Result<Vec<Call<'_>>, String> {
    let mut json = serde_json::Deserializer::from_slice(body);
    let calls = json.deserialize_map(BatchVisitor).and_then(|calls| json.end().map(|()| calls));
    let example = CHECK.example;
    calls.map_err(|error| format!("the body is not a valid batch: {error}; send {{\"calls\": [{example}]}}"))
}

impl<'de> Visitor<'de> for BatchVisitor {
    type Value = Vec<Call<'de>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with `calls`")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut calls: Option<Vec<BatchedCall<'de>>> = None;
        while let Some(Text(field)) = map.next_key()? {
            if field != "calls" {
                return Err(Error::unknown_field(&field, &["calls"]));
            }
            fill(&mut calls, &field, &mut map)?;
        }
        let calls = calls.ok_or_else(|| Error::missing_field("calls"))?;
        Ok(calls.into_iter().map(|BatchedCall(call)| call).collect())
    }
}

impl<'de> Deserialize<'de> for BatchedCall<'de> {
    fn deserialize<D: Deserializer<'de>>(json: D) -> Result<Self, D::Error> {
        json.deserialize_map(CallVisitor(&CHECK)).map(|request| Self(request.call))
    }
}

impl<'de> Visitor<'de> for CallVisitor {
    type Value = CallRequest<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with `descriptors`")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<CallRequest<'de>, A::Error> {
        let (mut descriptors, mut claims, mut cost, mut id) = (None, None, None, None);
        let mut units = None;
        while let Some(Text(field)) = map.next_key()? {
            if !self.0.fields.contains(&&*field) {
                return Err(Error::unknown_field(&field, self.0.fields));
            }
            match &*field {
                "descriptors" => fill(&mut descriptors, &field, &mut map)?,
                "unverified" => fill(&mut claims, &field, &mut map)?,
                "cost" => fill(&mut cost, &field, &mut map)?,
                "id" => fill(&mut id, &field, &mut map)?,
                _ => fill(&mut units, &field, &mut map)?,
            }
        }
        let DescriptorFields(call) = descriptors.ok_or_else(|| Error::missing_field("descriptors"))?;
        let mut call = call.costing(cost.map_or(1, |Whole::<0, NUMBER_MAX>(cost)| cost.unsigned_abs()));
        for (name, value) in claims.iter().flat_map(|DescriptorFields(claims)| claims.descriptors()) {
            call.set_unverified(name.to_owned().into(), value.to_owned().into());
        }
        if let Some(Text(id)) = id {
            if id.is_empty() || id.len() > VALUE_LEN_MAX {
                let text = format_args!("the `id` has {} bytes; it must have 1 to {VALUE_LEN_MAX}", id.len());
                return Err(Error::custom(text));
            }
            call = call.identified(id);
        }
        let units = units.map(|Whole::<{ -NUMBER_MAX }, NUMBER_MAX>(units)| units);
        if units == Some(0) {
            return Err(Error::custom("`units` is 0; a settlement charges 1 or more, or refunds -1 or less"));
        }
        Ok(CallRequest { call, units })
    }
}

/// Reads the value of a field, which may appear once.
fn fill<'de, T: Deserialize<'de>, A: MapAccess<'de>>(
    value: &mut Option<T>,
    field: &str,
    map: &mut A,
) -> Result<(), A::Error> {
    match value.replace(value_of(field, map)?) {
        Some(_) => Err(Error::custom(format_args!("`{field}` appears twice"))),
        None => Ok(()),
    }
}

/// Reads the value of a field. An error names the field.
fn value_of<'de, T: Deserialize<'de>, A: MapAccess<'de>>(field: &str, map: &mut A) -> Result<T, A::Error> {
    map.next_value().map_err(|error| Error::custom(format_args!("`{field}`: {error}")))
}

impl<'de> Deserialize<'de> for DescriptorFields<'de> {
    fn deserialize<D: Deserializer<'de>>(json: D) -> Result<Self, D::Error> {
        json.deserialize_map(DescriptorsVisitor)
    }
}

impl<'de> Visitor<'de> for DescriptorsVisitor {
    type Value = DescriptorFields<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with names and values")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<DescriptorFields<'de>, A::Error> {
        let mut call = Call::new();
        while let Some(Text(name)) = map.next_key()? {
            let Text(value) = value_of(&name, &mut map)?;
            call.add(name, value).map_err(Error::custom)?;
        }
        Ok(DescriptorFields(call))
    }
}

impl<'de> Deserialize<'de> for Text<'de> {
    fn deserialize<D: Deserializer<'de>>(json: D) -> Result<Self, D::Error> {
        UntaggedEnumVisitor::new()
            .expecting("a string")
            .borrowed_str(|text| Ok(Text(text.into())))
            .string(|text| Ok(Text(text.to_owned().into())))
            .u64(|number| Ok(Text(number.to_string().into())))
            .i64(|number| Ok(Text(number.to_string().into())))
            .bool(|truth| Ok(Text(truth.to_string().into())))
            .deserialize(json)
    }
}

impl<'de, const MIN: i64, const MAX: i64> Deserialize<'de> for Whole<MIN, MAX> {
    fn deserialize<D: Deserializer<'de>>(json: D) -> Result<Self, D::Error> {
        let expected = format_args!("a whole number from {MIN} to {MAX}");
        let within = |number: i128| {
            let number = i64::try_from(number).ok().filter(|number| (MIN..=MAX).contains(number));
            number.map(Self).ok_or_else(|| Error::custom(format_args!("it must be {expected}")))
        };
        UntaggedEnumVisitor::new()
            .expecting(expected)
            .i64(|number| within(number.into()))
            .u64(|number| within(number.into()))
            .deserialize(json)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(body: &str) -> String {
        parse(body.as_bytes(), &CHECK).expect_err("must be rejected")
    }

    fn call(body: &str) -> Call<'_> {
        parse(body.as_bytes(), &CHECK).expect("a call").call
    }

    /// A14: any descriptors, and a cost of 1 by default.
    #[test]
    fn a_call_is_parsed() {
        let read = call(r#"{"descriptors": {"api_key": "k1", "tenant": 17, "beta": true, "shift": -2}}"#);
        let expected = [("api_key", "k1"), ("tenant", "17"), ("beta", "true"), ("shift", "-2")];
        assert_eq!((read.descriptors().collect::<Vec<_>>(), read.cost()), (expected.to_vec(), 1));
        assert_eq!(call(r#"{"cost": 5, "descriptors": {"a\u0062c": "\n"}}"#), Call::new().with("abc", "\n").costing(5));
        assert_eq!(call(r#"{"descriptors": {}, "id": "r-1"}"#), Call::new().identified("r-1"));
        assert_eq!(call(r#"{"descriptors": {}}"#), Call::new());
    }

    #[test]
    fn an_invalid_call_is_rejected_with_its_position_and_an_example() {
        for (body, reason) in [
            ("", "the body is empty"),
            ("{", "EOF while parsing an object at line 1 column 1"),
            ("{\n  \"descriptors\": {\"a\": }\n}", "`descriptors`: `a`: expected value at line 2 column 24"),
            ("[]", "invalid type: sequence, expected an object with `descriptors` at line 1"),
            (r#"{"cost": 1}"#, "missing field `descriptors` at line 1 column 11"),
            (r#"{"descriptors": {}} x"#, "trailing characters at line 1 column 21"),
            (
                r#"{"descriptor": {}}"#,
                "unknown field `descriptor`, expected one of `descriptors`, `cost`, `id` at line 1",
            ),
            (r#"{"descriptors": {"a": null}}"#, "`a`: invalid type: null, expected a string at line 1 column 26"),
            (r#"{"descriptors": {"a": 1.5}}"#, "invalid type: floating point `1.5`, expected a string at line 1"),
            (r#"{"descriptors": ["a"]}"#, "expected an object with names and values at line 1"),
            (r#"{"descriptors": {"a": "1", "a": "2"}}"#, "descriptor `a` appears twice at line 1 column 36"),
            (r#"{"descriptors": {}, "descriptors": {}}"#, "`descriptors` appears twice at line 1"),
            (r#"{"descriptors": {"": "1"}}"#, "has 0 bytes; it must have 1 to 64 at line 1 column 25"),
        ] {
            let text = refusal(body);
            assert!(text.contains(reason) && text.ends_with(CHECK.example), "{body}: {text}");
        }
    }

    #[test]
    fn a_cost_that_is_not_a_positive_whole_number_is_rejected() {
        for cost in ["-1", "1.5", "\"1\"", "null", "1e3", "9007199254740993"] {
            let text = refusal(&format!(r#"{{"descriptors": {{}}, "cost": {cost}}}"#));
            assert!(
                text.contains("`cost`: ") && text.contains("a whole number from 0 to 9007199254740992 at"),
                "{text}"
            );
        }
    }
}
