//! The rules of a run, of which each limits callers of its own.

use tollgate::rules::Algorithm;
use tollgate::{Quota, Rule};
use tollgate_core::window::Estimate;

use super::settings::{QUOTA, TENANT_QUOTA, WIDTH_MS};

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

    /// Returns all rules; with a tenant, each call counts under a rule of the tenant, too.
    pub(super) fn rules(has_tenant: bool) -> Vec<Rule> {
        let tenants = Self::ALL.into_iter().filter(|_| has_tenant).map(Self::rule_of_tenant);
        Self::ALL.into_iter().map(Self::rule).chain(tenants).collect()
    }

    /// Returns the rule of a caller.
    pub(super) fn rule(self) -> Rule {
        self.rule_per(self.name(), self.descriptor(), QUOTA)
    }

    fn rule_of_tenant(self) -> Rule {
        self.rule_per(self.tenant(), self.tenant(), TENANT_QUOTA)
    }

    fn rule_per(self, name: &str, descriptor: &str, units: u64) -> Rule {
        let quota = Quota::new(units, WIDTH_MS).expect("neither is zero");
        let rule = Rule::per(name, &[descriptor], quota);
        match self {
            Self::Strict => rule.strict(),
            // The error of the interpolated estimate is not part of this measurement.
            Self::Bounded => rule.with(|policy| policy.algorithm = Algorithm::SlidingWindow(Estimate::Conservative)),
        }
    }

    /// Returns the name of the rule of the tenant, and of its descriptor.
    pub(super) fn tenant(self) -> &'static str {
        match self {
            Self::Strict => "strict_tenant",
            Self::Bounded => "bounded_tenant",
        }
    }

    pub(super) fn descriptor(self) -> &'static str {
        match self {
            Self::Strict => "strict_key",
            Self::Bounded => "bounded_key",
        }
    }
}
