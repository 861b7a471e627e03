//! Narrowness: the order of the rules of a group, of which only the narrowest applies.
//!
//! An exact value is the narrowest; next come more literal characters. The parts of a pattern, and the conditions of a
//! rule, add up. The measure says nothing about the values that two patterns share, so a rule that wins by it may match
//! more calls. By a rank of the kinds of patterns, `/*` would be narrower than `/shuttle/*/*.gif`.

use std::iter::Sum;
use std::ops::Add;

use regex_syntax::hir::{Hir, HirKind, Look};

/// Narrowness of a pattern or a rule. The greater one is narrower; of equals, the rule that stands earlier is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Narrowness {
    /// Number of conditions that name whole values.
    pub exact: usize,
    /// Number of characters that every match contains as written; of a network, the bits of its prefix.
    pub literals: usize,
    /// Number of conditions.
    pub conditions: usize,
}

impl Narrowness {
    pub(super) const fn of(is_exact: bool, literals: usize) -> Self {
        Self { exact: is_exact as usize, literals, conditions: 1 }
    }

    pub(super) fn of_regex(text: &str) -> Self {
        let Ok(hir) = regex_syntax::parse(text) else { return Self::of(false, 0) };
        let parts = if let HirKind::Concat(parts) = hir.kind() { &parts[..] } else { &[] };
        let is_exact = matches!(
            parts.iter().map(Hir::kind).collect::<Vec<_>>()[..],
            [HirKind::Look(Look::Start), HirKind::Literal(_), HirKind::Look(Look::End)]
        );
        Self::of(is_exact, literals(&hir))
    }
}

impl Add for Narrowness {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            exact: self.exact + other.exact,
            literals: self.literals.saturating_add(other.literals),
            conditions: self.conditions + other.conditions,
        }
    }
}

impl Sum for Narrowness {
    fn sum<I: Iterator<Item = Self>>(parts: I) -> Self {
        parts.fold(Self::default(), Add::add)
    }
}

/// Returns the number of characters that every match contains as written.
fn literals(hir: &Hir) -> usize {
    match hir.kind() {
        HirKind::Literal(literal) => String::from_utf8_lossy(&literal.0).chars().count(),
        HirKind::Repetition(repeated) => literals(&repeated.sub).saturating_mul(repeated.min as usize),
        HirKind::Capture(capture) => literals(&capture.sub),
        HirKind::Concat(parts) => parts.iter().map(literals).fold(0, usize::saturating_add),
        HirKind::Alternation(parts) => parts.iter().map(literals).min().unwrap_or(0),
        HirKind::Empty | HirKind::Class(_) | HirKind::Look(_) => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_regular_expression_counts_the_characters_that_every_match_contains() {
        for (text, is_exact, literals) in [
            ("^/search$", true, 7),
            ("/search", false, 7),
            ("^/shuttle/.*\\.gif$", false, 13),
            ("^/v[12]/", false, 3),
            ("^/(users|keys)/", false, 6),
            ("^(ab){3}c*$", false, 6),
            ("(?i)^/ab", false, 1),
            ("ä+", false, 1),
            (".*", false, 0),
            ("", false, 0),
        ] {
            assert_eq!(Narrowness::of_regex(text), Narrowness::of(is_exact, literals), "{text}");
        }
    }
}
