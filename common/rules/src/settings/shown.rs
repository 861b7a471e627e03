//! Display of a rule and of its policies, by the table of settings.

use serde_json::Value;
use tollgate_core::rules::{LimitPolicy, Quota, Rule};

use super::show::{MORE_COLUMN, QUOTA_COLUMN, Shown};
use super::table::TABLE;

impl Shown {
    /// Shows the settings of a rule itself, and the owner of its file.
    #[must_use]
    pub fn of_rule(rule: &Rule) -> Self {
        let mut shown = Self::default();
        for setting in &TABLE {
            (setting.of_rule)(rule, &mut shown);
        }
        let owner = rule.owner.as_deref();
        shown.json("owner", owner);
        shown.named(MORE_COLUMN, "owner", owner.map(str::to_owned));
        shown
    }

    /// Shows the settings of one of a rule's policies. Without a policy the quota is `unlimited` or `denied`, the algorithm
    /// in JSON `unlimited`, and its other fields are null.
    #[must_use]
    pub fn of_policy(rule: &Rule, policy: Option<&LimitPolicy>) -> Self {
        let mut shown = Self::default();
        let of_fields = policy.copied().unwrap_or_else(|| LimitPolicy::of(Quota::ONE));
        for setting in &TABLE {
            (setting.of_policy)(&of_fields, &mut shown);
        }
        if policy.is_some() {
            return shown;
        }
        shown.json.values_mut().for_each(|value| *value = Value::Null);
        let mut unlimited = Self { json: shown.json, ..Self::default() };
        unlimited.json("algorithm", "unlimited");
        unlimited.column(QUOTA_COLUMN, "quota", if rule.deny { "denied" } else { "unlimited" }.to_owned());
        unlimited
    }
}
