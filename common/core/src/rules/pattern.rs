//! Patterns of values: an exact value, a prefix, wildcards, a regular expression, a network, and combinations.
//!
//! A pattern matches one value and knows nothing of descriptors; `match_rules` applies it. Rules files are read elsewhere.

use std::collections::HashSet;
use std::fmt;
use std::net::IpAddr;

use ipnet::IpNet;
use regex::Regex;

use super::Narrowness;

/// Maximum size of a compiled regular expression, in bytes.
const REGEX_LEN_MAX: usize = 1 << 20;
/// Largest number of exact values that are compared one by one; more are looked up in a set.
const EXACT_SCAN_LEN_MAX: usize = 8;

/// A condition on a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// The whole value.
    Exact(Box<str>),
    /// A prefix of the value.
    Prefix(Box<str>),
    /// `*` is any text, `?` any character.
    Glob(Box<str>, Expression),
    /// A regular expression that matches somewhere in the value; `^` and `$` anchor it.
    Regex(Expression),
    /// An address or network inside this one.
    Cidr(IpNet),
    /// Any of these.
    Any(Patterns),
    /// A value that matches no pattern of these.
    Not(Patterns),
    /// All of these.
    All(Vec<Pattern>),
}

/// List of patterns of which any may match, in their order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Patterns {
    all: Box<[Pattern]>,
    /// Set of the exact values, if there are many.
    exact_values: Option<ExactValues>,
    /// Narrowness of the widest one.
    narrowness: Narrowness,
}

/// Regular expression. Two of the same text are equal.
#[derive(Clone, Debug)]
pub struct Expression {
    regex: Regex,
    narrowness: Narrowness,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct ExactValues {
    exact: HashSet<Box<str>>,
    /// Positions of the other patterns.
    others: Box<[usize]>,
}

impl PartialEq for Expression {
    fn eq(&self, other: &Self) -> bool {
        self.regex.as_str() == other.regex.as_str()
    }
}

impl Eq for Expression {}

impl Expression {
    fn new(regex: Regex) -> Self {
        let narrowness = Narrowness::of_regex(regex.as_str());
        Self { regex, narrowness }
    }

    /// Returns the expression as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.regex.as_str()
    }
}

impl Patterns {
    /// Returns all patterns.
    #[must_use]
    pub fn as_slice(&self) -> &[Pattern] {
        &self.all
    }

    /// Returns true if a value matches one of the patterns.
    #[must_use]
    pub fn any_matches(&self, value: &str) -> bool {
        match &self.exact_values {
            None => self.all.iter().any(|pattern| pattern.matches(value)),
            Some(ExactValues { exact, others }) => {
                exact.contains(value) || others.iter().any(|position| self.all[*position].matches(value))
            }
        }
    }
}

impl From<Vec<Pattern>> for Patterns {
    fn from(all: Vec<Pattern>) -> Self {
        let is_exact = |pattern: &&Pattern| matches!(pattern, Pattern::Exact(_));
        let exact_values = (all.iter().filter(is_exact).count() > EXACT_SCAN_LEN_MAX).then(|| {
            let text = |pattern: &Pattern| match pattern {
                Pattern::Exact(text) => Some(text.clone()),
                _ => None,
            };
            let others = all.iter().enumerate().filter(|(_, pattern)| !is_exact(pattern)).map(|(position, _)| position);
            ExactValues { exact: all.iter().filter_map(text).collect(), others: others.collect() }
        });
        let narrowness = all.iter().map(Pattern::narrowness).min().unwrap_or_default();
        Self { all: all.into(), exact_values, narrowness }
    }
}

impl Pattern {
    /// Reads `/search` (the whole value), `/search*` (a prefix), or a text with `*` or `?` elsewhere.
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

    /// Creates a pattern in which `*` is any text and `?` any character.
    ///
    /// # Panics
    /// Never: an escaped text is a regular expression.
    #[must_use]
    pub fn glob(text: &str) -> Self {
        let escaped = regex::escape(text).replace(r"\*", "(?s:.*)").replace(r"\?", "(?s:.)");
        let regex = Regex::new(&format!("^{escaped}$")).expect("escaped text compiles");
        Self::Glob(text.into(), Expression::new(regex))
    }

    /// Creates a pattern from a regular expression in the syntax of the crate `regex`.
    ///
    /// # Errors
    /// When the text is not a regular expression, or too large.
    pub fn regex(text: &str) -> Result<Self, regex::Error> {
        let regex = regex::RegexBuilder::new(text).size_limit(REGEX_LEN_MAX).build()?;
        Ok(Self::Regex(Expression::new(regex)))
    }

    /// Returns true if a value matches.
    #[must_use]
    pub fn matches(&self, value: &str) -> bool {
        match self {
            Self::Exact(exact) => **exact == *value,
            Self::Prefix(prefix) => value.starts_with(&**prefix),
            Self::Glob(..) if self.is_everything() => true,
            Self::Glob(_, regex) | Self::Regex(regex) => regex.regex.is_match(value),
            Self::Cidr(network) => network_of(value).is_some_and(|inner| network.contains(&inner)),
            Self::Any(patterns) => patterns.any_matches(value),
            Self::Not(patterns) => !patterns.any_matches(value),
            Self::All(patterns) => patterns.iter().all(|pattern| pattern.matches(value)),
        }
    }

