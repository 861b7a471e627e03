//! Suggestions for unknown names, and values cut for messages.

use std::borrow::Cow;

use strsim::damerau_levenshtein;

/// Maximum number of characters that are quoted of a value that may be secret.
const QUOTED_MAX: usize = 8;

/// Returns `; did you mean ...?` when a known name is close, else the list of known names.
#[must_use]
pub fn hint<'a>(unknown: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    let known: Vec<&str> = known.into_iter().collect();
    match nearest(unknown, known.iter().copied()) {
        Some(name) => format!("; did you mean `{name}`?"),
        _ if known.is_empty() => String::new(),
        _ => format!("; known are {}", known.join(", ")),
    }
}

/// Returns the known name that was probably meant.
#[must_use]
pub fn nearest<'a>(unknown: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let nearest = known.into_iter().min_by_key(|name| damerau_levenshtein(name, unknown))?;
    (damerau_levenshtein(nearest, unknown) <= 2.max(unknown.len() / 3)).then_some(nearest)
}

/// Cuts a value that may be secret. Problems appear in logs and responses; the beginning is enough to find it in the file.
#[must_use]
pub fn cut(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(QUOTED_MAX) {
        Some((end, _)) => Cow::Owned(format!("{}…", &text[..end])),
        None => Cow::Borrowed(text),
    }
}
