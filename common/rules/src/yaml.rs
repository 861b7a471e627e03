//! Reader of YAML that keeps the line of every value and collects all problems.
//!
//! Values stay text until a number is needed, so that `version: 010` and `name: off` keep their text. Problems are
//! collected and not returned as errors, so that one run shows all problems of a file. The reader knows no rules:
//! `settings` and `file` do, and the imports of foreign files use it as well. The reader takes the events of `saphyr`'s
//! parser. A derived deserializer was rejected, because it stops at the first error.

mod file_lines;
#[cfg(test)]
mod tests;

use std::str::FromStr;

use saphyr::{MarkedYaml, YamlData};
use saphyr_parser::ScalarStyle;

use crate::{cut, hint, nearest};
use file_lines::{FileOrder, parse};
use tollgate_core::rules::problem::Problem;

/// Largest rules file, in bytes.
pub const FILE_LEN_MAX: usize = 4 << 20;

/// Node of the file, with its position.
pub type Node<'y> = MarkedYaml<'y>;

/// Fields of one mapping.
pub struct Fields<'y> {
    entries: Vec<Entry<'y>>,
    line: usize,
}

/// Reader of one file, or of several that belong together, which collects their problems.
pub struct YamlReader<'f> {
    lines: FileOrder<'f>,
    /// Errors.
    pub problems: Vec<Problem>,
    /// Warnings: valid parts that are probably not meant.
    pub warnings: Vec<Problem>,
}

/// Name of a field, with its line, and the value.
type Entry<'y> = ((&'y str, usize), &'y Node<'y>);

