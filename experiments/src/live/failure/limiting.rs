//! The rules of a run, of which each limits callers of its own.

use tollgate::rules::Algorithm;
use tollgate::{Quota, Rule};
use tollgate_core::window::Estimate;

use super::settings::{QUOTA, SHARED_QUOTA, TENANT_QUOTA, WATCHED_QUOTA, WIDTH_MS};

/// Consistency of the rule that limits a caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Limiting {
    Strict,
    Bounded,
}

/// Rules on each call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallMix {
    /// The rule of the caller alone.
    OneRule,
    /// A rule of the tenant, too, which has room for all callers.
    WithTenant,
    /// A rule of the tenant, or one that two abusers share, and one in shadow; some calls have ids.
    AsUsers,
}

impl Limiting {
    pub(super) const ALL: [Self; 2] = [Self::Strict, Self::Bounded];

    fn name(self) -> &'static str {
        match self {
            Self::Strict => "strict",
            Self::Bounded => "bounded",
        }
    }

    /// Returns all rules. Those of the callers come first, and those in shadow last.
    pub(super) fn rules(mix: CallMix) -> Vec<Rule> {
        let of_callers = Self::ALL.into_iter().map(Self::rule);
        let of_tenants = Self::ALL.into_iter().filter(|_| mix != CallMix::OneRule).map(Self::rule_of_tenant);
        let of_users = Self::ALL.into_iter().filter(|_| mix == CallMix::AsUsers);
        let shared = of_users.clone().map(Self::shared_rule);
        of_callers.chain(of_tenants).chain(shared).chain(of_users.map(Self::watching_rule)).collect()
    }

    /// Returns the rule of a caller.
    pub(super) fn rule(self) -> Rule {
        self.rule_per(self.name(), self.descriptor(), QUOTA)
    }

    /// Returns the rule that two abusers share.
    pub(super) fn shared_rule(self) -> Rule {
        self.rule_per(self.shared(), self.shared(), SHARED_QUOTA)
    }

    fn rule_of_tenant(self) -> Rule {
        self.rule_per(self.tenant(), self.tenant(), TENANT_QUOTA)
    }

    fn watching_rule(self) -> Rule {
        let name = match self {
            Self::Strict => "strict_watched",
            Self::Bounded => "bounded_watched",
        };
        let mut rule = self.rule_per(name, self.descriptor(), WATCHED_QUOTA);
        rule.shadow = true;
        rule
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

    /// Returns the name of the rule that two abusers share, and of its descriptor.
    pub(super) fn shared(self) -> &'static str {
        match self {
            Self::Strict => "strict_shared",
            Self::Bounded => "bounded_shared",
        }
    }

    pub(super) fn descriptor(self) -> &'static str {
        match self {
            Self::Strict => "strict_key",
            Self::Bounded => "bounded_key",
        }
    }
}
