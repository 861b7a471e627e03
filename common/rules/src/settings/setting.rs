//! One setting of a rule: its name, levels, parser and display.

use serde_json::Value;
use tollgate_core::algorithm::Algorithm;
use tollgate_core::rules::{DescriptorSpec, LimitPolicy, Rule};

use super::policy_edit::PolicyEdit;
use super::show::Shown;
use crate::schema::{Key, text};
use crate::yaml::{Node, YamlReader};

pub(super) struct Setting {
    pub(super) key: Key,
    /// Levels at which the setting may stand.
    pub(super) levels: &'static [Level],
    pub(super) parser: ValueParser,
    /// Reason why an algorithm of this name does not have the setting.
    pub(super) refusal: fn(Algorithm, &str) -> Option<String>,
    /// Display of the setting as a part of a rule.
    pub(super) of_rule: fn(&Rule, &mut Shown),
    /// Display of the setting as a part of a policy.
    pub(super) of_policy: fn(&LimitPolicy, &mut Shown),
}

/// Level of the rules file, or a kind of rule or layer in which some settings have no effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    /// The file's `defaults`.
    Defaults,
    /// A tier or a key.
    Exception,
    Rule,
    /// A rule with `deny: true`.
    DenyingRule,
    /// A level with `quota: unlimited`.
    Unlimited,
}

/// Parser of a value, and the slot that the value goes to.
pub(super) enum ValueParser {
    /// Structure that `file` reads.
    Structure,
    /// A value of the limit policy.
    Policy(fn(&mut YamlReader<'_>, &Node<'_>) -> Option<PolicyEdit>),
    /// Another form of the policy setting with this name.
    PolicyAlias(&'static str, fn(&mut YamlReader<'_>, &Node<'_>) -> Option<PolicyEdit>),
    /// A value of the rule itself, which the parser sets.
    Rule(fn(&mut YamlReader<'_>, &Node<'_>, &[DescriptorSpec], &mut Rule)),
}

impl Setting {
    /// Creates a setting that is read as structure, that every algorithm has, and that is shown nowhere.
    pub(super) const fn new(name: &'static str, levels: &'static [Level]) -> Self {
        let parser = ValueParser::Structure;
        let key = Key::new(name, "", text);
        Self { key, levels, parser, refusal: |_, _| None, of_rule: |_, _| {}, of_policy: |_, _| {} }
    }

    /// Adds the description and the form of its value, for the schema of the file.
    pub(super) const fn schema(self, description: &'static str, form: fn() -> Value) -> Self {
        Self { key: Key::new(self.key.name, description, form), ..self }
    }

    pub(super) const fn parser(self, parser: ValueParser) -> Self {
        Self { parser, ..self }
    }

    pub(super) const fn refusal(self, refusal: fn(Algorithm, &str) -> Option<String>) -> Self {
        Self { refusal, ..self }
    }

    pub(super) const fn of_rule(self, of_rule: fn(&Rule, &mut Shown)) -> Self {
        Self { of_rule, ..self }
    }

    pub(super) const fn of_policy(self, of_policy: fn(&LimitPolicy, &mut Shown)) -> Self {
        Self { of_policy, ..self }
    }
}
