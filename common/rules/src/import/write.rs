//! Writing YAML that reads back as the same text, in this parser and in others.

use std::fmt::Write as _;

/// Words that other parsers take for something else than text.
const NOT_TEXT: [&str; 11] = ["null", "true", "false", "yes", "no", "on", "off", "y", "n", "nan", "inf"];

/// A text as one scalar: plain where no parser can mistake it, else in double quotes.
pub(super) fn quoted(text: &str) -> String {
    let word = |c: char| c.is_ascii_alphanumeric() || "_-./".contains(c);
    let plain = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text.chars().all(word)
        && !NOT_TEXT.contains(&text.to_ascii_lowercase().as_str());
    if plain {
        return text.to_owned();
    }
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            // What is invisible, or ends a line somewhere: controls, separators, a byte order mark.
            c if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}') => {
                let _ = write!(out, "\\u{:04X}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// `[a, b]`
pub(super) fn list<T: AsRef<str>>(items: impl IntoIterator<Item = T>) -> String {
    let items: Vec<String> = items.into_iter().map(|item| quoted(item.as_ref())).collect();
    format!("[{}]", items.join(", "))
}

/// A text for a comment, on one line.
pub(super) fn comment(text: &str) -> String {
    text.chars().map(|c| if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}') { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::{comment, list, quoted};
    use crate::yaml::{Reader, scalar};

    #[test]
    fn what_is_written_reads_back() {
        for text in [
            "plain",
            "on",
            "007",
            "a: b",
            "# no",
            "\"\\",
            "two\nlines\u{2028}\u{85}\u{0}\u{7f}",
            "{x}*",
            "- a",
            "grüß",
            "&a",
        ] {
            let yaml = format!("{}: {}\n", quoted(text), list([text]));
            let mut reader = Reader::new("f");
            let document = reader.document(&yaml).expect("is YAML");
            let fields = reader.mapping(&document, "it");
            let (key, node) = fields.iter().next().expect("a field");
            assert_eq!((key, reader.items(node, "it").into_iter().filter_map(scalar).collect()), (text, vec![text]));
        }
        assert_eq!(quoted("on"), "\"on\"");
        assert_eq!(comment("a\nrules: []"), "a rules: []");
    }
}
