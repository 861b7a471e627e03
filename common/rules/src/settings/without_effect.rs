//! Warnings of `leases` that is written where agents have no leases.
//!
//! Such a value does no harm, but somebody who wrote it expects something of it. A setting of a rule is reported if no policy of
//! the rule follows it: one tier may be strict, and another one bounded. Inherited settings are written for other rules and are
//! ignored.

use std::collections::BTreeMap;

use tollgate_core::rules::{Consistency, LimitPolicy};

use super::layer::Layer;
use crate::yaml::YamlReader;

/// Settings `leases` of one rule, by line, with the reason why they have no effect; none once a policy follows them.
#[derive(Default)]
pub(crate) struct WithoutEffect(BTreeMap<usize, Option<String>>);

impl WithoutEffect {
    /// Notes a policy of the rule, which results from these settings of the rule and inherited ones.
    pub(crate) fn note(&mut self, own: &Layer, policy: &LimitPolicy) {
        if let Some(edit) = own.edits.get("leases") {
            let reason = reason(policy);
            let known = self.0.entry(edit.line).or_insert_with(|| reason.clone());
            *known = known.take().and(reason);
        }
    }

    /// Warns of all settings that no policy follows.
    pub(crate) fn warn(self, reader: &mut YamlReader<'_>) {
        for (line, reason) in self.0 {
            if let Some(reason) = reason {
                reader.warn(line, reason);
            }
        }
    }
}

fn reason(policy: &LimitPolicy) -> Option<String> {
    let is_asked_for = policy.leases && !policy.may_lease();
    let text = if policy.consistency == Consistency::Eventual {
        "`leases: on` has no effect under `consistency: eventual`, which never asks the store; remove it, or write `consistency: bounded`"
    } else {
        "`leases: on` has no effect beside a burst, because leased units would use up its reserve; remove one of the two"
    };
    is_asked_for.then(|| text.to_owned())
}
