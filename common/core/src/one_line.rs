//! Foreign text in lines of a log or of a table: a server's answer, or a name that a user wrote.

use std::borrow::Cow;

/// Maximum number of characters of a foreign text in a line of a log.
const EXCERPT_LEN_MAX: usize = 200;

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

/// Returns the beginning of a text as one line, for a log. A text that is cut ends with the number of bytes that are left out.
#[must_use]
pub fn excerpt(text: &str) -> Cow<'_, str> {
    let Some((end, _)) = text.char_indices().nth(EXCERPT_LEN_MAX) else { return one_line(text) };
    Cow::Owned(format!("{}… ({} bytes more)", one_line(&text[..end]), text.len() - end))
}

/// Returns a text of several lines for a terminal, or JSON, with its control characters escaped as `\u001b`, except line breaks and
/// tabs. JSON stays valid and keeps its meaning.
#[must_use]
pub fn printable(text: &str) -> Cow<'_, str> {
    let is_moving = |c: char| is_control(c) && !matches!(c, '\n' | '\t');
    if !text.contains(is_moving) {
        return Cow::Borrowed(text);
    }
    let shown = |c: char| if is_moving(c) { format!("\\u{:04x}", u32::from(c)) } else { c.to_string() };
    Cow::Owned(text.chars().map(shown).collect())
}

/// Returns true for control characters, for the two line breaks of Unicode that are none, and for characters that turn the direction
/// of the text after them.
fn is_control(c: char) -> bool {
    c.is_control() || matches!(c, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::{excerpt, one_line, printable};

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

    #[test]
    fn a_text_of_several_lines_keeps_its_lines() {
        for (text, expected) in
            [("a\n\tb é", "a\n\tb é"), ("a\u{1b}[2J\n\u{9b}1m\r\u{202e}", "a\\u001b[2J\n\\u009b1m\\u000d\\u202e")]
        {
            assert_eq!(printable(text), expected);
        }
    }

    #[test]
    fn a_long_text_is_cut_between_two_characters() {
        let long = "é".repeat(201) + "\n";
        assert_eq!(excerpt(&long), format!("{}… (3 bytes more)", "é".repeat(200)));
        assert_eq!(excerpt(&long[..400]), "é".repeat(200));
        assert_eq!(excerpt("a\nb"), "a\\nb");
    }
}
