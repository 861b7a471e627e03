//! The two results of a check. A denial is the `Err` of a `Result`, so that no caller can take it for an admission.
//!
//! `?` ends the handler of a denied call, and the compiler warns of an unused result. A decision with a flag can be
//! overlooked, and an enum of both results can be ignored without a warning. [`Denial`] is large and not boxed, because a
//! denial must stay as cheap as an admission.

use std::fmt;
use std::time::Duration;

use tollgate_core::decision::{DENY_LIST, Decision};

use super::permit::Permit;
use crate::http_response;

/// Wait after a denial that names no rule.
const RETRY_AFTER_UNKNOWN: Duration = Duration::from_mins(1);

/// Admission of a call: the call may pass.
///
/// Keep it until the call has ended: it holds the [`Permit`] of a call under `concurrency`. Without such a rule there is no
/// permit, and dropping the admission has no effect.
#[derive(Debug)]
#[must_use = "it may hold the permit of the call: keep it until the call has ended"]
#[non_exhaustive]
pub struct Admission {
    /// Details of the decision; its `status` names the tightest rule, if any rule applies.
    pub decision: Decision,
    /// Slots of the call under `concurrency` rules; none if no such rule applies.
    pub permit: Option<Permit>,
}

/// Denial of a call: the call must not pass. Its text says which rule denies the call and when it passes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Denial {
    /// Details of the decision; its `status` names the rule that denies longest.
    pub decision: Decision,
}

impl Admission {
    /// Returns the time to wait before the call is forwarded: its turn under a `leaky_bucket`, else zero.
    #[must_use]
    pub fn delay(&self) -> Duration {
        Duration::from_millis(self.decision.delay_ms)
    }
}

impl Denial {
    /// Returns the name of the rule that denies the call, or `lists.deny` for the deny list.
    #[must_use]
    pub fn rule(&self) -> &str {
        self.decision.status.as_ref().map_or(DENY_LIST, |status| &*status.rule)
    }

    /// Returns the time after which the same call passes if no other call arrives. It is never zero. A call that a deny list or a
    /// rule with `deny` denies, or that costs more than a quota ([`LimitStatus::cost_max`](crate::LimitStatus::cost_max)), passes
    /// only under other rules.
    #[must_use]
    pub fn retry_after(&self) -> Duration {
        let status = self.decision.status.as_ref();
        status.map_or(RETRY_AFTER_UNKNOWN, |status| Duration::from_millis(status.retry_after_ms))
    }
}

impl fmt::Display for Denial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.decision.status {
            Some(status) => f.write_str(&http_response::denial(&self.decision, status).2),
            None => write!(f, "{} denies this call", self.rule()),
        }
    }
}

impl std::error::Error for Denial {}

#[cfg(test)]
mod tests {
    use tollgate_core::clock::Timestamp;
    use tollgate_core::decision::Source;
    use tollgate_core::decision_id::DecisionId;

    use super::*;

    /// Regression: a denial that showed no rule was `None`, which callers took for an admission.
    #[test]
    fn a_denial_without_a_rule_has_a_wait_and_a_text() {
        let id = DecisionId { life: "a-1".into(), call: 1, partition: None };
        let denial = Denial { decision: Decision::new(false, Source::Local, Timestamp::default(), id) };
        assert!(denial.retry_after() > Duration::ZERO);
        assert_eq!(denial.to_string(), "lists.deny denies this call");
    }
}
