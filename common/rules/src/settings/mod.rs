//! Settings of a rule: one table with the name, levels, algorithms, parser and display of each.
//!
//! `TABLE` drives everything that knows settings by name: the fields that each level accepts, the hints for unknown
//! fields, the refusals of settings that have no effect, the parts and JSON of `rules validate`, the lines of
//! `rules diff`, and the policies in `/explain`. A new setting is one entry there, and a field of
//! [`LimitPolicy`] or [`Rule`]. `layer` merges the settings of several levels into a
//! policy; `show` collects their display. Deliberately left out: the structure around settings (`match`, `per`,
//! tiers, lists), which `file` reads.

mod burst;
mod costs;
mod layer;
mod global_scope;
mod policy_values;
mod show;
mod table;
mod without_effect;
#[cfg(test)]
mod tests;

use tollgate_core::algorithm::Algorithm;
use tollgate_core::rules::{DescriptorSpec, LimitPolicy, Quota, QuotaError, Rule};

use crate::yaml::{Fields, Node, YamlReader, line_of};

pub(crate) use costs::{check_costs, warn_undeclared};
pub(crate) use global_scope::{complete_global, global_defaults, refuse_not_global};
use layer::PolicyEdit;
pub(crate) use layer::{Layer, Located, read_quota_value, resolve};
pub use show::{ALGORITHM_COLUMN, MORE_COLUMN, QUOTA_COLUMN, Shown};
use table::TABLE;
pub(crate) use without_effect::WithoutEffect;

struct Setting {
    name: &'static str,
    /// Levels at which the setting may stand.
    levels: &'static [Level],
    parser: ValueParser,
    /// Reason why an algorithm of this name does not have the setting.
    refusal: fn(Algorithm, &str) -> Option<String>,
    /// Display of the setting as a part of a rule.
    of_rule: fn(&Rule, &mut Shown),
    /// Display of the setting as a part of a policy.
    of_policy: fn(&LimitPolicy, &mut Shown),
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
enum ValueParser {
    /// Structure that `file` reads.
    Structure,
    /// A value of the limit policy.
    Policy(fn(&mut YamlReader<'_>, &Node<'_>) -> Option<PolicyEdit>),
    /// Another form of the policy setting with this name.
    PolicyAlias(&'static str, fn(&mut YamlReader<'_>, &Node<'_>) -> Option<PolicyEdit>),
    /// A value of the rule itself, which the parser sets.
    Rule(fn(&mut YamlReader<'_>, &Node<'_>, &[DescriptorSpec], &mut Rule)),
}

impl Level {
    /// Reads a mapping of this level: its fields, without the values that have parsers of their own.
    pub(crate) fn read<'y>(self, reader: &mut YamlReader<'_>, node: &'y Node<'y>) -> Fields<'y> {
        let what = match self {
            Self::Defaults => "`defaults`",
            Self::Exception => "a tier",
            Self::Rule | Self::DenyingRule | Self::Unlimited => "a rule",
        };
        let settings = TABLE.iter().filter(|setting| setting.levels.contains(&self));
        reader.fields(node, what, &settings.map(|setting| setting.name).collect::<Vec<_>>())
    }
}

impl Setting {
    /// Creates a setting that is read as structure, that every algorithm has, and that is shown nowhere.
    const fn new(name: &'static str, levels: &'static [Level]) -> Self {
        let parser = ValueParser::Structure;
        Self { name, levels, parser, refusal: |_, _| None, of_rule: |_, _| {}, of_policy: |_, _| {} }
    }

    const fn parser(self, parser: ValueParser) -> Self {
        Self { parser, ..self }
    }

    const fn refusal(self, refusal: fn(Algorithm, &str) -> Option<String>) -> Self {
        Self { refusal, ..self }
    }

    const fn of_rule(self, of_rule: fn(&Rule, &mut Shown)) -> Self {
        Self { of_rule, ..self }
    }

    const fn of_policy(self, of_policy: fn(&LimitPolicy, &mut Shown)) -> Self {
        Self { of_policy, ..self }
    }
}

/// Reads the settings of a rule itself; those of its policy are read by [`Layer::read`].
pub(crate) fn read_rule_values(
    reader: &mut YamlReader<'_>,
    fields: &Fields<'_>,
    known: &[DescriptorSpec],
    rule: &mut Rule,
) {
    let level = if rule.deny { Level::DenyingRule } else { Level::Rule };
    for (setting, node) in present(fields).filter(|(setting, _)| setting.levels.contains(&level)) {
        if let ValueParser::Rule(read) = setting.parser {
            read(reader, node, known, rule);
        }
    }
}

/// Refuses the settings of a rule with `deny: true` that have no effect there.
pub(crate) fn refuse_beside_deny(reader: &mut YamlReader<'_>, fields: &Fields<'_>) {
    let without_effect =
        |setting: &Setting| setting.levels.contains(&Level::Rule) && !setting.levels.contains(&Level::DenyingRule);
    for (setting, node) in present(fields).filter(|(setting, _)| without_effect(setting)) {
        let name = setting.name;
        let text = format!("a rule with `deny: true` counts nothing and takes no `{name}`; remove one of the two");
        reader.refuse(line_of(node), text);
    }
}

pub(crate) fn parse_quota(reader: &mut YamlReader<'_>, line: usize, text: &str) -> Option<Quota> {
    text.parse().map_err(|error: QuotaError| reader.refuse(line, error.to_string())).ok()
}

fn word_of<T: PartialEq>(words: &[(&'static str, T)], value: &T) -> &'static str {
    words.iter().find(|(_, known)| known == value).map_or("", |(name, _)| name)
}

/// Settings that stand in a mapping, in the order of the table.
fn present<'y>(fields: &Fields<'y>) -> impl Iterator<Item = (&'static Setting, &'y Node<'y>)> {
    TABLE.iter().filter_map(|setting| Some((setting, fields.get(setting.name)?)))
}
