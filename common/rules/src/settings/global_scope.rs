//! Settings of a rule with a global scope: the budgets of regions rest on some values, which such a rule has without writing
//! them. Other values are refused at the rule, and ignored where it inherits them.

use tollgate_core::algorithm::Algorithm;
use tollgate_core::rules::{Consistency, LimitPolicy, Quota};
use tollgate_core::window::Estimate;

use super::layer::{Layer, Located};
use super::policy_edit::PolicyEdit;
use crate::yaml::YamlReader;

/// Setting that the budgets of regions rest on.
struct RequiredSetting {
    name: &'static str,
    /// Value, as it is written.
    value: &'static str,
    /// Reason why no other value is possible.
    reason: &'static str,
    holds: fn(&LimitPolicy) -> bool,
}

const REQUIRED: [RequiredSetting; 5] = [
    RequiredSetting {
        name: "algorithm",
        value: "algorithm: sliding_window",
        reason: "units move to another region only after they have left a sliding window",
        holds: |policy| matches!(policy.algorithm, Algorithm::SlidingWindow(_)),
    },
    RequiredSetting {
        name: "consistency",
        value: "consistency: strict",
        reason: "a region must not admit more than the units that it holds",
        holds: |policy| policy.consistency == Consistency::Strict,
    },
    RequiredSetting {
        name: "estimate",
        value: "estimate: conservative",
        reason: "an interpolated count may admit more than the units that a region holds",
        holds: |policy| policy.algorithm == Algorithm::SlidingWindow(Estimate::Conservative),
    },
    RequiredSetting {
        name: "burst",
        value: "burst: false",
        reason: "a burst admits more than the units that a region holds",
        holds: |policy| policy.burst == 0,
    },
    RequiredSetting {
        name: "leases",
        value: "leases: on",
        reason: "the budgets of regions are built for agents that lease units",
        holds: |policy| policy.leases,
    },
];

/// Refuses the settings of a layer that a rule with a global scope cannot have.
pub(crate) fn refuse_not_global(reader: &mut YamlReader<'_>, layer: &Layer) {
    for RequiredSetting { name, value, reason, holds } in &REQUIRED {
        let Some(edit) = layer.edits.get(name) else { continue };
        let mut policy = LimitPolicy::of(Quota::ONE);
        policy.set_consistency(Consistency::Strict);
        if edit.value.apply(&mut policy).is_err() || !holds(&policy) {
            let text = format!(
                "a rule with `scope: global` has `{value}`, because {reason}; remove `{name}`, or write `scope: regional`"
            );
            reader.refuse(edit.line, text);
        }
    }
}

/// Completes the settings that a rule with a global scope inherits by those that are its defaults.
pub(crate) fn global_defaults(inherited: &Layer) -> Layer {
    let mut layer = inherited.clone();
    let value = PolicyEdit::set(LimitPolicy::divide_finely);
    layer.edits.entry("sub_windows").or_insert(Located { value, line: 0 });
    layer
}

/// Completes a rule's own settings by those that a global scope requires, so that it inherits no others.
pub(crate) fn complete_global(mut own: Layer, line: usize) -> Layer {
    for RequiredSetting { name, .. } in &REQUIRED {
        let value = match *name {
            "consistency" => PolicyEdit::set(|policy| policy.set_consistency(Consistency::Strict)),
            "leases" => PolicyEdit::set(|policy| policy.leases = true),
            _ => PolicyEdit::Default,
        };
        own.edits.entry(name).or_insert(Located { value, line });
    }
    own
}