impl<'y> Fields<'y> {
    /// Returns the field of this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&'y Node<'y>> {
        self.iter().find(|(field, _)| *field == name).map(|(_, node)| node)
    }

    /// Returns all fields, in their order.
    pub fn iter(&self) -> impl Iterator<Item = (&'y str, &'y Node<'y>)> + '_ {
        self.entries.iter().map(|((name, _), node)| (*name, *node))
    }

    /// Returns the names of all fields, each with its line.
    pub fn names(&self) -> impl Iterator<Item = (&'y str, usize)> + '_ {
        self.entries.iter().map(|(name, _)| *name)
    }

    /// Removes the fields that the reader of another dialect takes for absent.
    pub fn retain(&mut self, is_present: impl Fn(&Node<'_>) -> bool) {
        self.entries.retain(|(_, node)| is_present(node));
    }

    /// Returns the line on which the mapping begins.
    #[must_use]
    pub fn line(&self) -> usize {
        self.line
    }
}

impl<'f> YamlReader<'f> {
    /// Creates a reader of a file with this name.
    #[must_use]
    pub fn new(file: &'f str) -> Self {
        Self { lines: FileOrder::new(file), problems: Vec::new(), warnings: Vec::new() }
    }

    /// Continues with another file. Its lines are numbered after those of the files before it.
    pub(crate) fn begin_file(&mut self, file: &'f str) {
        self.lines.add_file(file);
    }

    /// Returns the name of the last file.
    #[must_use]
    pub fn file(&self) -> &'f str {
        self.lines.last().0
    }

    pub(crate) fn place(&self, line: usize) -> String {
        let (file, line) = self.lines.place(line);
        format!("{file}:{line}")
    }

    /// Sorts the problems by their places. Some are found only after the whole text has been read.
    pub(crate) fn sort(&mut self) {
        let Self { lines, problems, warnings } = self;
        problems.sort_by_cached_key(|problem| lines.order(&problem.place));
        warnings.sort_by_cached_key(|problem| lines.order(&problem.place));
    }

    /// Returns the place of a line for a message about another one: without the file if both lines are in it.
    pub(crate) fn place_seen_from(&self, line: usize, from: usize) -> String {
        let ((file, line), (own, _)) = (self.lines.place(line), self.lines.place(from));
        if file == own { format!("line {line}") } else { format!("{file}:{line}") }
    }

    /// Adds an error.
    pub fn refuse(&mut self, line: usize, text: impl Into<String>) {
        self.problems.push(Problem { place: self.place(line), text: text.into() });
    }

    /// Adds a warning.
    pub fn warn(&mut self, line: usize, text: impl Into<String>) {
        self.warnings.push(Problem { place: self.place(line), text: text.into() });
    }

    /// Parses the only document of a text; none, with an error, when there is not exactly one, or when it is too long.
    pub fn document<'y>(&mut self, text: &'y str) -> Option<Node<'y>> {
        let first_line = self.lines.add_text(text);
        if text.len() > FILE_LEN_MAX {
            self.refuse(first_line, format!("the file has {} bytes; at most {FILE_LEN_MAX} are read", text.len()));
            return None;
        }
        let mut documents = match parse(text, first_line) {
            Ok(documents) => documents,
            Err((line, reason)) => {
                let remedy = remedy(&reason);
                self.refuse(line, format!("this YAML cannot be read: {reason}; {remedy}"));
                return None;
            }
        };
        let text = match documents.len() {
            0 => "the file is empty",
            1 => return documents.pop(),
            _ => "the file holds several documents, divided by `---`; write each one into a file of its own",
        };
        self.refuse(first_line, text);
        None
    }

    /// Reads a mapping with free keys.
    pub fn mapping<'y>(&mut self, node: &'y Node<'y>, what: &str) -> Fields<'y> {
        let mut entries = Vec::new();
        self.add_entries(node, what, &mut entries);
        Fields { entries, line: line_of(node) }
    }

    /// Adds the entries of a mapping whose keys are not known yet, then those that it merges (`<<: *anchor`). So a mapping's own
    /// keys come first, and of several merged mappings the first one that has a key.
    fn add_entries<'y>(&mut self, node: &'y Node<'y>, what: &str, entries: &mut Vec<Entry<'y>>) {
        let YamlData::Mapping(mapping) = &node.data else {
            if scalar(node) != Some("") {
                self.refuse(line_of(node), format!("{what} must be a mapping (`name: value` lines)"));
            }
            return;
        };
        for (key, value) in mapping.iter().filter(|(key, _)| !is_merge(key)) {
            match scalar(key) {
                Some(name) if entries.iter().any(|((known, _), _)| *known == name) => {}
                Some(name) => entries.push(((name, line_of(key)), value)),
                None => self.refuse(line_of(key), format!("a key in {what} must be a plain word")),
            }
        }
        for (key, merged) in mapping.iter().filter(|(key, _)| is_merge(key)) {
            let merged = if let YamlData::Sequence(all) = &merged.data { all } else { std::slice::from_ref(merged) };
            for merged in merged {
                if matches!(merged.data, YamlData::Mapping(_)) {
                    self.add_entries(merged, what, entries);
                } else {
                    let text = "`<<` merges the keys of other mappings into this one; write the alias of a mapping, such as `<<: *name` with `&name` above, or copy its lines here";
                    self.refuse(line_of(key), text);
                }
            }
        }
    }

    /// Reads a mapping with known keys, and refuses the others. `what` is a noun for messages, as in "in {what}".
    pub fn fields<'y>(&mut self, node: &'y Node<'y>, what: &str, known: &[&str]) -> Fields<'y> {
        let fields = self.mapping(node, what);
        for (name, line) in fields.names().filter(|(name, _)| !known.contains(name)) {
            // A name that resembles no field may be a secret value in the wrong place.
            let shown = if nearest(name, known.iter().copied()).is_some() { name.into() } else { cut(name) };
            let hint = hint(name, known.iter().copied());
            self.refuse(line, format!("unknown field `{shown}` in {what}{hint}"));
        }
        fields
    }

    /// Reads the items of a sequence; a single word is a sequence of one.
    pub fn items<'y>(&mut self, node: &'y Node<'y>, what: &str) -> Vec<&'y Node<'y>> {
        match &node.data {
            YamlData::Sequence(items) => items.iter().collect(),
            _ if scalar(node).is_some_and(|text| !text.is_empty()) => vec![node],
            _ => {
                self.refuse(line_of(node), format!("{what} must be a list, such as [a, b]"));
                Vec::new()
            }
        }
    }

    /// Reads a word, a number or a quoted text.
    pub fn text<'y>(&mut self, node: &'y Node<'y>, what: &str) -> Option<&'y str> {
        let text = scalar(node).filter(|text| !text.is_empty());
        if text.is_none() {
            self.refuse(line_of(node), format!("{what} must be a single value"));
        }
        text
    }

    /// Reads a number or another value that parses.
    pub fn parse<T: FromStr>(&mut self, node: &Node<'_>, what: &str, form: &str) -> Option<T> {
        self.parse_by(node, what, form, |text| text.parse().ok())
    }

    /// Reads a value by a parser of its text. `form` is the permitted form, for the refusal of other texts.
    pub fn parse_by<T>(
        &mut self,
        node: &Node<'_>,
        what: &str,
        form: &str,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Option<T> {
        let text = self.text(node, what)?;
        let parsed = parse(text);
        if parsed.is_none() {
            self.refuse(line_of(node), format!("{what} is `{text}`; write {form}"));
        }
        parsed
    }

    /// Reads one of several words. `more` are words that are hinted at, but read elsewhere.
    pub fn word<T: Copy>(&mut self, node: &Node<'_>, field: &str, words: &[(&str, T)], more: &[&str]) -> Option<T> {
        let word = self.text(node, &format!("`{field}`"))?;
        let known = words.iter().find(|(name, _)| *name == word).map(|(_, value)| *value);
        if known.is_none() {
            let hint = hint(word, words.iter().map(|(name, _)| *name).chain(more.iter().copied()));
            self.refuse(line_of(node), format!("unknown {field} `{word}`{hint}"));
        }
        known
    }

    /// Reads the text of a field; none if the field is absent.
    pub fn text_of<'y>(&mut self, fields: &Fields<'y>, name: &str) -> Option<&'y str> {
        self.text(fields.get(name)?, &format!("`{name}`"))
    }

    /// Reads `true` or `false` in a field; false if the field is absent.
    pub fn flag(&mut self, fields: &Fields<'_>, name: &str) -> bool {
        let flag = fields.get(name).and_then(|node| self.parse(node, &format!("`{name}`"), "true or false"));
        flag.unwrap_or_default()
    }
}

