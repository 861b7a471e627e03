//! What is wrong with a file: where, why, and what to do about it.

use std::borrow::Cow;
use std::fmt;

use strsim::damerau_levenshtein;

/// How many characters of a value are quoted that may be a secret.
const QUOTED_MAX: usize = 8;

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

/// `; did you mean ...?` when one of the known names is close, else the list of them.
#[must_use]
pub fn hint<'a>(unknown: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    let known: Vec<&str> = known.into_iter().collect();
    match nearest(unknown, known.iter().copied()) {
        Some(name) => format!("; did you mean `{name}`?"),
        _ if known.is_empty() => String::new(),
        _ => format!("; known are {}", known.join(", ")),
    }
}

/// The known name that was probably meant.
#[must_use]
pub fn nearest<'a>(unknown: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let nearest = known.into_iter().min_by_key(|name| damerau_levenshtein(name, unknown))?;
    (damerau_levenshtein(nearest, unknown) <= 2.max(unknown.len() / 3)).then_some(nearest)
}

/// The beginning of a value that may be a secret, for whoever looks for it in the file: problems stand in logs and answers.
#[must_use]
pub fn cut(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(QUOTED_MAX) {
        Some((end, _)) => Cow::Owned(format!("{}…", &text[..end])),
        None => Cow::Borrowed(text),
    }
}
