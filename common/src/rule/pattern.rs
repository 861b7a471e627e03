//! What a value must look like: exactly so, or beginning so.

/// A value to match. Written as text; `*` at the end matches anything that follows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// The whole value.
    Exact(Box<str>),
    /// The beginning of the value.
    Prefix(Box<str>),
}

impl Pattern {
    /// Reads `/search` or `/search*`; nothing when a `*` stands elsewhere.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        match text.strip_suffix('*') {
            Some(prefix) if !prefix.contains('*') => Some(Self::Prefix(prefix.into())),
            None if !text.contains('*') => Some(Self::Exact(text.into())),
            _ => None,
        }
    }

    /// Whether a value matches.
    #[must_use]
    pub fn matches(&self, value: &str) -> bool {
        match self {
            Self::Exact(exact) => **exact == *value,
            Self::Prefix(prefix) => value.starts_with(&**prefix),
        }
    }
}

impl std::fmt::Display for Pattern {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Exact(exact) => f.write_str(exact),
            Self::Prefix(prefix) => write!(f, "{prefix}*"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_at_the_end_matches_the_rest() {
        let search = Pattern::parse("/search*").unwrap();
        assert!(search.matches("/search") && search.matches("/search/all") && !search.matches("/sea"));
        assert!(!Pattern::parse("/login").unwrap().matches("/login/x"));
        assert!(Pattern::parse("*").unwrap().matches(""));
        assert_eq!(Pattern::parse("/a*b"), None);
    }
}
