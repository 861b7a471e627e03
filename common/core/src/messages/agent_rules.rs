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
    /// A generation above the newest published one, as after a loss of the publications, or by the `version` of a file.
    Ahead,
    /// Rules that are not published, such as those of a file, whose generation is a time.
    Own,
}

/// Smallest generation that is taken for a time in ms: 1973. No log has so many publications.
const TIME_MIN: Generation = 100_000_000_000;

/// Returns true if a generation may be that of a publication: it is no time.
#[must_use]
pub const fn is_publication(generation: Generation) -> bool {
    generation > 0 && generation < TIME_MIN
}

impl<'a> AgentRules<'a> {
    /// Compares the generation of an agent, and its reason to refuse a newer one, with the newest published generation.
    #[must_use]
    pub fn of(generation: Generation, refusal: &'a str, newest: Option<Generation>) -> Self {
        if !refusal.is_empty() {
            return Self::Refused(refusal);
        }
        match generation.cmp(&newest.unwrap_or_default()) {
            Ordering::Less => Self::Behind,
            Ordering::Equal => Self::Newest,
            Ordering::Greater if is_publication(generation) => Self::Ahead,
            Ordering::Greater => Self::Own,
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

    /// The generation of a file's rules is a time in ms, which is greater than that of any publication.
    #[test]
    fn rules_that_are_older_refused_or_of_a_lost_log_lag_and_those_of_a_file_do_not() {
        let loaded_at = 1_795_801_067_209;
        let cases = [
            (7, "", Some(7), "newest", false),
            (6, "", Some(7), "behind", true),
            (6, "an unknown setting", Some(7), "refused", true),
            (8, "", Some(7), "ahead", true),
            (8, "", None, "ahead", true),
            (loaded_at, "", Some(7), "own", false),
            (loaded_at, "", None, "own", false),
        ];
        for (generation, refusal, newest, name, lag) in cases {
            let rules = AgentRules::of(generation, refusal, newest);
            let reason = Some(refusal).filter(|reason| !reason.is_empty());
            assert_eq!((rules.as_str(), rules.lag(), rules.refusal()), (name, lag, reason), "{generation} {newest:?}");
        }
    }
}
