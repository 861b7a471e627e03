//! Several files of rules as one text, which is how they are published.
//!
//! A line `--- # file: NAME` stands before each file. It begins a document of YAML, so it can be no line of a file's own
//! document, and a program that knows nothing of it sees several documents.

/// Beginning of the line before each file.
const MARK: &str = "--- # file: ";
const NEXT: &str = "\n--- # file: ";

/// Text of one of the files that together hold the rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedText {
    /// Name of the file, for messages.
    pub name: String,
    /// Content of the file.
    pub text: String,
}

/// Returns files as one text.
#[must_use]
pub fn parts_text(parts: &[NamedText]) -> String {
    let files = parts.iter().flat_map(|part| split(&part.name, &part.text));
    let text = |(name, text): (&str, &str)| {
        let name: String = name.chars().map(|c| if c.is_control() { '?' } else { c }).collect();
        let end = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
        format!("{MARK}{name}\n{text}{end}")
    };
    files.map(text).collect()
}

/// Returns the files of a text, each with its name. A text without such lines is one file.
pub(crate) fn split<'t>(name: &'t str, text: &'t str) -> Vec<(&'t str, &'t str)> {
    let Some(parts) = text.strip_prefix(MARK) else { return vec![(name, text)] };
    let part = |part: &'t str| {
        let (name, text) = part.split_once('\n').unwrap_or((part, ""));
        (name.trim_end(), text)
    };
    parts.split(NEXT).map(part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_become_one_text_and_files_again() {
        let part = |name: &str, text: &str| NamedText { name: name.to_owned(), text: text.to_owned() };
        let parts = [part("a.yaml", "---\nrules: []"), part("empty.yaml", ""), part("b.yaml", "version: 2\n")];
        let text = parts_text(&parts);
        let expected = "--- # file: a.yaml\n---\nrules: []\n--- # file: empty.yaml\n--- # file: b.yaml\nversion: 2\n";
        assert_eq!(text, expected);
        let files = [("a.yaml", "---\nrules: []"), ("empty.yaml", ""), ("b.yaml", "version: 2\n")];
        assert_eq!(split("all", &text), files);
        assert_eq!(parts_text(&[part("all", &text)]), text, "a text of several files is not nested");
        assert_eq!(split("one.yaml", "--- # a file\nrules: []"), [("one.yaml", "--- # a file\nrules: []")]);
    }
}
