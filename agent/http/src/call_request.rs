//! JSON schema of a call: `{"descriptors": {"api_key": "k1"}, "cost": 1}`.
//!
//! The parser is written by hand instead of derived: a duplicate name, a cost of 0 or an unknown field is rejected with
//! its position, since each of them would otherwise silently weaken a limit.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};
use serde_untagged::UntaggedEnumVisitor;
use tollgate::Call;
use tollgate_core::call::{DESCRIPTORS_LEN_MAX, NAME_LEN_MAX, VALUE_LEN_MAX};

/// Maximum cost of one call. All JSON parsers represent whole numbers up to this one exactly.
pub const COST_MAX: u64 = 1 << 53;

/// Permitted fields of a request body, and an example for error messages.
pub(crate) struct CallSchema {
    fields: &'static [&'static str],
    example: &'static str,
}

/// Schema of `POST /check`.
pub(crate) const CHECK: CallSchema =
    CallSchema { fields: &["descriptors", "cost", "id"], example: r#"{"descriptors": {"api_key": "k1"}, "cost": 1}"# };
/// Schema of `POST /settle`.
pub(crate) const SETTLE: CallSchema = CallSchema {
    fields: &["descriptors", "units", "at_ms"],
    example: r#"{"descriptors": {"api_key": "k1"}, "units": 5}"#,
};
/// Schema of `POST /release`.
pub(crate) const RELEASE: CallSchema = CallSchema {
    fields: &["descriptors", "unverified", "cost", "at_ms"],
    example: r#"{"descriptors": {"api_key": "k1"}, "at_ms": 1767225600000}"#,
};

/// Schema of `POST /explain`.
pub(crate) const EXPLAIN: CallSchema = CallSchema {
    fields: &["descriptors", "unverified", "cost"],
    example: r#"{"descriptors": {"api_key": "k1"}, "unverified": {"tier": "pro"}}"#,
};

/// Parsed request body.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct CallRequest<'a> {
    pub(crate) call: Call<'a>,
    pub(crate) units: Option<i64>,
    pub(crate) at_ms: Option<u64>,
}

struct CallVisitor(&'static CallSchema);
struct DescriptorFields<'a>(Vec<(Cow<'a, str>, Cow<'a, str>)>);
struct DescriptorsVisitor;
struct Text<'a>(Cow<'a, str>);
struct Cost(u64);

/// Parses a body; the error contains the cause, the position, and an example.
pub(crate) fn parse<'b>(body: &'b [u8], schema: &'static CallSchema) -> Result<CallRequest<'b>, String> {
    let mut json = serde_json::Deserializer::from_slice(body);
    let request = json.deserialize_map(CallVisitor(schema)).and_then(|request| json.end().map(|()| request));
    request.map_err(|error| format!("the body is not a valid call: {error}; send {}", schema.example))
}

