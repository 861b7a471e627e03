//! Suggestions for unknown names, and values cut short for messages.

use std::borrow::Cow;

use strsim::damerau_levenshtein;

/// Number of characters that are quoted of a value that may be a secret.
const QUOTED_MAX: usize = 8;

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
