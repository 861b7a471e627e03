//! What a value must look like: exactly so, beginning so, with wildcards, by a regular expression, or inside a network.

use std::fmt;
use std::net::IpAddr;

use ipnet::IpNet;
use regex::Regex;

/// The longest regular expression when it is compiled, in bytes.
const REGEX_LEN_MAX: usize = 1 << 20;

/// A value to match.
#[derive(Clone, Debug)]
pub enum Pattern {
    /// The whole value.
    Exact(Box<str>),
    /// The beginning of the value.
    Prefix(Box<str>),
    /// `*` is any text, `?` any character.
    Glob(Box<str>, Regex),
    /// A regular expression that matches somewhere in the value; `^` and `$` anchor it.
    Regex(Regex),
    /// An address or network inside this one.
    Cidr(IpNet),
    /// Any of these.
    Any(Vec<Pattern>),
    /// None of these.
    Not(Vec<Pattern>),
    /// All of these.
    All(Vec<Pattern>),
}

impl Pattern {
    /// Reads `/search` (the whole value), `/search*` (its beginning), or a text in which `*` or `?` stand elsewhere.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        if !text.contains(['*', '?']) {
            return Self::Exact(text.into());
        }
        match text.strip_suffix('*') {
            Some(prefix) if !prefix.contains(['*', '?']) => Self::Prefix(prefix.into()),
            _ => Self::glob(text),
        }
    }

    /// A text in which `*` is any text and `?` any character.
    ///
    /// # Panics
    /// Never: an escaped text is a regular expression.
    #[must_use]
    pub fn glob(text: &str) -> Self {
        let escaped = regex::escape(text).replace(r"\*", "(?s:.*)").replace(r"\?", "(?s:.)");
        Self::Glob(text.into(), Regex::new(&format!("^{escaped}$")).expect("escaped text compiles"))
    }

    /// A regular expression in the syntax of the crate `regex`.
    ///
    /// # Errors
    /// When it is none, or too large.
    pub fn regex(text: &str) -> Result<Self, regex::Error> {
        Ok(Self::Regex(regex::RegexBuilder::new(text).size_limit(REGEX_LEN_MAX).build()?))
    }

    /// Whether a value matches.
    #[must_use]
    pub fn matches(&self, value: &str) -> bool {
        match self {
            Self::Exact(exact) => **exact == *value,
            Self::Prefix(prefix) => value.starts_with(&**prefix),
            Self::Glob(_, regex) | Self::Regex(regex) => regex.is_match(value),
            Self::Cidr(network) => network_of(value).is_some_and(|inner| network.contains(&inner)),
            Self::Any(patterns) => patterns.iter().any(|pattern| pattern.matches(value)),
            Self::Not(patterns) => !patterns.iter().any(|pattern| pattern.matches(value)),
            Self::All(patterns) => patterns.iter().all(|pattern| pattern.matches(value)),
        }
    }

    /// Whether it is written so that every value matches.
    #[must_use]
    pub fn is_everything(&self) -> bool {
        match self {
            Self::Exact(_) => false,
            Self::Prefix(text) => text.is_empty(),
            Self::Glob(text, _) => text.bytes().all(|byte| byte == b'*'),
            Self::Regex(regex) => matches!(regex.as_str(), "" | "^" | "$" | ".*" | "^.*" | ".*$" | "^.*$"),
            Self::Cidr(network) => network.prefix_len() == 0,
            Self::Any(patterns) => patterns.iter().any(Self::is_everything),
            Self::All(patterns) => patterns.iter().all(Self::is_everything),
            Self::Not(patterns) => patterns.is_empty(),
        }
    }

    /// How narrow it is: what is exact before what is not, then by how much of the value is told.
    #[must_use]
    pub fn specificity(&self) -> (u8, usize) {
        match self {
            Self::Exact(text) => (4, text.len()),
            Self::Prefix(text) => (3, text.len()),
            Self::Cidr(network) => (3, network.prefix_len().into()),
            Self::Glob(text, _) => (2, text.bytes().filter(|byte| !b"*?".contains(byte)).count()),
            Self::Regex(regex) => (1, regex.as_str().len()),
            Self::Any(patterns) => patterns.iter().map(Self::specificity).min().unwrap_or_default(),
            Self::All(patterns) => patterns.iter().map(Self::specificity).max().unwrap_or_default(),
            Self::Not(_) => (0, 0),
        }
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Exact(a), Self::Exact(b))
            | (Self::Prefix(a), Self::Prefix(b))
            | (Self::Glob(a, _), Self::Glob(b, _)) => a == b,
            (Self::Regex(a), Self::Regex(b)) => a.as_str() == b.as_str(),
            (Self::Cidr(a), Self::Cidr(b)) => a == b,
            (Self::Any(a), Self::Any(b)) | (Self::Not(a), Self::Not(b)) | (Self::All(a), Self::All(b)) => a == b,
            _ => false,
        }
    }
}

impl Eq for Pattern {}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |f: &mut fmt::Formatter<'_>, patterns: &[Self], between: &str| {
            for (place, pattern) in patterns.iter().enumerate() {
                write!(f, "{}{pattern}", if place == 0 { "" } else { between })?;
            }
            Ok(())
        };
        match self {
            Self::Exact(exact) => f.write_str(exact),
            Self::Prefix(prefix) => write!(f, "{prefix}*"),
            Self::Glob(text, _) => f.write_str(text),
            Self::Regex(regex) => write!(f, "~{}", regex.as_str()),
            Self::Cidr(network) => network.fmt(f),
            Self::Any(patterns) => list(f, patterns, "|"),
            Self::All(patterns) => list(f, patterns, " and "),
            Self::Not(patterns) => {
                f.write_str("not ")?;
                list(f, patterns, "|")
            }
        }
    }
}

/// The network of `10.0.0.1` or `2001:db8::/64`.
fn network_of(value: &str) -> Option<IpNet> {
    value.parse::<IpAddr>().map(IpNet::from).or_else(|_| value.parse()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_at_the_end_matches_the_rest() {
        let search = Pattern::parse("/search*");
        assert!(search.matches("/search") && search.matches("/search/all") && !search.matches("/sea"));
        assert!(!Pattern::parse("/login").matches("/login/x"));
        assert!(Pattern::parse("*").matches(""));
    }

    #[test]
    fn wildcards_stand_anywhere_and_mean_nothing_else() {
        let glob = Pattern::parse("/v?/*/export.csv");
        assert!(
            glob.matches("/v1/a/b/export.csv") && !glob.matches("/v1/a/exportxcsv") && !glob.matches("/v12/export.csv")
        );
        assert_eq!(glob.to_string(), "/v?/*/export.csv");
    }

    #[test]
    fn a_network_holds_addresses_and_narrower_networks() {
        let cidr = |text: &str| Pattern::Cidr(text.parse().unwrap());
        assert!(cidr("10.0.0.0/8").matches("10.1.2.3") && !cidr("10.0.0.0/8").matches("11.0.0.1"));
        assert!(cidr("2001:db8::/32").matches("2001:db8:1::/64") && !cidr("2001:db8::/64").matches("2001:db8::/32"));
        assert!(!cidr("10.0.0.0/8").matches("not an address"));
    }

    #[test]
    fn what_is_narrower_is_more_specific() {
        let order = ["/search", "/search*", "/sea*", "/*/x"].map(|text| Pattern::parse(text).specificity());
        assert!(order.is_sorted_by(|a, b| a > b), "{order:?}");
        assert!(Pattern::regex("^/v1/.*").unwrap().specificity() < Pattern::parse("/*").specificity());
    }
}
