//! Foreign text in lines of a log or of a table: a server's answer, or a name that a user wrote.

use std::borrow::Cow;

/// Returns the text with its control characters escaped, such as a line break as `\n`. It neither ends a line nor moves a
/// terminal's cursor.
#[must_use]
pub fn one_line(text: &str) -> Cow<'_, str> {
    if !text.contains(is_control) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        if is_control(c) {
            escaped.extend(c.escape_default());
        } else {
            escaped.push(c);
        }
    }
    Cow::Owned(escaped)
}

/// Returns true for control characters, and for the two line breaks of Unicode that are none.
fn is_control(c: char) -> bool {
    c.is_control() || matches!(c, '\u{2028}' | '\u{2029}')
}

#[cfg(test)]
mod tests {
    use super::one_line;

    #[test]
    fn control_characters_are_escaped_and_nothing_else() {
        for (text, expected) in [
            ("per-key", "per-key"),
            ("café \"x\" \\ 日本", "café \"x\" \\ 日本"),
            ("a\nb\r\n\tc", "a\\nb\\r\\n\\tc"),
            ("\u{1b}[2J\0\u{7f}\u{85}\u{2028}", "\\u{1b}[2J\\u{0}\\u{7f}\\u{85}\\u{2028}"),
        ] {
            assert_eq!(one_line(text), expected);
        }
    }
}
