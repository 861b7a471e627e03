//! Coverage: patterns and rules that certainly match everything that another one matches, and patterns that match nothing.
//!
//! Warnings rest on it, so an unknown relation counts as none: no warning is better than a false one.

use tollgate_core::rules::{DescriptorSpec, Pattern, Rule};

use super::unverified::unverified;

/// Character that stands for any text in a sample value; no rules file is expected to contain it.
const ANY_CHAR: &str = "\u{10fffd}";
/// Length of a sample text, which exceeds what the `?` of one pattern can take.
const SAMPLE_LEN: usize = 64;

/// Returns true if `wide` applies to each call to which `narrow` applies, and may override other rules there.
pub(super) fn covers_rule(wide: &Rule, narrow: &Rule, known: &[DescriptorSpec]) -> bool {
    let of_narrow = |name: &str| narrow.matches.iter().find(|(other, _)| **other == *name).map(|(_, pattern)| pattern);
    let has = |name: &str| of_narrow(name).is_some() || narrow.per.iter().any(|other| **other == *name);
    wide.per.iter().all(|name| has(name))
        && wide.matches.iter().all(|(name, pattern)| {
            let is_covered = of_narrow(name).is_some_and(|narrow| covers(pattern, narrow));
            unverified(known, name).is_none() && (is_covered || pattern.is_everything() && has(name))
        })
}

/// Returns true if `wide` certainly matches every value that `narrow` matches.
fn covers(wide: &Pattern, narrow: &Pattern) -> bool {
    if wide.is_everything() || wide == narrow {
        return true;
    }
    match (wide, narrow) {
        (_, Pattern::Exact(value)) => wide.matches(value),
        (_, Pattern::Any(narrow)) => narrow.as_slice().iter().all(|narrow| covers(wide, narrow)),
        (Pattern::All(wide), _) => wide.iter().all(|wide| covers(wide, narrow)),
        (_, Pattern::All(narrow)) => narrow.iter().any(|narrow| covers(wide, narrow)),
        (Pattern::Any(wide), _) => wide.as_slice().iter().any(|wide| covers(wide, narrow)),
        (Pattern::Not(without), Pattern::Not(more)) => {
            let is_excluded = |without| more.as_slice().iter().any(|more| covers(more, without));
            without.as_slice().iter().all(is_excluded)
        }
        (Pattern::Cidr(wide), Pattern::Cidr(narrow)) => wide.contains(narrow),
        (Pattern::Prefix(wide), Pattern::Prefix(narrow)) => narrow.starts_with(&**wide),
        // The literal beginning excludes most patterns at little cost.
        (Pattern::Prefix(head), Pattern::Glob(text, _)) => text.starts_with(&**head) && covers_glob(wide, text),
        (Pattern::Glob(glob, _), Pattern::Prefix(text) | Pattern::Glob(text, _)) => {
            let head = glob.split(['*', '?']).next().unwrap_or_default();
            let rest = if matches!(narrow, Pattern::Prefix(_)) { "*" } else { "" };
            text.starts_with(head) && covers_glob(wide, &format!("{text}{rest}"))
        }
        _ => false,
    }
}

/// Returns true if `wide`, a prefix or a glob, matches the shortest and a long value of another glob.
fn covers_glob(wide: &Pattern, narrow: &str) -> bool {
    let samples = [String::new(), ANY_CHAR.repeat(SAMPLE_LEN)];
    samples.iter().all(|any| wide.matches(&narrow.replace('?', ANY_CHAR).replace('*', any)))
}

/// Returns true if certainly no value matches the pattern.
pub(super) fn matches_nothing(pattern: &Pattern) -> bool {
    match pattern {
        Pattern::Any(patterns) => patterns.as_slice().iter().all(matches_nothing),
        Pattern::Not(patterns) => patterns.as_slice().iter().any(Pattern::is_everything),
        Pattern::All(parts) => parts.iter().any(|part| match part {
            Pattern::Exact(value) => !pattern.matches(value),
            Pattern::Not(without) => {
                without.as_slice().iter().any(|without| parts.iter().any(|part| covers(without, part)))
            }
            part => matches_nothing(part),
        }),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(text: &str) -> Pattern {
        let all = |texts: &str| texts.split(' ').map(pattern).collect::<Vec<_>>();
        match text.split_at_checked(1) {
            Some(("~", regex)) => Pattern::regex(regex).unwrap(),
            Some(("!", texts)) => Pattern::Not(all(texts).into()),
            Some(("&", texts)) => Pattern::All(all(texts)),
            Some(("|", texts)) => Pattern::Any(all(texts).into()),
            Some(("#", network)) => Pattern::Cidr(network.parse().unwrap()),
            _ => Pattern::parse(text),
        }
    }

    #[test]
    fn a_wider_pattern_covers_a_narrower_one() {
        for (wide, narrow) in [
            ("*", "~x"),
            ("~.*", "/a*"),
            ("~^/v", "/v1"),
            ("~^/v", "~^/v"),
            ("/*", "/shuttle/*/*.gif"),
            ("/a*", "/ab*"),
            ("/?*", "/a*"),
            ("/*/*", "/a/?/c"),
            ("*.gif", "/a?*.gif"),
            ("|/a* /b*", "|/a1 /b*"),
            ("!/a", "!/a /b"),
            ("!/ab*", "!/a*"),
            ("!/a", "/b"),
            ("/a*", "&/a* !/ab"),
            ("&/a* *", "/a*"),
            ("#10.0.0.0/8", "#10.1.0.0/16"),
        ] {
            assert!(covers(&pattern(wide), &pattern(narrow)), "{wide} {narrow}");
        }
    }

    #[test]
    fn an_unknown_relation_is_no_coverage() {
        for (wide, narrow) in [
            ("/a*", "/*"),
            ("/?*", "/*"),
            ("/a?", "/a*"),
            ("*a?", "*a*"),
            ("~^/[^/]*$", "/*"),
            ("/a*", "~^/a"),
            ("!/a /b", "!/a"),
            ("!/a", "/*"),
            ("&/a* !/ab", "/a*"),
            ("|/a* /b*", "/*"),
            ("#10.1.0.0/16", "#10.0.0.0/8"),
        ] {
            assert!(!covers(&pattern(wide), &pattern(narrow)), "{wide} {narrow}");
        }
    }

    #[test]
    fn contradictions_match_nothing() {
        for text in ["!*", "!/a *", "&/a !/a", "&/a* !/*", "&/a /b*", "|!* !*", "&/a* !*"] {
            assert!(matches_nothing(&pattern(text)), "{text}");
        }
        for text in ["!/a", "&/a* !/ab", "&/a /a*", "|!* /a", "*", "#10.0.0.0/8"] {
            assert!(!matches_nothing(&pattern(text)), "{text}");
        }
    }
}
