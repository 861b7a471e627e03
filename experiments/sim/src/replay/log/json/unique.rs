//! Objects of JSON without contradictions: a key that is there twice has the same value both times.
//!
//! Of two values, a usual parser takes the last in silence. Then one of two addresses would be the client by chance.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};
use tollgate_core::one_line::excerpt;

/// Parses an object.
///
/// # Errors
/// If the text is no object, or a key has two values.
pub(in crate::replay::log) fn object(text: &str) -> Result<Map<String, Value>, serde_json::Error> {
    match serde_json::from_str(text)? {
        UniqueValue(Value::Object(object)) => Ok(object),
        UniqueValue(_) => Err(serde_json::Error::custom("it is no object")),
    }
}

struct UniqueValue(Value);

struct UniqueVisitor;

impl<'de> Deserialize<'de> for UniqueValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(UniqueVisitor).map(Self)
    }
}

impl<'de> Visitor<'de> for UniqueVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value of JSON")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Value, A::Error> {
        let mut values = Vec::new();
        while let Some(UniqueValue(value)) = elements.next_element()? {
            values.push(value);
        }
        Ok(values.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some((key, UniqueValue(value))) = entries.next_entry::<String, _>()? {
            if object.get(&key).is_some_and(|known| *known != value) {
                return Err(A::Error::custom(format!("`{}` is there twice with different values", excerpt(&key))));
            }
            object.insert(key, value);
        }
        Ok(object.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_read_as_it_is() {
        for text in [r#"{"a": [1, -2, 1.5, "x", null, true, {"b": "\u00e9"}], "c": {"a": 18446744073709551615}}"#, "{}"]
        {
            let expected: Map<String, Value> = serde_json::from_str(text).unwrap();
            assert_eq!(object(text).unwrap(), expected);
        }
        assert!(object("[1]").is_err() && object("{").is_err());
    }

    #[test]
    fn a_key_has_one_value() {
        for (text, is_read) in [
            (r#"{"a": "x", "a": "x"}"#, true),
            (r#"{"a": "x", "b": {"a": "y"}}"#, true),
            (r#"{"a": "x", "b": 1, "a": "y"}"#, false),
            (r#"{"b": {"a": 1, "\u0061": 2}}"#, false),
        ] {
            assert_eq!(object(text).is_ok(), is_read, "{text}");
        }
    }
}
