//! Values with `*`, and how our language says them.

use std::fmt::Write as _;

use super::super::write::quoted;

/// What a node asks of the value of its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Value {
    /// Nothing: any value.
    Any,
    /// This text.
    Exact(String),
    /// This text, in which each `*` stands for any text, also for none.
    Wildcard(String),
}

impl Value {
    /// What the text after `value:` asks.
    pub(super) fn of(text: Option<&str>) -> Self {
        match text {
            None | Some("") => Self::Any,
            Some(text) if text.contains('*') => Self::Wildcard(text.to_owned()),
            Some(text) => Self::Exact(text.to_owned()),
        }
    }

    /// As in the file.
    pub(super) fn text(&self) -> Option<&str> {
        match self {
            Self::Any => None,
            Self::Exact(text) | Self::Wildcard(text) => Some(text),
        }
    }

    /// Whether it takes every value there is.
    pub(super) fn takes_all(&self) -> bool {
        match self {
            Self::Any => true,
            Self::Exact(_) => false,
            Self::Wildcard(text) => text.bytes().all(|byte| byte == b'*'),
        }
    }

    /// Whether some value might suit both; only `false` is certain.
    pub(super) fn may_meet(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Any, _) | (_, Self::Any) => true,
            (Self::Exact(a), Self::Exact(b)) => a == b,
            (Self::Exact(text), Self::Wildcard(pattern)) | (Self::Wildcard(pattern), Self::Exact(text)) => {
                suits(pattern, text)
            }
            (Self::Wildcard(a), Self::Wildcard(b)) => {
                let told = |pair: &(u8, u8)| pair.0 != b'*' && pair.1 != b'*';
                a.bytes().zip(b.bytes()).take_while(told).all(|(a, b)| a == b)
                    && a.bytes().rev().zip(b.bytes().rev()).take_while(told).all(|(a, b)| a == b)
            }
        }
    }

    /// As an entry of `match` that leaves out what others take first.
    pub(super) fn write(&self, others: &[&Self]) -> String {
        let others: Vec<String> = others.iter().map(|other| other.short()).collect();
        let not = format!("not: [{}]", others.join(", "));
        match (self, others.is_empty()) {
            (Self::Any, false) => format!("{{ {not} }}"),
            (_, true) => format!("{{ {} }}", self.long()),
            (_, false) => format!("{{ {}, {not} }}", self.long()),
        }
    }

    /// As `form: text`.
    fn long(&self) -> String {
        let pattern = match self {
            Self::Any => return "glob: \"*\"".to_owned(),
            Self::Exact(text) => return format!("exact: {}", quoted(text)),
            Self::Wildcard(text) => collapsed(text),
        };
        match pattern.split_once('*') {
            Some((start, "")) if !start.is_empty() => format!("prefix: {}", quoted(start)),
            // A glob takes `?` for any sign, here it is only itself.
            _ if pattern.contains('?') => format!("regex: {}", quoted(&regex(&pattern))),
            _ => format!("glob: {}", quoted(&pattern)),
        }
    }

    /// As a bare text where that means the same, which is easier to read in a list.
    fn short(&self) -> String {
        match self {
            Self::Exact(text) if !text.contains(['*', '?']) => quoted(text),
            Self::Wildcard(text) if !text.contains('?') => quoted(&collapsed(text)),
            other => format!("{{ {} }}", other.long()),
        }
    }
}

/// The pattern with one `*` for several in a row.
fn collapsed(pattern: &str) -> String {
    let mut out = String::with_capacity(pattern.len());
    for c in pattern.chars() {
        if c != '*' || !out.ends_with('*') {
            out.push(c);
        }
    }
    out
}

fn ends(pattern: &str) -> (&str, &str) {
    let start = pattern.split('*').next().unwrap_or_default();
    let end = pattern.rsplit('*').next().unwrap_or_default();
    (start, end)
}

/// Whether a text suits a pattern: its start and end, and between them the other parts one after the other.
fn suits(pattern: &str, text: &str) -> bool {
    let (start, end) = ends(pattern);
    let Some(mut rest) = text.strip_prefix(start).and_then(|rest| rest.strip_suffix(end)) else {
        return false;
    };
    let parts: Vec<&str> = pattern.split('*').collect();
    let between = parts.iter().skip(1).take(parts.len().saturating_sub(2));
    for part in between {
        let Some(at) = rest.find(*part) else { return false };
        rest = &rest[at + part.len()..];
    }
    true
}

/// The pattern as a regular expression; only what has a meaning there is escaped, for `\<` would have one, too.
fn regex(pattern: &str) -> String {
    let mut out = "(?s)^".to_owned();
    for c in pattern.chars() {
        match c {
            '*' => out.push_str(".*"),
            c if r"\.+?()|[]{}^$#&-~".contains(c) => {
                let _ = write!(out, "\\{c}");
            }
            c => out.push(c),
        }
    }
    out.push('$');
    out
}

#[cfg(test)]
mod tests {
    use super::Value;

    #[test]
    fn a_value_is_said_in_the_plainest_form_that_means_the_same() {
        let said = |text: &str| Value::of(Some(text)).write(&[]);
        assert_eq!(said("foo"), "{ exact: foo }");
        assert_eq!(said("50.0.0.5"), "{ exact: \"50.0.0.5\" }");
        assert_eq!(said("what?"), "{ exact: \"what?\" }");
        assert_eq!(said("foo*"), "{ prefix: foo }");
        assert_eq!(said("foo**"), "{ prefix: foo }");
        assert_eq!(said("*"), "{ glob: \"*\" }");
        assert_eq!(said("a*b"), "{ glob: \"a*b\" }");
        assert_eq!(said("a?*b.c"), "{ regex: \"(?s)^a\\\\?.*b\\\\.c$\" }");
        assert_eq!(Value::of(None).write(&[]), "{ glob: \"*\" }");
    }

    #[test]
    fn what_others_take_is_left_out() {
        let (exact, odd, wild) = (Value::of(Some("x")), Value::of(Some("x?")), Value::of(Some("x*y")));
        assert_eq!(Value::Any.write(&[&exact, &odd, &wild]), "{ not: [x, { exact: \"x?\" }, \"x*y\"] }");
        assert_eq!(Value::of(Some("x*")).write(&[&exact]), "{ prefix: x, not: [x] }");
    }

    #[test]
    fn disjoint_values_are_known_to_be() {
        let meet = |a: &str, b: &str| Value::of(Some(a)).may_meet(&Value::of(Some(b)));
        assert!(meet("a*", "ab*") && meet("*c", "a*") && meet("a*c", "abc") && meet("*", ""));
        assert!(!meet("a*", "b*") && !meet("*a", "*b") && !meet("a*a", "a") && !meet("a*b*c", "acc"));
    }
}
