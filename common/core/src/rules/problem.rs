//! Problems of a rules file: place, reason and remedy.
//!
//! `tollgate-rules` finds them; agents keep and report them without the parser.

use crate::one_line::one_line;

/// One error or warning. As a text, it is one line, even if it quotes a name with control characters.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {}", one_line(place), one_line(text))]
pub struct Problem {
    /// Place, such as `rules.yaml:12`, or the origin of the text.
    pub place: String,
    /// Reason and remedy.
    pub text: String,
}

/// All errors of a file that cannot be used, in the order of the text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", lines(problems))]
pub struct Problems {
    /// The errors; at least one.
    pub problems: Vec<Problem>,
}

fn lines(problems: &[Problem]) -> String {
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}
