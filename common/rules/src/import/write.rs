//! Writer of YAML scalars that every parser reads back as the same text.

use std::fmt::Write as _;

/// Words that other parsers do not read as text.
const NOT_TEXT: [&str; 11] = ["null", "true", "false", "yes", "no", "on", "off", "y", "n", "nan", "inf"];

/// Writes a text as one scalar: plain where no parser can misread it, else in double quotes.
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
            // Invisible characters and line separators: controls, U+2028, U+2029, a byte order mark.
            c if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}') => {
                let _ = write!(out, "\\u{:04X}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// Writes `[a, b]`.
pub(super) fn list<T: AsRef<str>>(items: impl IntoIterator<Item = T>) -> String {
    let items: Vec<String> = items.into_iter().map(|item| quoted(item.as_ref())).collect();
    format!("[{}]", items.join(", "))
}

/// Writes a text for a comment, on one line.
pub(super) fn comment(text: &str) -> String {
    text.chars().map(|c| if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}') { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::{comment, list, quoted};
    use crate::yaml::{YamlReader, scalar};

    #[test]
    fn every_text_reads_back_as_written() {
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
            let mut reader = YamlReader::new("f");
            let document = reader.document(&yaml).expect("is YAML");
            let fields = reader.mapping(&document, "it");
            let (key, node) = fields.iter().next().expect("a field");
            assert_eq!((key, reader.items(node, "it").into_iter().filter_map(scalar).collect()), (text, vec![text]));
        }
        assert_eq!(quoted("on"), "\"on\"");
        assert_eq!(comment("a\nrules: []"), "a rules: []");
    }
}
