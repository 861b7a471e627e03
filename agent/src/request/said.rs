//! What a request says under one name, when it may say it more than once.
//!
//! Nothing that a client can spell in two ways gives it a second quota: escapes are read, empty values are as if they were
//! not there, and the same value said twice is said once. Whoever sends *different* values under one name is read
//! differently by each server behind (some take the first, some the last, some join them), so none of the values can be
//! believed: all such clients share one counter, that of [`SEVERAL`], which rules and lists can name.

use std::borrow::Cow;

/// The value of a header or parameter that was sent several times with different values.
pub const SEVERAL: &str = "(several values)";

/// One value, and whether another one was said, too.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Said<'a> {
    pub(super) value: Cow<'a, str>,
    pub(super) contradicted: bool,
}

impl<'a> Said<'a> {
    /// What nobody can say twice.
    pub(super) fn once(value: impl Into<Cow<'a, str>>) -> Self {
        Self { value: value.into(), contradicted: false }
    }

    /// The first of these values that is not empty.
    pub(super) fn first(values: impl IntoIterator<Item = Cow<'a, str>>) -> Option<Self> {
        let mut values = values.into_iter().filter(|value| !value.is_empty());
        let value = values.next()?;
        let contradicted = values.any(|other| other != value);
        Some(Self { value, contradicted })
    }

    /// The value that all of these agree on, or [`SEVERAL`].
    pub(super) fn agreed(values: impl IntoIterator<Item = Cow<'a, str>>) -> Option<Self> {
        let said = Self::first(values)?;
        Some(if said.contradicted { Self { value: SEVERAL.into(), ..said } } else { said })
    }
}

/// Bytes as text. Nobody escapes a rule by sending bytes that are none.
pub(super) fn text(bytes: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => Cow::Owned(bytes.escape_ascii().to_string()),
    }
}

/// The same with `%41` read as `A`, and `+` as a space where that is meant; what is no escape stays as it is.
pub(super) fn unescaped(bytes: &[u8], plus_is_space: bool) -> Cow<'_, str> {
    if !bytes.iter().any(|byte| *byte == b'%' || (plus_is_space && *byte == b'+')) {
        return text(bytes);
    }
    let digit =
        |at: usize| bytes.get(at).and_then(|byte| char::from(*byte).to_digit(16)).and_then(|d| u8::try_from(d).ok());
    let mut plain = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        let (read, len) = match (byte, digit(at + 1), digit(at + 2)) {
            (b'%', Some(high), Some(low)) => (high << 4 | low, 3),
            (b'+', ..) if plus_is_space => (b' ', 1),
            _ => (*byte, 1),
        };
        plain.push(read);
        at += len;
    }
    Cow::Owned(String::from_utf8(plain).unwrap_or_else(|error| error.as_bytes().escape_ascii().to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_read_and_what_is_none_stays() {
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
    fn who_contradicts_himself_is_not_believed() {
        let of = |values: &[&'static str]| values.iter().map(|value| Cow::Borrowed(*value)).collect::<Vec<_>>();
        assert_eq!(Said::agreed(of(&["", "a", "a"])), Some(Said::once("a")));
        assert_eq!(Said::agreed(of(&["a", "b"])).unwrap().value, SEVERAL);
        assert_eq!(Said::agreed(of(&["a", "c"])), Said::agreed(of(&["b", "a", "c"])), "all share one value");
        assert_eq!(Said::first(of(&["", "a", "b"])), Some(Said { value: "a".into(), contradicted: true }));
        assert_eq!(Said::agreed(of(&["", ""])), None);
    }
}
