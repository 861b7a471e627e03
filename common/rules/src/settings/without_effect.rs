//! Warnings of `leases` and `max_excess` that are written where agents have no leases or no allowances.
//!
//! Such a value does no harm, but somebody who wrote it expects something of it. A setting of a rule is reported if no policy of
//! the rule follows it: one tier may be strict, and another one bounded. Inherited settings are written for other rules and are
//! ignored.

use std::collections::BTreeMap;

use tollgate_core::rules::{Consistency, LimitPolicy, Scope};

use super::layer::Layer;
use crate::yaml::YamlReader;

/// Settings of one rule, by line and name, with the reason why they have no effect; none once a policy follows them.
#[derive(Default)]
pub(crate) struct WithoutEffect(BTreeMap<(usize, &'static str), Option<String>>);

impl WithoutEffect {
    /// Notes a policy of the rule, which results from these settings of the rule and inherited ones.
    pub(crate) fn note(&mut self, own: &Layer, policy: &LimitPolicy, scope: Scope) {
        let reasons = [("leases", reason_of_leases(policy)), ("max_excess", reason_of_max_excess(policy, scope))];
        for (name, reason) in reasons {
            if let Some(edit) = own.edits.get(name) {
                let known = self.0.entry((edit.line, name)).or_insert_with(|| reason.clone());
                *known = known.take().and(reason);
            }
        }
    }

    /// Warns of all settings that no policy follows.
    pub(crate) fn warn(self, reader: &mut YamlReader<'_>) {
        for ((line, _), reason) in self.0 {
            if let Some(reason) = reason {
                reader.warn(line, reason);
            }
        }
    }
}

fn reason_of_leases(policy: &LimitPolicy) -> Option<String> {
    let is_asked_for = policy.leases && !policy.may_lease();
    let text = if policy.consistency == Consistency::Eventual {
        "`leases: on` has no effect under `consistency: eventual`, which never asks the store; remove it, or write `consistency: bounded`"
    } else {
        "`leases: on` has no effect beside a burst, because leased units would use up its reserve; remove one of the two"
    };
    is_asked_for.then(|| text.to_owned())
}

fn reason_of_max_excess(policy: &LimitPolicy, scope: Scope) -> Option<String> {
    if policy.max_excess_ppm == 0 || (policy.may_lease() && policy.consistency == Consistency::Bounded) {
        return None;
    }
    let (place, remedy) = match policy.consistency {
        _ if scope == Scope::Global => (
            "under `scope: global`, because a region must not admit more than the units that it holds",
            "remove it, or write `scope: regional`",
        ),
        Consistency::Strict => (
            "under `consistency: strict`, which admits nothing beyond the quota",
            "remove it, or write `consistency: bounded`",
        ),
        Consistency::Eventual => {
            ("under `consistency: eventual`, which never asks the store", "remove it, or write `consistency: bounded`")
        }
        Consistency::Bounded if !policy.leases => (
            "beside `leases: off`, with which the store charges each call before it is admitted",
            "remove it, or write `leases: on`",
        ),
        Consistency::Bounded => ("beside a burst, which has no allowances", "remove one of the two"),
    };
    Some(format!("`max_excess` has no effect {place}; {remedy}"))
}
