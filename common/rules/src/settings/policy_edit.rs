//! Change of a policy by one setting, which is applied once the settings of all levels are known.

use std::rc::Rc;

use tollgate_core::algorithm::Algorithm;
use tollgate_core::rules::LimitPolicy;

/// Change of a policy, or the reason why it is impossible.
type PolicyChange = dyn Fn(&mut LimitPolicy) -> Result<(), String>;

/// Effect of a setting on a policy.
#[derive(Clone)]
pub(crate) enum PolicyEdit {
    /// Keeps the default of the algorithm; every algorithm accepts it.
    Default,
    Algorithm(Algorithm),
    /// Changes any other field.
    Change(Rc<PolicyChange>),
}

impl PolicyEdit {
    pub(super) fn change(change: impl Fn(&mut LimitPolicy) -> Result<(), String> + 'static) -> Self {
        Self::Change(Rc::new(change))
    }

    pub(super) fn set(set: impl Fn(&mut LimitPolicy) + 'static) -> Self {
        Self::change(move |policy| {
            set(policy);
            Ok(())
        })
    }

    pub(super) fn apply(&self, policy: &mut LimitPolicy) -> Result<(), String> {
        match self {
            Self::Default => Ok(()),
            Self::Algorithm(algorithm) => {
                *policy = policy.counted_by(*algorithm);
                Ok(())
            }
            Self::Change(change) => change(policy),
        }
    }
}
