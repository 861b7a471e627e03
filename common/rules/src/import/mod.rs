//! Imports: the configuration of other limiters as a rules file.
//!
//! An import returns text and not rules, so that the text is validated by the parser of every rules file and can be
//! read, kept and changed. Limits that a rules file cannot express are refused; settings that change no limit (metrics)
//! are dropped with a warning. Deliberately left out: reading the files, which the agent and the command line do.

mod write;
mod envoy;
mod params;

use crate::yaml::YamlReader;
use tollgate_core::rules::problem::{Problem, Problems};

pub use envoy::{EnvoySettings, envoy_names, from_envoy};
pub use params::from_params;

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
struct Findings {
    problems: Vec<Problem>,
    warnings: Vec<Problem>,
}

impl Findings {
    /// Reads one file and keeps its problems.
    fn read<T>(&mut self, file: Foreign<'_>, read: impl FnOnce(&mut YamlReader<'_>, &str) -> Option<T>) -> Option<T> {
        let mut reader = YamlReader::new(file.name);
        let result = read(&mut reader, file.text);
        self.problems.append(&mut reader.problems);
        self.warnings.append(&mut reader.warnings);
        result
    }

    /// Returns the text, unless there are errors.
    fn finish(self, text: impl FnOnce() -> String) -> Result<Imported, Problems> {
        if self.problems.is_empty() {
            Ok(Imported { text: text(), warnings: self.warnings })
        } else {
            Err(Problems { problems: self.problems })
        }
    }
}
