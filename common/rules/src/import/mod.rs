//! Foreign configuration as text of our own language.
//!
//! An import yields text and not rules: that text then goes the way of every rules file, so it is validated by the same
//! code, can be read, kept and changed, and nothing enters that could not have been written by hand. What the other
//! limiter means and ours cannot say is refused; what changes nothing about limits (metrics) is dropped with a warning.
//! Deliberately left out: finding and reading the files.

mod write;
mod envoy;
mod params;

use crate::yaml::Reader;
use tollgate_core::rules::problem::{Problem, Problems};

use crate::FILE_LEN_MAX;

pub use envoy::{EnvoySettings, envoy_names, from_envoy};
pub use params::from_params;

/// A file of another limiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Foreign<'a> {
    /// Its name, for messages and comments.
    pub name: &'a str,
    /// What it holds.
    pub text: &'a str,
}

/// What became of foreign files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Imported {
    /// A rules file.
    pub text: String,
    /// What was dropped or means something slightly different now; places are those of the foreign files.
    pub warnings: Vec<Problem>,
}

/// Collects what is wrong with several files.
#[derive(Default)]
struct Findings {
    problems: Vec<Problem>,
    warnings: Vec<Problem>,
}

impl Findings {
    /// Reads one file; what the reader finds is kept.
    fn read<T>(&mut self, file: Foreign<'_>, read: impl FnOnce(&mut Reader<'_>, &str) -> Option<T>) -> Option<T> {
        let mut reader = Reader::new(file.name);
        let result = if file.text.len() > FILE_LEN_MAX {
            reader.refuse(1, format!("the file has {} bytes; at most {FILE_LEN_MAX} are read", file.text.len()));
            None
        } else {
            read(&mut reader, file.text)
        };
        self.problems.append(&mut reader.problems);
        self.warnings.append(&mut reader.warnings);
        result
    }

    /// The text, unless something was wrong.
    fn finish(self, text: impl FnOnce() -> String) -> Result<Imported, Problems> {
        if self.problems.is_empty() {
            Ok(Imported { text: text(), warnings: self.warnings })
        } else {
            Err(Problems { problems: self.problems })
        }
    }
}
