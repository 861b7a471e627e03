//! Values of nodes, with wildcards, and their patterns in a rules file.

use super::super::write::quoted;

/// Condition of a node on the value of its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NodeValue {
    Any,
    Exact(String),
    /// This text, in which each `*` stands for any text, even empty text.
    Wildcard(String),
}

impl NodeValue {
    /// Parses the text of `value:`.
    pub(super) fn of(text: Option<&str>) -> Self {
        match text {
            None | Some("") => Self::Any,
            Some(text) if text.contains('*') => Self::Wildcard(text.to_owned()),
            Some(text) => Self::Exact(text.to_owned()),
        }
    }

    /// Returns the text of the file.
    pub(super) fn text(&self) -> Option<&str> {
        match self {
            Self::Any => None,
            Self::Exact(text) | Self::Wildcard(text) => Some(text),
        }
    }

    pub(super) fn matches_all(&self) -> bool {
        match self {
            Self::Any => true,
            Self::Exact(_) => false,
            Self::Wildcard(text) => text.bytes().all(|byte| byte == b'*'),
        }
    }

    /// Returns false if certainly no value matches both.
    pub(super) fn may_overlap(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Any, _) | (_, Self::Any) => true,
            (Self::Exact(a), Self::Exact(b)) => a == b,
            (Self::Exact(text), Self::Wildcard(pattern)) | (Self::Wildcard(pattern), Self::Exact(text)) => {
                wildcard_matches(pattern, text)
            }
            (Self::Wildcard(a), Self::Wildcard(b)) => {
                let literal = |pair: &(u8, u8)| pair.0 != b'*' && pair.1 != b'*';
                a.bytes().zip(b.bytes()).take_while(literal).all(|(a, b)| a == b)
                    && a.bytes().rev().zip(b.bytes().rev()).take_while(literal).all(|(a, b)| a == b)
            }
        }
    }

    /// Writes an entry of `match` that excludes the values of others.
    pub(super) fn write(&self, others: &[&Self]) -> String {
        let others: Vec<String> = others.iter().map(|other| other.short()).collect();
        let not = format!("not: [{}]", others.join(", "));
        match (self, others.is_empty()) {
            (Self::Any, false) => format!("{{ {not} }}"),
            (_, true) => format!("{{ {} }}", self.long()),
            (_, false) => format!("{{ {}, {not} }}", self.long()),
        }
    }

    /// Writes `form: text`.
    fn long(&self) -> String {
        let pattern = match self {
            Self::Any => return "glob: \"*\"".to_owned(),
            Self::Exact(text) => return format!("exact: {}", quoted(text)),
            Self::Wildcard(text) => collapsed(text),
        };
        match pattern.split_once('*') {
            Some((start, "")) if !start.is_empty() => format!("prefix: {}", quoted(start)),
            // In a glob `?` is any character; here it is literal.
            _ if pattern.contains('?') => format!("regex: {}", quoted(&regex(&pattern))),
            _ => format!("glob: {}", quoted(&pattern)),
        }
    }

    /// Writes a bare text where it means the same, because lists of bare texts are easier to read.
    fn short(&self) -> String {
        match self {
            Self::Exact(text) if !text.contains(['*', '?']) => quoted(text),
            Self::Wildcard(text) if !text.contains('?') => quoted(&collapsed(text)),
            other => format!("{{ {} }}", other.long()),
        }
    }
}

/// Replaces several `*` in a row by one.
fn collapsed(pattern: &str) -> String {
    let mut out = String::with_capacity(pattern.len());
    for c in pattern.chars() {
        if c != '*' || !out.ends_with('*') {
            out.push(c);
        }
    }
    out
}

/// Returns true if a text matches: its start and end do, and between them the other parts follow one another.
fn wildcard_matches(pattern: &str, text: &str) -> bool {
    let parts: Vec<&str> = pattern.split('*').collect();
    let [start, between @ .., end] = &parts[..] else { return pattern == text };
    let mut rest = text.strip_prefix(start).and_then(|rest| rest.strip_suffix(end));
    for part in between {
        rest = rest.and_then(|rest| rest.split_once(part)).map(|(_, after)| after);
    }
    rest.is_some()
}

fn regex(pattern: &str) -> String {
    let parts: Vec<String> = pattern.split('*').map(regex::escape).collect();
    format!("(?s)^{}$", parts.join(".*"))
}

#[cfg(test)]
mod tests {
    use super::NodeValue;

    #[test]
    fn a_value_is_written_in_its_plainest_form() {
        let written = |text: &str| NodeValue::of(Some(text)).write(&[]);
        assert_eq!(written("foo"), "{ exact: foo }");
        assert_eq!(written("50.0.0.5"), "{ exact: \"50.0.0.5\" }");
        assert_eq!(written("what?"), "{ exact: \"what?\" }");
        assert_eq!(written("foo*"), "{ prefix: foo }");
        assert_eq!(written("foo**"), "{ prefix: foo }");
        assert_eq!(written("*"), "{ glob: \"*\" }");
        assert_eq!(written("a*b"), "{ glob: \"a*b\" }");
        assert_eq!(written("a?*b.c"), "{ regex: \"(?s)^a\\\\?.*b\\\\.c$\" }");
        assert_eq!(NodeValue::of(None).write(&[]), "{ glob: \"*\" }");
    }

    #[test]
    fn values_of_others_are_excluded() {
        let (exact, odd, wild) = (NodeValue::of(Some("x")), NodeValue::of(Some("x?")), NodeValue::of(Some("x*y")));
        assert_eq!(NodeValue::Any.write(&[&exact, &odd, &wild]), "{ not: [x, { exact: \"x?\" }, \"x*y\"] }");
        assert_eq!(NodeValue::of(Some("x*")).write(&[&exact]), "{ prefix: x, not: [x] }");
    }

    #[test]
    fn disjoint_values_are_known_to_be() {
        let overlap = |a: &str, b: &str| NodeValue::of(Some(a)).may_overlap(&NodeValue::of(Some(b)));
        assert!(overlap("a*", "ab*") && overlap("*c", "a*") && overlap("a*c", "abc") && overlap("*", ""));
        assert!(!overlap("a*", "b*") && !overlap("*a", "*b") && !overlap("a*a", "a") && !overlap("a*b*c", "acc"));
    }
}
