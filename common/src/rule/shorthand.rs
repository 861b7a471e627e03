//! A rule in five words: `100/min per ip`, for `--limit` and for those who try things out.

use std::time::Duration;

use super::descriptor::DescriptorSpec;
use super::{Consistency, DEADLINE_MS_DEFAULT, OnFailure, Quota, QuotaError, Rule, RuleSet};
use crate::algorithm::Algorithm;
use crate::window::{Estimate, Window};

/// Why a text is not a rule in short form.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ShorthandError {
    /// Not `QUOTA per NAMES`.
    #[error("`{0}` is not a limit; write it as \"100/min per ip\" or \"5/15min per api_key, endpoint\"")]
    Form(String),
    /// The quota is none.
    #[error(transparent)]
    Quota(#[from] QuotaError),
}

impl Rule {
    /// A rule for all calls that have these descriptors: sliding window, interpolated, bounded.
    ///
    /// # Panics
    /// Never: a quota's width is always the width of a window.
    #[must_use]
    pub fn per(name: &str, per: &[&str], quota: Quota) -> Self {
        Self {
            name: name.into(),
            matches: Vec::new(),
            per: per.iter().map(|name| (*name).into()).collect(),
            quota,
            window: Window::with_default_parts(quota.width_ms()).expect("a quota's width is in range"),
            algorithm: Algorithm::SlidingWindow(Estimate::Interpolated),
            consistency: Consistency::Bounded,
            on_failure: OnFailure::Share,
            deadline: Duration::from_millis(DEADLINE_MS_DEFAULT),
        }
    }

    /// The same rule, never over its quota: strict, and conservative where it estimates.
    #[must_use]
    pub fn strict(mut self) -> Self {
        self.consistency = Consistency::Strict;
        if let Algorithm::SlidingWindow(estimate) = &mut self.algorithm {
            *estimate = Estimate::Conservative;
        }
        self
    }
}

impl RuleSet {
    /// One rule from `100/min per ip`, with the default descriptors.
    ///
    /// # Errors
    /// When the text has another form.
    pub fn from_shorthand(text: &str, generation: u64) -> Result<Self, ShorthandError> {
        let (quota, names) = text.split_once(" per ").ok_or_else(|| ShorthandError::Form(text.to_owned()))?;
        let names: Vec<&str> = names.split([',', ' ']).map(str::trim).filter(|name| !name.is_empty()).collect();
        if names.is_empty() {
            return Err(ShorthandError::Form(text.to_owned()));
        }
        let rule = Rule::per(&format!("per-{}", names.join("-")), &names, quota.parse()?);
        Ok(Self { descriptors: DescriptorSpec::defaults(), ..Self::new(generation, [rule]) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_reads_as_people_say_it() {
        let set = RuleSet::from_shorthand("60/min per ip", 1).unwrap();
        assert_eq!((&*set.rules[0].name, set.rules[0].quota.to_string().as_str()), ("per-ip", "60/min"));
        let set = RuleSet::from_shorthand("5/15min per api_key, endpoint", 1).unwrap();
        assert_eq!(set.rules[0].per.len(), 2);
        assert!(matches!(RuleSet::from_shorthand("60/min", 1), Err(ShorthandError::Form(_))));
        assert!(matches!(RuleSet::from_shorthand("0/min per ip", 1), Err(ShorthandError::Quota(QuotaError::Zero))));
    }
}
