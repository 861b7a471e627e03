//! Rules written in code: `Rule::per("per-key", &["api_key"], "100/min".parse()?)`.
//!
//! An embedder who builds rules here needs no parser; `tollgate-rules` reads the same rules from text.

use super::{Consistency, LimitPolicy, Matches, Pattern, Quota, Rule, Scope};
use crate::algorithm::Algorithm;
use crate::own_answer::OwnAnswer;

impl Rule {
    /// Creates a rule for all calls that have these descriptors; each combination of their values has its own counter.
    /// Without descriptors, all calls share one. The rule counts in a sliding window, interpolated and bounded.
    ///
    /// ```
    /// # use tollgate_core::rules::Rule;
    /// let rule = Rule::per("per-key", &["api_key"], "100/min".parse()?);
    /// # Ok::<(), tollgate_core::rules::QuotaError>(())
    /// ```
    #[must_use]
    pub fn per(name: &str, per: &[&str], quota: Quota) -> Self {
        let per = per.iter().map(|name| (*name).into()).collect();
        Self { name: name.into(), per, policy: Some(LimitPolicy::of(quota)), ..Self::default() }
    }

    /// Creates a rule that denies every call which matches.
    #[must_use]
    pub fn denying(name: &str, matches: Matches) -> Self {
        Self { name: name.into(), matches, deny: true, ..Self::default() }
    }

    /// Returns the same rule for fewer calls: the value of this descriptor must match. In the pattern, `*` is any text
    /// and `?` any character.
    #[must_use]
    pub fn matching(mut self, descriptor: &str, pattern: &str) -> Self {
        self.matches.push((descriptor.into(), Pattern::parse(pattern)));
        self
    }

    /// Returns the same rule with another algorithm. A bucket without a burst holds the units that its rate gives in a
    /// second.
    #[must_use]
    pub fn counted_by(mut self, algorithm: Algorithm) -> Self {
        self.policy = self.policy.map(|policy| policy.counted_by(algorithm));
        self
    }

    /// Returns the same rule with a changed policy, such as another deadline.
    ///
    /// ```
    /// # use tollgate_core::rules::Rule;
    /// # use std::time::Duration;
    /// let rule = Rule::per("per-key", &["api_key"], "100/min".parse()?)
    ///     .with(|policy| policy.deadline = Duration::from_millis(20));
    /// # Ok::<(), tollgate_core::rules::QuotaError>(())
    /// ```
    #[must_use]
    pub fn with(mut self, change: impl FnOnce(&mut LimitPolicy)) -> Self {
        if let Some(policy) = &mut self.policy {
            change(policy);
        }
        self
    }

    /// Returns the same rule in shadow: it counts its calls and the denials that it would give, and denies none.
    #[must_use]
    pub fn in_shadow(mut self) -> Self {
        self.shadow = true;
        self
    }

    /// Returns the same rule with an answer of its own.
    #[must_use]
    pub fn answering(self, own_answer: OwnAnswer) -> Self {
        Self { own_answer: Some(own_answer.into()), ..self }
    }

    /// Returns the same rule with the guarantee that no window exceeds the quota: strict, with the conservative estimate.
    #[must_use]
    pub fn strict(self) -> Self {
        self.with(|policy| policy.set_consistency(Consistency::Strict))
    }

    /// Returns the same rule with one quota over all regions of the set: strict, in budgets that move to the demand.
    #[must_use]
    pub fn global(self) -> Self {
        Self { scope: Scope::Global, ..self.strict().with(LimitPolicy::divide_finely) }
    }

    /// Returns the same rule without a store: signals of the aggregator and the agent's own admissions decide.
    #[must_use]
    pub fn eventual(self) -> Self {
        self.with(|policy| policy.set_consistency(Consistency::Eventual))
    }
}
