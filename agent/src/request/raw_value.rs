//! Values that a request may contain more than once under one name.
//!
//! No second spelling gives a client a second quota: escapes are decoded, empty values are ignored, and equal values
//! count once. *Different* values under one name are read differently by the servers behind the gateway (some use the
//! first, some the last, some join them), so none of them is trusted: all such clients share the counter of
//! [`SEVERAL`], which rules and lists can name. [`super::extract`] finds the values. Bytes that are no text are
//! escaped and not treated as absent, so that a client cannot avoid a rule with them.

use std::borrow::Cow;

use percent_encoding::percent_decode;

/// Value of a header or parameter that was sent several times with different values.
pub const SEVERAL: &str = "(several values)";

/// Value of a request, and whether the request contains a different one under the same name.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct RawValue<'a> {
    pub(super) value: Cow<'a, str>,
    pub(super) contradicted: bool,
}

impl<'a> RawValue<'a> {
    /// Creates a value that can occur only once.
    pub(super) fn once(value: impl Into<Cow<'a, str>>) -> Self {
        Self { value: value.into(), contradicted: false }
    }

    /// Returns the first value that is not empty.
    pub(super) fn first(values: impl IntoIterator<Item = Cow<'a, str>>) -> Option<Self> {
        let mut values = values.into_iter().filter(|value| !value.is_empty());
        let value = values.next()?;
        let contradicted = values.any(|other| other != value);
        Some(Self { value, contradicted })
    }

    /// Returns the common value, or [`SEVERAL`] if the values differ.
    pub(super) fn agreed(values: impl IntoIterator<Item = Cow<'a, str>>) -> Option<Self> {
        let raw = Self::first(values)?;
        Some(if raw.contradicted { Self { value: SEVERAL.into(), ..raw } } else { raw })
    }
}

/// Converts bytes to text. Invalid UTF-8 is escaped, so that it cannot evade a rule.
pub(super) fn text(bytes: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => Cow::Owned(bytes.escape_ascii().to_string()),
    }
}

/// Decodes percent escapes, and `+` as a space if `plus_is_space`; invalid escapes are left unchanged.
pub(super) fn unescaped(bytes: &[u8], plus_is_space: bool) -> Cow<'_, str> {
    if !bytes.iter().any(|byte| *byte == b'%' || (plus_is_space && *byte == b'+')) {
        return text(bytes);
    }
    let spaced: Vec<u8> = bytes.iter().map(|byte| if plus_is_space && *byte == b'+' { b' ' } else { *byte }).collect();
    let plain: Vec<u8> = percent_decode(&spaced).collect();
    Cow::Owned(text(&plain).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_decoded_and_invalid_ones_are_unchanged() {
        for (written, plus_is_space, read) in [
            ("plain", true, "plain"),
            ("a%20b+c", true, "a b c"),
            ("a%20b+c", false, "a b+c"),
            ("%e2%82%AC", true, "€"),
            ("%zz%+1%4", false, "%zz%+1%4"),
            ("%ff", true, r"\xff"),
        ] {
            assert_eq!(unescaped(written.as_bytes(), plus_is_space), read, "{written}");
        }
    }

    #[test]
    fn contradicting_values_are_not_trusted() {
        let of = |values: &[&'static str]| values.iter().map(|value| Cow::Borrowed(*value)).collect::<Vec<_>>();
        assert_eq!(RawValue::agreed(of(&["", "a", "a"])), Some(RawValue::once("a")));
        assert_eq!(RawValue::agreed(of(&["a", "b"])).unwrap().value, SEVERAL);
        assert_eq!(RawValue::agreed(of(&["a", "c"])), RawValue::agreed(of(&["b", "a", "c"])), "all share one value");
        assert_eq!(RawValue::first(of(&["", "a", "b"])), Some(RawValue { value: "a".into(), contradicted: true }));
        assert_eq!(RawValue::agreed(of(&["", ""])), None);
    }
}
