//! What is wrong with a file: where, why, and what to do about it.

use std::fmt;

/// One thing that is wrong, or probably not meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// `rules.yaml:12`, or what the text came from.
    pub place: String,
    /// What is wrong, and the remedy.
    pub text: String,
}

/// Why a file cannot be used: everything that was found, in the order of the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problems {
    /// At least one.
    pub problems: Vec<Problem>,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.text)
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, problem) in self.problems.iter().enumerate() {
            if i > 0 {
                f.write_str("\n")?;
            }
            problem.fmt(f)?;
        }
        Ok(())
    }
}

impl std::error::Error for Problems {}
