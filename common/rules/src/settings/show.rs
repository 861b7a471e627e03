//! Settings as they are shown: parts and JSON of `rules validate`, lines of `rules diff`, JSON of `/explain`. The table
//! fills them in.

use serde_json::{Map, Value};

/// Title of the part that shows the quota.
pub const QUOTA_COLUMN: &str = "QUOTA";
/// Title of the part that shows the algorithm with its settings.
pub const ALGORITHM_COLUMN: &str = "ALGORITHM";
/// Title of the part that shows all other settings with their names.
pub(super) const MORE_COLUMN: &str = "MORE";

/// Settings of a rule itself, or of a policy, as they are shown.
#[derive(Debug, Default)]
pub struct Shown {
    /// JSON fields.
    pub json: Map<String, Value>,
    /// Names and texts in `rules diff`; a value that is absent has none.
    pub texts: Vec<(&'static str, String)>,
    /// Titles of parts of `rules validate`, and the texts there.
    pub(super) cells: Vec<(&'static str, String)>,
}

impl Shown {
    /// Returns the text of a part.
    #[must_use]
    pub fn cell(&self, column: &str) -> String {
        let texts: Vec<&str> =
            self.cells.iter().filter(|(title, _)| *title == column).map(|(_, text)| text.as_str()).collect();
        texts.join(if column == MORE_COLUMN { "; " } else { ", " })
    }

    /// Returns a limit in lines: the quota, the algorithm, and all other settings.
    #[must_use]
    pub fn lines(shown: &[Self]) -> Vec<String> {
        let line = |column: &&str| {
            let texts = shown.iter().map(|shown| shown.cell(column)).filter(|text| !text.is_empty());
            texts.collect::<Vec<_>>().join("; ")
        };
        [QUOTA_COLUMN, ALGORITHM_COLUMN, MORE_COLUMN].iter().map(line).filter(|line| !line.is_empty()).collect()
    }

    pub(super) fn json(&mut self, field: &str, value: impl Into<Value>) {
        self.json.insert(field.to_owned(), value.into());
    }

    pub(super) fn text(&mut self, name: &'static str, text: Option<String>) {
        self.texts.extend(text.map(|text| (name, text)));
    }

    pub(super) fn add_cell(&mut self, column: &'static str, text: Option<String>) {
        self.cells.extend(text.map(|text| (column, text)));
    }

    /// Adds a text that is a part of its own.
    pub(super) fn column(&mut self, column: &'static str, name: &'static str, text: String) {
        self.text(name, Some(text.clone()));
        self.add_cell(column, Some(text));
    }

    /// Adds a text to a part of several settings, where it is preceded by its name.
    pub(super) fn named(&mut self, column: &'static str, name: &'static str, text: Option<String>) {
        self.add_cell(column, text.as_ref().map(|text| format!("{name} {text}")));
        self.text(name, text);
    }
}
