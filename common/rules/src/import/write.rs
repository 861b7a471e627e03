//! Writer of YAML scalars that every parser reads back as the same text.

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
    // A text of JSON is one of YAML; YAML calls for more escapes.
    let escape = |c: char| if is_unprintable(c) { format!("\\u{:04X}", u32::from(c)) } else { c.to_string() };
    serde_json::Value::from(text).to_string().chars().map(escape).collect()
}

/// Writes `[a, b]`.
pub(super) fn list<T: AsRef<str>>(items: impl IntoIterator<Item = T>) -> String {
    let items: Vec<String> = items.into_iter().map(|item| quoted(item.as_ref())).collect();
    format!("[{}]", items.join(", "))
}

/// Writes a text for a comment, on one line.
pub(super) fn comment(text: &str) -> String {
    text.replace(is_unprintable, " ")
}

/// Returns true for invisible characters and line separators: controls, U+2028, U+2029, a byte order mark.
fn is_unprintable(c: char) -> bool {
    c.is_control() || matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}')
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
