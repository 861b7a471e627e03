//! Records of the topic `rules`: the text of a rules file. Each reader parses it with `tollgate_rules`.
//!
//! A publication names the generation that it replaces. Each reader ignores one that was made for other rules than those
//! before it in the log, so of two publishers at once one has no effect, at every reader alike. A publisher recognises this
//! when it reads the log up to its own record.

use crate::rules::Generation;

/// Maximum number of publications that are kept.
pub const HISTORY_LEN_MAX: usize = 50;
/// Maximum number of characters of a comment and of an author.
pub const COMMENT_LEN_MAX: usize = 500;

/// Rule set as published: one record of the topic `rules`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Published {
    /// Name of the source file.
    pub name: String,
    /// Content of the source file.
    pub text: String,
    /// Overrides and list entries beside the file, as YAML; empty without any.
    pub overrides: String,
    /// Author of the publication, such as `ann@host`.
    pub author: String,
    /// Reason of the publication.
    pub comment: String,
    /// Generation that the publication replaces, in Redis 0 for no rules; none if it applies whatever is in force.
    pub replaces: Option<Generation>,
}

/// Order of the publications of one log, from which those are left out that were made for other rules.
#[derive(Clone, Copy, Debug, Default)]
pub struct PublicationOrder {
    newest: Option<Generation>,
}

impl Published {
    /// Creates the publication of a file by nobody in particular, which applies whatever is in force.
    pub fn new(name: impl Into<String>, text: impl Into<String>) -> Self {
        Self { name: name.into(), text: text.into(), ..Self::default() }
    }
}

impl PublicationOrder {
    /// Takes the next publication of the log; returns false if it has no effect. The first one that a reader finds always
    /// has: those before it are no longer kept. A generation that is not greater than the last one belongs to a log that is
    /// read again.
    pub fn accept(&mut self, generation: Generation, published: &Published) -> bool {
        let before = self.newest.filter(|newest| *newest < generation);
        let is_valid = published.replaces.is_none_or(|replaces| before.is_none_or(|before| before == replaces));
        if is_valid {
            self.newest = Some(generation);
        }
        is_valid
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// F7: of two publishers that saw the same rules, the first one in the log wins; one who saw the winner's follows.
    #[test]
    fn a_publication_for_other_rules_than_those_before_it_has_no_effect() {
        let log = [(3, None, true), (5, Some(3), true), (6, Some(3), false), (7, Some(6), false), (8, Some(5), true)];
        let published = |replaces| Published { replaces, ..Published::default() };
        for first in [0, 1, 4] {
            let mut order = PublicationOrder::default();
            for (generation, replaces, is_valid) in &log[first..] {
                assert_eq!(order.accept(*generation, &published(*replaces)), *is_valid, "{generation} from {first}");
            }
        }
        let mut order = PublicationOrder::default();
        let again: Vec<bool> = log
            .iter()
            .chain(&log)
            .map(|(generation, replaces, _)| order.accept(*generation, &published(*replaces)))
            .collect();
        assert_eq!(again, [true, true, false, false, true, true, true, false, false, true], "a log that is read again");
    }
}
