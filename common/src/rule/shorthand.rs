//! A rule in five words: `100/min per ip`, for `--limit` and for those who try things out.

use std::collections::HashMap;

use super::descriptor::DescriptorSpec;
use super::{Charging, Consistency, Matches, Quota, QuotaError, Rule, RuleSet, Terms};
use crate::algorithm::Algorithm;
use crate::window::Estimate;

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
    #[must_use]
    pub fn per(name: &str, per: &[&str], quota: Quota) -> Self {
        Self {
            name: name.into(),
            group: None,
            matches: Vec::new(),
            per: per.iter().map(|name| (*name).into()).collect(),
            terms: Some(Terms::of(quota)),
            by_tier: Vec::new(),
            by_key: HashMap::new(),
            quota_from: None,
            cost: None,
            costs: None,
            charge: Charging::AllOrNone,
            deny: false,
            shadow: false,
            replaces: Vec::new(),
        }
    }

    /// A rule that denies every call which matches.
    #[must_use]
    pub fn denying(name: &str, matches: Matches) -> Self {
        Self { matches, terms: None, deny: true, ..Self::per(name, &[], Quota::ONE) }
    }

    /// The same rule, counted so. A bucket without a burst holds what its rate gives in a second.
    #[must_use]
    pub fn counted_by(mut self, algorithm: Algorithm) -> Self {
        self.terms = self.terms.map(|terms| terms.counted_by(algorithm));
        self
    }

    /// The same rule on other terms.
    #[must_use]
    pub fn with(mut self, change: impl FnOnce(&mut Terms)) -> Self {
        if let Some(terms) = &mut self.terms {
            change(terms);
        }
        self
    }

    /// The same rule, never over its quota: strict, and conservative where it estimates.
    #[must_use]
    pub fn strict(self) -> Self {
        self.with(|terms| {
            terms.consistency = Consistency::Strict;
            if let Algorithm::SlidingWindow(estimate) = &mut terms.algorithm {
                *estimate = Estimate::Conservative;
            }
        })
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
        assert_eq!((&*set.rules[0].name, set.rules[0].terms.unwrap().quota.to_string().as_str()), ("per-ip", "60/min"));
        let set = RuleSet::from_shorthand("5/15min per api_key, endpoint", 1).unwrap();
        assert_eq!(set.rules[0].per.len(), 2);
        assert!(matches!(RuleSet::from_shorthand("60/min", 1), Err(ShorthandError::Form(_))));
        assert!(matches!(RuleSet::from_shorthand("0/min per ip", 1), Err(ShorthandError::Quota(QuotaError::Zero))));
    }
}