impl<'de> Visitor<'de> for CallVisitor {
    type Value = CallRequest<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with `descriptors`")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<CallRequest<'de>, A::Error> {
        let (mut descriptors, mut claims, mut cost, mut id) = (None, None, None, None);
        let (mut units, mut at_ms) = (None, None);
        while let Some(Text(field)) = map.next_key()? {
            if !self.0.fields.contains(&&*field) {
                return Err(Error::unknown_field(&field, self.0.fields));
            }
            let duplicate = match &*field {
                "descriptors" => descriptors.replace(map.next_value::<DescriptorFields<'de>>()?).is_some(),
                "unverified" => claims.replace(map.next_value::<DescriptorFields<'de>>()?).is_some(),
                "cost" => cost.replace(map.next_value::<Cost>()?).is_some(),
                "id" => id.replace(map.next_value::<Text<'de>>()?).is_some(),
                "units" => units.replace(map.next_value::<i64>()?).is_some(),
                _ => at_ms.replace(map.next_value::<u64>()?).is_some(),
            };
            if duplicate {
                return Err(Error::custom(format_args!("`{field}` appears twice")));
            }
        }
        let DescriptorFields(descriptors) = descriptors.ok_or_else(|| Error::missing_field("descriptors"))?;
        let call = descriptors.into_iter().fold(Call::new(), |call, (name, value)| call.with(name, value));
        let mut call = call.costing(cost.map_or(1, |Cost(cost)| cost));
        for (name, value) in claims.map(|DescriptorFields(claims)| claims).unwrap_or_default() {
            call.set_unverified(name, value);
        }
        if let Some(Text(id)) = id {
            if id.is_empty() || id.len() > VALUE_LEN_MAX {
                let text = format_args!("the `id` has {} bytes; it must have 1 to {VALUE_LEN_MAX}", id.len());
                return Err(Error::custom(text));
            }
            call = call.identified(id);
        }
        let out_of_range = |units: &i64| units.unsigned_abs() > COST_MAX || *units == 0;
        if let Some(units) = units.filter(out_of_range) {
            let text = format_args!("`units` is {units}; it must be a whole number other than 0, at most {COST_MAX}");
            return Err(Error::custom(text));
        }
        Ok(CallRequest { call, units, at_ms })
    }
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
        let mut read: Vec<(Cow<'de, str>, Cow<'de, str>)> = Vec::new();
        while let Some(Text(name)) = map.next_key()? {
            if name.is_empty() || name.len() > NAME_LEN_MAX {
                let text =
                    format_args!("the name of a descriptor has {} bytes; it must have 1 to {NAME_LEN_MAX}", name.len());
                return Err(Error::custom(text));
            }
            if read.iter().any(|(known, _)| *known == name) {
                return Err(Error::custom(format_args!("descriptor `{name}` appears twice")));
            }
            if read.len() == DESCRIPTORS_LEN_MAX {
                return Err(Error::custom(format_args!("more than {DESCRIPTORS_LEN_MAX} descriptors")));
            }
            let Text(value) = map.next_value()?;
            if value.len() > VALUE_LEN_MAX {
                let text = format_args!("the value of `{name}` has {} bytes; it may have {VALUE_LEN_MAX}", value.len());
                return Err(Error::custom(text));
            }
            read.push((name, value));
        }
        Ok(DescriptorFields(read))
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

impl<'de> Deserialize<'de> for Cost {
    fn deserialize<D: Deserializer<'de>>(json: D) -> Result<Self, D::Error> {
        let expected = format_args!("a cost, a whole number from 1 to {COST_MAX}");
        UntaggedEnumVisitor::new()
            .expecting(expected)
            .u64(|cost| {
                let out_of_range =
                    || Error::custom(format_args!("invalid value: integer `{cost}`, expected {expected}"));
                (1..=COST_MAX).contains(&cost).then_some(Cost(cost)).ok_or_else(out_of_range)
            })
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
            ("", "EOF while parsing a value at line 1 column 0"),
            ("{\n  \"descriptors\": {\"a\": }\n}", "expected value at line 2 column 24"),
            ("[]", "invalid type: sequence, expected an object with `descriptors` at line 1"),
            (r#"{"cost": 1}"#, "missing field `descriptors` at line 1 column 11"),
            (r#"{"descriptors": {}} x"#, "trailing characters at line 1 column 21"),
            (
                r#"{"descriptor": {}}"#,
                "unknown field `descriptor`, expected one of `descriptors`, `cost`, `id` at line 1",
            ),
            (r#"{"descriptors": {"a": null}}"#, "invalid type: null, expected a string at line 1"),
            (r#"{"descriptors": {"a": 1.5}}"#, "invalid type: floating point `1.5`, expected a string at line 1"),
            (r#"{"descriptors": ["a"]}"#, "expected an object with names and values at line 1"),
            (r#"{"descriptors": {"a": "1", "a": "2"}}"#, "descriptor `a` appears twice at line 1 column 30"),
            (r#"{"descriptors": {}, "descriptors": {}}"#, "`descriptors` appears twice at line 1"),
            (r#"{"descriptors": {"": "1"}}"#, "has 0 bytes; it must have 1 to 64 at line 1"),
        ] {
            let text = refusal(body);
            assert!(text.contains(reason) && text.ends_with(CHECK.example), "{body}: {text}");
        }
    }

    #[test]
    fn a_cost_that_is_not_a_positive_whole_number_is_rejected() {
        for cost in ["0", "-1", "1.5", "\"1\"", "null", "1e3", "9007199254740993"] {
            let text = refusal(&format!(r#"{{"descriptors": {{}}, "cost": {cost}}}"#));
            assert!(text.contains("expected a cost, a whole number from 1 to 9007199254740992 at line 1"), "{text}");
        }
    }

    #[test]
    fn an_oversized_call_is_rejected() {
        let of = |name: &str, value: &str| format!(r#"{{"descriptors": {{"{name}": "{value}"}}}}"#);
        assert!(parse(of(&"n".repeat(NAME_LEN_MAX), &"v".repeat(VALUE_LEN_MAX)).as_bytes(), &CHECK).is_ok());
        assert!(refusal(&of(&"n".repeat(NAME_LEN_MAX + 1), "v")).contains("has 65 bytes"));
        assert!(refusal(&of("n", &"v".repeat(VALUE_LEN_MAX + 1))).contains("the value of `n` has 1025 bytes"));
        let many = |count: usize| {
            let members: Vec<String> = (0..count).map(|i| format!(r#""d{i}": "v""#)).collect();
            format!(r#"{{"descriptors": {{{}}}}}"#, members.join(", "))
        };
        assert!(parse(many(DESCRIPTORS_LEN_MAX).as_bytes(), &CHECK).is_ok());
        assert!(refusal(&many(DESCRIPTORS_LEN_MAX + 1)).contains("more than 32 descriptors"));
    }
}
