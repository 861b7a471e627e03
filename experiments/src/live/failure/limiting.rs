//! The rules of a run, of which each limits callers of its own.

use tollgate::rules::Algorithm;
use tollgate::{Quota, Rule};
use tollgate_core::window::Estimate;

use super::settings::{QUOTA, WIDTH_MS};

/// Consistency of the rule that limits a caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Limiting {
    Strict,
    Bounded,
}

impl Limiting {
    pub(super) const ALL: [Self; 2] = [Self::Strict, Self::Bounded];

    fn name(self) -> &'static str {
        match self {
            Self::Strict => "strict",
            Self::Bounded => "bounded",
        }
    }

    pub(super) fn rule(self) -> Rule {
        let quota = Quota::new(QUOTA, WIDTH_MS).expect("neither is zero");
        let rule = Rule::per(self.name(), &[self.descriptor()], quota);
        match self {
            Self::Strict => rule.strict(),
            // The error of the interpolated estimate is not part of this measurement.
            Self::Bounded => rule.with(|policy| policy.algorithm = Algorithm::SlidingWindow(Estimate::Conservative)),
        }
    }

    pub(super) fn descriptor(self) -> &'static str {
        match self {
            Self::Strict => "strict_key",
            Self::Bounded => "bounded_key",
        }
    }
}
