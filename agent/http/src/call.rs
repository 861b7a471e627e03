//! A call as JSON: `{"descriptors": {"api_key": "k1"}, "cost": 1}`.
//!
//! Read by hand instead of derived: a name that stands twice, a cost of 0 and a field that nobody knows are refused with
//! the place where they stand, since each of them would otherwise be a limit that is not kept.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};
use tollgate::Call;
use tollgate_core::call::{DESCRIPTORS_LEN_MAX, NAME_LEN_MAX, VALUE_LEN_MAX};

/// The largest cost of one call: up to here every reader of JSON reads the same whole number.
pub const COST_MAX: u64 = 1 << 53;

/// What may be said, and how it looks.
pub(crate) struct Form {
    fields: &'static [&'static str],
    example: &'static str,
}

/// May it pass?
pub(crate) const CHECK: Form =
    Form { fields: &["descriptors", "cost", "id"], example: r#"{"descriptors": {"api_key": "k1"}, "cost": 1}"# };
/// What it really cost.
pub(crate) const SETTLE: Form =
    Form { fields: &["descriptors", "units", "at_ms"], example: r#"{"descriptors": {"api_key": "k1"}, "units": 5}"# };
/// It has ended.
pub(crate) const RELEASE: Form = Form {
    fields: &["descriptors", "cost", "at_ms"],
    example: r#"{"descriptors": {"api_key": "k1"}, "at_ms": 1767225600000}"#,
};

/// Why would it be limited?
pub(crate) const EXPLAIN: Form = Form {
    fields: &["descriptors", "unverified", "cost"],
    example: r#"{"descriptors": {"api_key": "k1"}, "unverified": {"tier": "pro"}}"#,
};

/// What was said of a call.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Said<'a> {
    pub(crate) call: Call<'a>,
    pub(crate) units: Option<i64>,
    pub(crate) at_ms: Option<u64>,
}

struct CallVisitor(&'static Form);
struct Descriptors<'a>(Vec<(Cow<'a, str>, Cow<'a, str>)>);
struct DescriptorsVisitor;
struct Text<'a>(Cow<'a, str>);
struct TextVisitor;
struct Cost(u64);
struct CostVisitor;

/// Reads what is said of a call; else says what is wrong, where, and how it should look.
pub(crate) fn read<'b>(body: &'b [u8], form: &'static Form) -> Result<Said<'b>, String> {
    let mut json = serde_json::Deserializer::from_slice(body);
    let said = json.deserialize_map(CallVisitor(form)).and_then(|said| json.end().map(|()| said));
    said.map_err(|error| format!("the body is no call: {error}; send {}", form.example))
}

impl<'de> Visitor<'de> for CallVisitor {
    type Value = Said<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with `descriptors`")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Said<'de>, A::Error> {
        let (mut descriptors, mut claims, mut cost, mut id) = (None, None, None, None);
        let (mut units, mut at_ms) = (None, None);
        while let Some(Text(field)) = map.next_key()? {
            if !self.0.fields.contains(&&*field) {
                return Err(Error::unknown_field(&field, self.0.fields));
            }
            let twice = match &*field {
                "descriptors" => descriptors.replace(map.next_value::<Descriptors<'de>>()?).is_some(),
                "unverified" => claims.replace(map.next_value::<Descriptors<'de>>()?).is_some(),
                "cost" => cost.replace(map.next_value::<Cost>()?).is_some(),
                "id" => id.replace(map.next_value::<Text<'de>>()?).is_some(),
                "units" => units.replace(map.next_value::<i64>()?).is_some(),
                _ => at_ms.replace(map.next_value::<u64>()?).is_some(),
            };
            if twice {
                return Err(Error::custom(format_args!("`{field}` stands twice")));
            }
        }
        let Descriptors(descriptors) = descriptors.ok_or_else(|| Error::missing_field("descriptors"))?;
        let call = descriptors.into_iter().fold(Call::new(), |call, (name, value)| call.with(name, value));
        let mut call = call.costing(cost.map_or(1, |Cost(cost)| cost));
        for (name, value) in claims.map(|Descriptors(claims)| claims).unwrap_or_default() {
            call.set_unverified(name, value);
        }
        if let Some(Text(id)) = id {
            if id.is_empty() || id.len() > VALUE_LEN_MAX {
                let text = format_args!("the `id` has {} bytes, it may have 1 to {VALUE_LEN_MAX}", id.len());
                return Err(Error::custom(text));
            }
            call = call.identified(id);
        }
        let too_far = |units: &i64| units.unsigned_abs() > COST_MAX || *units == 0;
        if let Some(units) = units.filter(too_far) {
            let text = format_args!("`units` is {units}, it may be any whole number up to {COST_MAX} but 0");
            return Err(Error::custom(text));
        }
        Ok(Said { call, units, at_ms })
    }
}

impl<'de> Deserialize<'de> for Descriptors<'de> {
    fn deserialize<D: Deserializer<'de>>(json: D) -> Result<Self, D::Error> {
        json.deserialize_map(DescriptorsVisitor)
    }
}

impl<'de> Visitor<'de> for DescriptorsVisitor {
    type Value = Descriptors<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of names and values")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Descriptors<'de>, A::Error> {
        let mut read: Vec<(Cow<'de, str>, Cow<'de, str>)> = Vec::new();
        while let Some(Text(name)) = map.next_key()? {
            if name.is_empty() || name.len() > NAME_LEN_MAX {
                let text =
                    format_args!("the name of a descriptor has {} bytes, it may have 1 to {NAME_LEN_MAX}", name.len());
                return Err(Error::custom(text));
            }
            if read.iter().any(|(known, _)| *known == name) {
                return Err(Error::custom(format_args!("descriptor `{name}` stands twice")));
            }
            if read.len() == DESCRIPTORS_LEN_MAX {
                return Err(Error::custom(format_args!("more than {DESCRIPTORS_LEN_MAX} descriptors")));
            }
            let Text(value) = map.next_value()?;
            if value.len() > VALUE_LEN_MAX {
                let text = format_args!("the value of `{name}` has {} bytes, it may have {VALUE_LEN_MAX}", value.len());
                return Err(Error::custom(text));
            }
            read.push((name, value));
        }
        Ok(Descriptors(read))
    }
}

