//! Files to import, the problems that are found in them, and the result.

use tollgate_core::rules::problem::{Problem, Problems};

use crate::yaml::YamlReader;

/// File of another limiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Foreign<'a> {
    /// Name of the file, for messages and comments.
    pub name: &'a str,
    /// Text of the file.
    pub text: &'a str,
}

/// Result of an import.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Imported {
    /// Text of the rules file.
    pub text: String,
    /// Warnings of parts that were dropped or changed; their places are those of the foreign files.
    pub warnings: Vec<Problem>,
}

/// Problems of several files.
#[derive(Default)]
pub(super) struct Findings {
    pub(super) problems: Vec<Problem>,
    pub(super) warnings: Vec<Problem>,
}

impl Findings {
    /// Reads one file and keeps its problems.
    pub(super) fn read<T>(
        &mut self,
        file: Foreign<'_>,
        read: impl FnOnce(&mut YamlReader<'_>, &str) -> Option<T>,
    ) -> Option<T> {
        let mut reader = YamlReader::new(file.name);
        let result = read(&mut reader, file.text);
        self.problems.append(&mut reader.problems);
        self.warnings.append(&mut reader.warnings);
        result
    }

    /// Returns the text, unless there are errors.
    pub(super) fn finish(self, text: impl FnOnce() -> String) -> Result<Imported, Problems> {
        if self.problems.is_empty() {
            Ok(Imported { text: text(), warnings: self.warnings })
        } else {
            Err(Problems { problems: self.problems })
        }
    }
}