    /// Returns true if the pattern visibly matches every value.
    #[must_use]
    pub fn is_everything(&self) -> bool {
        match self {
            Self::Exact(_) => false,
            Self::Prefix(text) => text.is_empty(),
            Self::Glob(text, _) => text.bytes().all(|byte| byte == b'*'),
            Self::Regex(regex) => matches!(regex.regex.as_str(), "" | "^" | "$" | ".*" | "^.*" | ".*$" | "^.*$"),
            Self::Cidr(network) => network.prefix_len() == 0,
            Self::Any(patterns) => patterns.as_slice().iter().any(Self::is_everything),
            Self::All(patterns) => patterns.iter().all(Self::is_everything),
            Self::Not(patterns) => patterns.as_slice().is_empty(),
        }
    }

    /// Returns the narrowness, by which rules of a group are ordered. A list is as narrow as its widest alternative, and a
    /// negation names no characters.
    #[must_use]
    pub fn narrowness(&self) -> Narrowness {
        match self {
            Self::Exact(text) => Narrowness::of(true, text.chars().count()),
            Self::Prefix(text) => Narrowness::of(false, text.chars().count()),
            Self::Glob(_, expression) | Self::Regex(expression) => expression.narrowness,
            Self::Cidr(network) => {
                Narrowness::of(network.prefix_len() == network.max_prefix_len(), network.prefix_len().into())
            }
            Self::Any(patterns) => patterns.narrowness,
            Self::All(patterns) => patterns.iter().map(Self::narrowness).sum(),
            Self::Not(_) => Narrowness::of(false, 0),
        }
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |patterns: &[Self], between: &str| {
            patterns.iter().map(ToString::to_string).collect::<Vec<_>>().join(between)
        };
        match self {
            Self::Exact(exact) => f.write_str(exact),
            Self::Prefix(prefix) => write!(f, "{prefix}*"),
            Self::Glob(text, _) => f.write_str(text),
            Self::Regex(regex) => write!(f, "~{}", regex.regex.as_str()),
            Self::Cidr(network) => network.fmt(f),
            Self::Any(patterns) => f.write_str(&list(patterns.as_slice(), "|")),
            Self::All(patterns) => f.write_str(&list(patterns, " and ")),
            Self::Not(patterns) => write!(f, "not {}", list(patterns.as_slice(), "|")),
        }
    }
}

/// Returns the network of `10.0.0.1` or `2001:db8::/64`.
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
    fn wildcards_stand_anywhere_and_other_characters_are_literal() {
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
    fn many_whole_values_are_exact_values_and_mean_and_show_the_same() {
        for len in [EXACT_SCAN_LEN_MAX - 1, EXACT_SCAN_LEN_MAX, EXACT_SCAN_LEN_MAX + 1, 1_000] {
            let mut patterns: Vec<_> = (0..len).map(|i| Pattern::parse(&format!("v{i}"))).collect();
            patterns.insert(1, Pattern::parse("w*"));
            patterns.insert(3, Pattern::parse("v1"));
            let (any, not) = (Pattern::Any(patterns.clone().into()), Pattern::Not(patterns.clone().into()));
            for value in ["v0", "v6", "v7", "v8", "v999", "v1000", "v", "w", "wide", ""] {
                let one_by_one = patterns.iter().any(|pattern| pattern.matches(value));
                assert_eq!((any.matches(value), not.matches(value)), (one_by_one, !one_by_one), "{value} of {len}");
            }
            assert!(any.to_string().starts_with("v0|w*|v1|v1|v2|"), "{any}");
            assert_eq!(any, any.clone());
            patterns.swap(0, 1);
            assert_ne!(any, Pattern::Any(patterns.into()), "the order is part of what is written");
        }
    }

    /// DESIGN 4: an exact value, then more literal characters.
    #[test]
    fn an_exact_value_is_the_narrowest_and_then_more_literal_characters() {
        let regex = |text: &str| Pattern::regex(text).unwrap();
        let cidr = |text: &str| Pattern::Cidr(text.parse().unwrap());
        let any =
            |texts: &[&str]| Pattern::Any(texts.iter().map(|text| Pattern::parse(text)).collect::<Vec<_>>().into());
        let order = [
            Pattern::parse("/shuttle/a"),
            any(&["/users", "/search"]),
            Pattern::glob("/x"),
            cidr("10.0.0.0/24"),
            Pattern::All(vec![Pattern::parse("/shuttle/*"), Pattern::parse("*.gif")]),
            Pattern::parse("/shuttle/*.gif"),
            regex("^/shuttle/.*gif$"),
            Pattern::parse("/shuttle/*"),
            any(&["/shuttle/long*", "/sea*"]),
            Pattern::parse("/*"),
            Pattern::parse("*"),
        ];
        let order: Vec<_> = order.iter().map(Pattern::narrowness).collect();
        assert!(order.is_sorted_by(|a, b| a > b), "{order:?}");
        assert_eq!(cidr("10.0.0.1/32").narrowness().exact, 1);
        assert_eq!(Pattern::Not(vec![Pattern::parse("/a")].into()).narrowness(), Pattern::parse("*").narrowness());
    }
}