impl<'de> Deserialize<'de> for Text<'de> {
    fn deserialize<D: Deserializer<'de>>(json: D) -> Result<Self, D::Error> {
        json.deserialize_any(TextVisitor)
    }
}

impl<'de> Visitor<'de> for TextVisitor {
    type Value = Text<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Text<'de>, E> {
        Ok(Text(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Text<'de>, E> {
        Ok(Text(Cow::Owned(text.to_owned())))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Text<'de>, E> {
        Ok(Text(Cow::Owned(number.to_string())))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Text<'de>, E> {
        Ok(Text(Cow::Owned(number.to_string())))
    }

    fn visit_bool<E>(self, truth: bool) -> Result<Text<'de>, E> {
        Ok(Text(Cow::Borrowed(if truth { "true" } else { "false" })))
    }
}

impl<'de> Deserialize<'de> for Cost {
    fn deserialize<D: Deserializer<'de>>(json: D) -> Result<Self, D::Error> {
        json.deserialize_any(CostVisitor)
    }
}

impl Visitor<'_> for CostVisitor {
    type Value = Cost;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a cost, a whole number from 1 to {COST_MAX}")
    }

    fn visit_u64<E: Error>(self, cost: u64) -> Result<Cost, E> {
        if (1..=COST_MAX).contains(&cost) {
            return Ok(Cost(cost));
        }
        Err(E::invalid_value(serde::de::Unexpected::Unsigned(cost), &self))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(body: &str) -> String {
        read(body.as_bytes(), &CHECK).expect_err("must be refused")
    }

    fn call(body: &str) -> Call<'_> {
        read(body.as_bytes(), &CHECK).expect("a call").call
    }

    /// A14: any descriptors, and a cost of 1 unless told.
    #[test]
    fn a_call_reads_as_written() {
        let read = call(r#"{"descriptors": {"api_key": "k1", "tenant": 17, "beta": true, "shift": -2}}"#);
        let expected = [("api_key", "k1"), ("tenant", "17"), ("beta", "true"), ("shift", "-2")];
        assert_eq!((read.descriptors().collect::<Vec<_>>(), read.cost()), (expected.to_vec(), 1));
        assert_eq!(call(r#"{"cost": 5, "descriptors": {"a\u0062c": "\n"}}"#), Call::new().with("abc", "\n").costing(5));
        assert_eq!(call(r#"{"descriptors": {}, "id": "r-1"}"#), Call::new().identified("r-1"));
        assert_eq!(call(r#"{"descriptors": {}}"#), Call::new());
    }

    #[test]
    fn what_is_no_call_is_refused_with_its_place_and_an_example() {
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
            (r#"{"descriptors": {"a": null}}"#, "invalid type: null, expected a text at line 1"),
            (r#"{"descriptors": {"a": 1.5}}"#, "invalid type: floating point `1.5`, expected a text at line 1"),
            (r#"{"descriptors": ["a"]}"#, "expected an object of names and values at line 1"),
            (r#"{"descriptors": {"a": "1", "a": "2"}}"#, "descriptor `a` stands twice at line 1 column 30"),
            (r#"{"descriptors": {}, "descriptors": {}}"#, "`descriptors` stands twice at line 1"),
            (r#"{"descriptors": {"": "1"}}"#, "has 0 bytes, it may have 1 to 64 at line 1"),
        ] {
            let text = refusal(body);
            assert!(text.contains(reason) && text.ends_with(CHECK.example), "{body}: {text}");
        }
    }

    #[test]
    fn a_cost_that_is_no_positive_whole_number_is_refused() {
        for cost in ["0", "-1", "1.5", "\"1\"", "null", "1e3", "9007199254740993"] {
            let text = refusal(&format!(r#"{{"descriptors": {{}}, "cost": {cost}}}"#));
            assert!(text.contains("expected a cost, a whole number from 1 to 9007199254740992 at line 1"), "{text}");
        }
    }

    #[test]
    fn what_is_longer_than_a_call_may_be_is_refused() {
        let of = |name: &str, value: &str| format!(r#"{{"descriptors": {{"{name}": "{value}"}}}}"#);
        assert!(read(of(&"n".repeat(NAME_LEN_MAX), &"v".repeat(VALUE_LEN_MAX)).as_bytes(), &CHECK).is_ok());
        assert!(refusal(&of(&"n".repeat(NAME_LEN_MAX + 1), "v")).contains("has 65 bytes"));
        assert!(refusal(&of("n", &"v".repeat(VALUE_LEN_MAX + 1))).contains("the value of `n` has 1025 bytes"));
        let many = |count: usize| {
            let members: Vec<String> = (0..count).map(|i| format!(r#""d{i}": "v""#)).collect();
            format!(r#"{{"descriptors": {{{}}}}}"#, members.join(", "))
        };
        assert!(read(many(DESCRIPTORS_LEN_MAX).as_bytes(), &CHECK).is_ok());
        assert!(refusal(&many(DESCRIPTORS_LEN_MAX + 1)).contains("more than 32 descriptors"));
    }
}
