//! Foreign text in lines of a log or of a table, or on a terminal: a server's answer, or a name that a user wrote.

use std::borrow::Cow;

/// Maximum number of characters of a foreign text in a line of a log.
const EXCERPT_LEN_MAX: usize = 200;

/// Returns the text with the characters escaped that end a line, move a terminal's cursor, or hide or reverse other ones:
/// a line break becomes `\n`.
#[must_use]
pub fn one_line(text: &str) -> Cow<'_, str> {
    escaped(text, is_unprintable)
}

/// Returns the text of several lines with the same characters escaped, except line breaks and tabs.
#[must_use]
pub fn printable(text: &str) -> Cow<'_, str> {
    escaped(text, |c| is_unprintable(c) && !matches!(c, '\n' | '\t'))
}

/// Returns true for control characters, for the two line breaks of Unicode that are none, and for characters without a width
/// and those that reverse the direction of a text.
#[must_use]
pub fn is_unprintable(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}')
        || matches!(c, '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// Returns the beginning of a text as one line, for a log. A text that is cut ends with the number of bytes that are left out.
#[must_use]
pub fn excerpt(text: &str) -> Cow<'_, str> {
    let Some((end, _)) = text.char_indices().nth(EXCERPT_LEN_MAX) else { return one_line(text) };
    Cow::Owned(format!("{}… ({} bytes more)", one_line(&text[..end]), text.len() - end))
}

fn escaped(text: &str, is_escaped: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&is_escaped) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        if is_escaped(c) {
            escaped.extend(c.escape_default());
        } else {
            escaped.push(c);
        }
    }
    Cow::Owned(escaped)
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
            ("a\u{202e}b\u{200b}\u{feff}", "a\\u{202e}b\\u{200b}\\u{feff}"),
        ] {
            assert_eq!(one_line(text), expected);
        }
    }

    #[test]
    fn a_text_of_several_lines_keeps_them() {
        assert_eq!(printable("a\tb\n\u{9b}2J\r\u{202e}c\n"), "a\tb\n\\u{9b}2J\\r\\u{202e}c\n");
        assert!(matches!(printable("per-key\n\tcafé"), std::borrow::Cow::Borrowed(_)));
    }

    #[test]
    fn a_long_text_is_cut_between_two_characters() {
        let long = "é".repeat(201) + "\n";
        assert_eq!(excerpt(&long), format!("{}… (3 bytes more)", "é".repeat(200)));
        assert_eq!(excerpt(&long[..400]), "é".repeat(200));
        assert_eq!(excerpt("a\nb"), "a\\nb");
    }
}
