//! Rules of an agent by its heartbeat, compared with the newest published ones. Operators see them; nothing is decided by them.

use std::cmp::Ordering;

use crate::rules::Generation;

/// Rules of one agent, compared with the newest published ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AgentRules<'a> {
    /// The newest published ones.
    Newest,
    /// Older ones.
    Behind,
    /// Those before newer ones that the agent refused, for this reason.
    Refused(&'a str),
    /// Published rules of a generation above the newest one, as after a loss of the publications.
    Ahead,
    /// Rules that are not published, such as those of a file.
    Own,
}

impl<'a> AgentRules<'a> {
    /// Compares the rules of an agent, and its reason to refuse newer ones, with the newest published generation. An agent without
    /// rules has generation 0.
    #[must_use]
    pub fn of(generation: Generation, is_published: bool, refusal: &'a str, newest: Option<Generation>) -> Self {
        if !refusal.is_empty() {
            return Self::Refused(refusal);
        }
        if !is_published && generation > 0 {
            return Self::Own;
        }
        match generation.cmp(&newest.unwrap_or_default()) {
            Ordering::Less => Self::Behind,
            Ordering::Equal => Self::Newest,
            Ordering::Greater => Self::Ahead,
        }
    }

    /// Returns true if the agent does not enforce the published rules that it should.
    #[must_use]
    pub const fn lag(self) -> bool {
        matches!(self, Self::Behind | Self::Refused(_) | Self::Ahead)
    }

    /// Returns the name in answers.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Newest => "newest",
            Self::Behind => "behind",
            Self::Refused(_) => "refused",
            Self::Ahead => "ahead",
            Self::Own => "own",
        }
    }

    /// Returns the reason why the agent refused newer rules.
    #[must_use]
    pub const fn refusal(self) -> Option<&'a str> {
        if let Self::Refused(reason) = self { Some(reason) } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The generation of a file's rules is a time, or its `version`.
    #[test]
    fn rules_that_are_older_refused_or_of_a_lost_log_lag_and_those_of_a_file_do_not() {
        let cases = [
            (7, true, "", Some(7), "newest", false),
            (6, true, "", Some(7), "behind", true),
            (0, false, "", Some(7), "behind", true),
            (6, true, "an unknown setting", Some(7), "refused", true),
            (8, true, "", Some(7), "ahead", true),
            (8, true, "", None, "ahead", true),
            (1_795_801_067_209, false, "", Some(7), "own", false),
            (8, false, "", None, "own", false),
            (3, false, "", Some(7), "own", false),
        ];
        for (generation, is_published, refusal, newest, name, lag) in cases {
            let rules = AgentRules::of(generation, is_published, refusal, newest);
            let reason = Some(refusal).filter(|reason| !reason.is_empty());
            assert_eq!((rules.as_str(), rules.lag(), rules.refusal()), (name, lag, reason), "{generation} {newest:?}");
        }
    }
}
