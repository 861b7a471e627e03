//! Tokens of a log line: texts between spaces, in quotes or in brackets, with the escapes of nginx and Apache.

use std::borrow::Cow;

/// Text between spaces, or in quotes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LogToken<'a> {
    pub(super) text: &'a str,
    pub(super) is_quoted: bool,
}

impl<'a> LogToken<'a> {
    /// Returns the text without its escapes; nothing for an empty text and for `-`.
    pub(super) fn value(self) -> Option<Cow<'a, str>> {
        (!is_absent(self.text)).then(|| unescape(self.text))
    }
}

/// Returns true for the forms in which logs write that there is no value.
pub(super) fn is_absent(text: &str) -> bool {
    matches!(text, "" | "-" | "\"\"")
}

/// Splits a text into tokens. A quote that does not end takes the rest.
pub(super) fn tokens(text: &str) -> impl Iterator<Item = LogToken<'_>> {
    let mut rest = text;
    std::iter::from_fn(move || {
        rest = rest.trim_start();
        if let Some((text, after)) = quoted(rest) {
            rest = after;
            return Some(LogToken { text, is_quoted: true });
        }
        let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
        let (text, after) = rest.split_at(end);
        rest = after;
        (!text.is_empty()).then_some(LogToken { text, is_quoted: false })
    })
}

/// Splits off the text between quotes. A backslash escapes a quote.
pub(super) fn quoted(text: &str) -> Option<(&str, &str)> {
    let inner = text.strip_prefix('"')?;
    let mut escaped = false;
    for (at, byte) in inner.bytes().enumerate() {
        match byte {
            b'"' if !escaped => return Some((&inner[..at], &inner[at + 1..])),
            b'\\' => escaped = !escaped,
            _ => escaped = false,
        }
    }
    None
}

/// Returns a text without its escapes: `\"`, `\\`, `\t` and the like, and `\x22`.
pub(super) fn unescape(text: &str) -> Cow<'_, str> {
    if !text.contains('\\') {
        return Cow::Borrowed(text);
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        let (byte, after) = match (first, after) {
            (b'\\', [b'x', high, low, after @ ..]) => match (hex(*high), hex(*low)) {
                (Some(high), Some(low)) => (high << 4 | low, after),
                _ => (b'\\', rest[1..].as_ref()),
            },
            (b'\\', [b'n', after @ ..]) => (b'\n', after),
            (b'\\', [b't', after @ ..]) => (b'\t', after),
            (b'\\', [b'r', after @ ..]) => (b'\r', after),
            (b'\\', [escaped @ (b'"' | b'\\'), after @ ..]) => (*escaped, after),
            (byte, after) => (*byte, after),
        };
        bytes.push(byte);
        rest = after;
    }
    Cow::Owned(String::from_utf8_lossy(&bytes).into_owned())
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_split_at_spaces_outside_of_quotes() {
        for (text, expected) in [
            (r#"200 12 "a b" -"#, &[("200", false), ("12", false), ("a b", true), ("-", false)][..]),
            (r#" "a \" b"  c"#, &[(r#"a \" b"#, true), ("c", false)]),
            (r#""" x"#, &[("", true), ("x", false)]),
            (r#""open x"#, &[("\"open", false), ("x", false)]),
            ("a\tb", &[("a", false), ("b", false)]),
            ("", &[]),
        ] {
            let found: Vec<_> = tokens(text).map(|token| (token.text, token.is_quoted)).collect();
            assert_eq!(found, expected, "{text}");
        }
    }

    #[test]
    fn escapes_are_removed() {
        for (text, expected) in [
            ("plain", "plain"),
            (r#"Mo\"z\\"#, r#"Mo"z\"#),
            (r"caf\xC3\xA9", "café"),
            (r"a\x2", r"a\x2"),
            (r"\x16\x03", "\u{16}\u{3}"),
            (r"a\qb", r"a\qb"),
            (r"a\", r"a\"),
        ] {
            assert_eq!(unescape(text), expected, "{text}");
        }
    }
}
