//! Display of rules and policies by the table: columns and JSON of `rules validate`, lines of `rules diff`, JSON of
//! `/explain`.

use serde_json::{Map, Value};
use tollgate_core::rules::{LimitPolicy, Rule};

use super::{Setting, TABLE, ValueDisplay};

/// Title of the column that shows the quota.
pub const QUOTA_COLUMN: &str = "QUOTA";
/// Title of the column that shows the algorithm with its settings.
pub const ALGORITHM_COLUMN: &str = "ALGORITHM";
/// Title of the last column, which shows the settings that few rules have.
pub const MORE_COLUMN: &str = "MORE";

/// Returns the titles of all columns.
#[must_use]
pub fn columns() -> Vec<&'static str> {
    let mut columns = Vec::new();
    for setting in &TABLE {
        let titles = [setting.of_rule.column.map(|column| column.0), setting.of_policy.column.map(|column| column.0)];
        for title in titles.into_iter().flatten() {
            if title != MORE_COLUMN && !columns.contains(&title) {
                columns.push(title);
            }
        }
    }
    columns.push(MORE_COLUMN);
    columns
}

/// Returns the text of a rule in a column.
#[must_use]
pub fn rule_cell(column: &str, rule: &Rule) -> String {
    cell(column, rule, "; ", |setting| &setting.of_rule)
}

/// Returns the text of a policy in a column.
#[must_use]
pub fn policy_cell(column: &str, policy: &LimitPolicy) -> String {
    cell(column, policy, ", ", |setting| &setting.of_policy)
}

/// Returns the settings of a rule itself as names and texts.
#[must_use]
pub fn rule_texts(rule: &Rule) -> Vec<(&'static str, String)> {
    texts(rule, |setting| &setting.of_rule)
}

/// Returns the settings of a policy as names and texts; those of a rule without limit are the quota `unlimited`.
#[must_use]
pub fn policy_texts(policy: Option<&LimitPolicy>) -> Vec<(&'static str, String)> {
    policy.map_or_else(|| vec![("quota", quota_text(None))], |policy| texts(policy, |setting| &setting.of_policy))
}

/// Returns the settings of a rule itself as JSON.
#[must_use]
pub fn rule_json(rule: &Rule) -> Map<String, Value> {
    let fields = TABLE.iter().flat_map(|setting| setting.of_rule.json);
    fields.map(|(name, value)| ((*name).to_owned(), value(rule))).collect()
}

/// Returns the settings of a policy as JSON. Without a policy the algorithm is `unlimited` and the others are null.
#[must_use]
pub fn policy_json(policy: Option<&LimitPolicy>) -> Map<String, Value> {
    let fields = TABLE.iter().flat_map(|setting| setting.of_policy.json);
    let value_of = |name: &str, value: fn(&LimitPolicy) -> Value| match policy {
        Some(policy) => value(policy),
        None if name == "algorithm" => "unlimited".into(),
        None => Value::Null,
    };
    fields.map(|(name, value)| ((*name).to_owned(), value_of(name, *value))).collect()
}

/// Returns the quota of a rule under a policy, `denied` or `unlimited`.
#[must_use]
pub fn allowed(rule: &Rule, policy: Option<&LimitPolicy>) -> String {
    if rule.deny { "denied".to_owned() } else { quota_text(policy) }
}

fn quota_text(policy: Option<&LimitPolicy>) -> String {
    policy.map_or_else(|| "unlimited".to_owned(), |policy| policy.quota.to_string())
}

fn cell<T>(
    column: &str,
    value: &T,
    between: &str,
    display: fn(&'static Setting) -> &'static ValueDisplay<T>,
) -> String {
    let columns = TABLE.iter().filter_map(|setting| display(setting).column);
    let texts: Vec<String> =
        columns.filter(|(title, _)| *title == column).filter_map(|(_, text)| text(value)).collect();
    texts.join(between)
}

fn texts<T>(value: &T, display: fn(&'static Setting) -> &'static ValueDisplay<T>) -> Vec<(&'static str, String)> {
    TABLE.iter().map(display).filter_map(|shown| Some((shown.label, (shown.text)(value)?))).collect()
}