/// Returns the remedy of a text that is no YAML, by the reason of the parser.
fn remedy(reason: &str) -> &'static str {
    let is_word = |word: &str| reason.split(|c: char| !c.is_alphanumeric()).any(|known| known == word);
    if is_word("tab") || is_word("tabs") {
        "indent with spaces"
    } else if reason.contains("duplicated key") {
        "keep one of the two lines"
    } else {
        "check the indentation, the closing quotes and brackets, and the space after each `:` on this line and the one before it"
    }
}

/// Returns the line on which a node begins, from 1.
#[must_use]
pub fn line_of(node: &Node<'_>) -> usize {
    node.span.start.line().max(1)
}

/// Returns the text of a scalar; an absent value reads as "".
#[must_use]
pub fn scalar<'y>(node: &'y Node<'y>) -> Option<&'y str> {
    match &node.data {
        YamlData::Representation(text, ScalarStyle::Plain, _) if text == "~" => Some(""),
        YamlData::Representation(text, ..) => Some(text),
        _ => None,
    }
}

/// Returns true for a scalar without quotes, which may be a number or a truth value.
#[must_use]
pub fn is_plain(node: &Node<'_>) -> bool {
    matches!(&node.data, YamlData::Representation(_, ScalarStyle::Plain, _))
}

/// Returns true for the key `<<` of YAML 1.1, which stands for the keys of other mappings. In quotes, it is a key.
fn is_merge(key: &Node<'_>) -> bool {
    matches!(&key.data, YamlData::Representation(text, ScalarStyle::Plain, _) if text == "<<")
}

/// Returns true if a node is a list.
#[must_use]
pub fn is_list(node: &Node<'_>) -> bool {
    matches!(node.data, YamlData::Sequence(_))
}
