//! Settings of a rule: one table with the name, levels, algorithms, parser and display of each.
//!
//! `TABLE` drives everything that knows settings by name: the fields that each level accepts, the hints for unknown
//! fields, the refusals of settings that have no effect, the columns and JSON of `rules validate`, the lines of
//! `rules diff`, and the policies in `/explain`. A new setting is one entry there, and a field of
//! [`LimitPolicy`] or [`Rule`]. `layer` merges the settings of several levels into a
//! policy; `show` reads the table for display. Deliberately left out: the structure around settings (`match`, `per`,
//! tiers, lists), which `file` reads.

mod burst;
mod costs;
mod layer;
mod policy_values;
mod rule_values;
mod show;
mod table;
#[cfg(test)]
mod tests;

use std::sync::LazyLock;

use serde_json::Value;
use tollgate_core::algorithm::Algorithm;
use tollgate_core::rules::{DescriptorSpec, LimitPolicy, Rule};

use crate::hint;
use crate::yaml::{Fields, KnownFields, Node, YamlReader, line_of};

pub(crate) use costs::{check_costs, warn_undeclared};
use layer::PolicyEdit;
pub(crate) use layer::{Layer, Located, QuotaValue, read_quota_value, resolve};
pub(crate) use rule_values::check_scope;
pub use show::{
    ALGORITHM_COLUMN, MORE_COLUMN, QUOTA_COLUMN, allowed, columns, policy_cell, policy_json, policy_texts, rule_cell,
    rule_json, rule_texts,
};
use table::TABLE;

/// One setting of the rules file.
struct Setting {
    /// Name of the field.
    name: &'static str,
    /// Levels at which the setting may stand.
    levels: &'static [Level],
    /// Algorithms that the setting applies to; none for all.
    algorithms: Option<AlgorithmList>,
    /// Parser of the value.
    parser: ValueParser,
    /// Display of the setting as a part of a rule.
    of_rule: ValueDisplay<Rule>,
    /// Display of the setting as a part of a policy.
    of_policy: ValueDisplay<LimitPolicy>,
}

/// Level of the rules file, or a kind of rule or layer in which some settings have no effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    /// The file's `defaults`.
    Defaults,
    /// A tier or a key.
    Exception,
    /// A rule.
    Rule,
    /// A rule with `deny: true`.
    DenyingRule,
    /// A level with `quota: unlimited`.
    Unlimited,
}

/// Algorithms of a setting that the others do not have.
struct AlgorithmList {
    names: &'static [&'static str],
    /// Text of the refusal, from the name of another algorithm.
    refusal: fn(&str) -> String,
}

/// Parser of a value, and the slot that the value goes to.
enum ValueParser {
    /// Structure that `file` reads.
    Structure,
    /// A planned setting: it is refused, never ignored.
    Planned,
    /// A value of the limit policy.
    Policy(fn(&mut YamlReader<'_>, &Node<'_>) -> Option<PolicyEdit>),
    /// Another form of the policy setting with this name.
    PolicyAlias(&'static str, fn(&mut YamlReader<'_>, &Node<'_>) -> Option<PolicyEdit>),
    /// A value of the rule itself, which the parser sets.
    Rule(fn(&mut YamlReader<'_>, &Node<'_>, &[DescriptorSpec], &mut Rule)),
}

/// Display of a value of `T`.
struct ValueDisplay<T: 'static> {
    /// Name in `rules diff`.
    label: &'static str,
    /// Text in `rules diff`; none when the value is absent.
    text: TextOf<T>,
    /// Column of `rules validate`, and the text there.
    column: Option<(&'static str, TextOf<T>)>,
    /// JSON fields.
    json: &'static [JsonField<T>],
}

/// Text of a value; none when it is absent.
type TextOf<T> = fn(&T) -> Option<String>;

/// Name and value of a JSON field.
type JsonField<T> = (&'static str, fn(&T) -> Value);

impl Level {
    const ALL: [Self; 5] = [Self::Defaults, Self::Exception, Self::Rule, Self::DenyingRule, Self::Unlimited];

    /// Returns the fields that a mapping of this level may have.
    pub(crate) fn known_fields(self) -> KnownFields {
        static NAMES: LazyLock<[[Vec<&'static str>; 2]; Level::ALL.len()]> = LazyLock::new(|| {
            let names = |level, planned| {
                let settings = TABLE.iter().filter(|setting| setting.levels.contains(&level));
                let is_planned = |setting: &&Setting| matches!(setting.parser, ValueParser::Planned) == planned;
                settings.filter(is_planned).map(|setting| setting.name).collect()
            };
            Level::ALL.map(|level| [names(level, false), names(level, true)])
        });
        let what = match self {
            Self::Defaults => "`defaults`",
            Self::Exception => "a tier",
            Self::Rule | Self::DenyingRule | Self::Unlimited => "a rule",
        };
        let [fields, planned] = &NAMES[self as usize];
        KnownFields { what, fields, planned }
    }
}

impl Setting {
    /// Creates a setting that is read as structure and shown nowhere.
    const fn new(name: &'static str, levels: &'static [Level]) -> Self {
        let of_rule = ValueDisplay { label: "", text: |_| None, column: None, json: &[] };
        let of_policy = ValueDisplay { label: "", text: |_| None, column: None, json: &[] };
        Self { name, levels, algorithms: None, parser: ValueParser::Structure, of_rule, of_policy }
    }

    const fn parser(self, parser: ValueParser) -> Self {
        Self { parser, ..self }
    }

    const fn algorithms(self, list: AlgorithmList) -> Self {
        Self { algorithms: Some(list), ..self }
    }

    const fn rule_text(self, label: &'static str, text: TextOf<Rule>) -> Self {
        Self { of_rule: ValueDisplay { label, text, ..self.of_rule }, ..self }
    }

    const fn rule_cell(self, column: &'static str, text: TextOf<Rule>) -> Self {
        Self { of_rule: ValueDisplay { column: Some((column, text)), ..self.of_rule }, ..self }
    }

    const fn rule_json(self, json: &'static [JsonField<Rule>]) -> Self {
        Self { of_rule: ValueDisplay { json, ..self.of_rule }, ..self }
    }

    const fn policy_text(self, label: &'static str, text: TextOf<LimitPolicy>) -> Self {
        Self { of_policy: ValueDisplay { label, text, ..self.of_policy }, ..self }
    }

    const fn policy_cell(self, column: &'static str, text: TextOf<LimitPolicy>) -> Self {
        Self { of_policy: ValueDisplay { column: Some((column, text)), ..self.of_policy }, ..self }
    }

    const fn policy_json(self, json: &'static [JsonField<LimitPolicy>]) -> Self {
        Self { of_policy: ValueDisplay { json, ..self.of_policy }, ..self }
    }

    /// Returns the reason why an algorithm does not have this setting.
    fn refusal(&self, algorithm: Algorithm) -> Option<String> {
        let name = policy_values::algorithm_name(algorithm);
        let list = self.algorithms.as_ref().filter(|list| !list.names.contains(&name))?;
        Some((list.refusal)(name))
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

/// Reads one of several words. `more` are words that are hinted at, but read elsewhere.
fn read_word<T: Copy>(
    reader: &mut YamlReader<'_>,
    node: &Node<'_>,
    field: &str,
    words: &[(&'static str, T)],
    more: &[&'static str],
) -> Option<T> {
    let word = reader.text(node, &format!("`{field}`"))?;
    let known = words.iter().find(|(name, _)| *name == word).map(|(_, value)| *value);
    if known.is_none() {
        let hint = hint(word, words.iter().map(|(name, _)| *name).chain(more.iter().copied()));
        reader.refuse(line_of(node), format!("unknown {field} `{word}`{hint}"));
    }
    known
}

/// Returns the word of a value.
fn word_of<T: PartialEq>(words: &[(&'static str, T)], value: &T) -> &'static str {
    words.iter().find(|(_, known)| known == value).map_or("", |(name, _)| name)
}

/// Settings that stand in a mapping, in the order of the table.
fn present<'y>(fields: &Fields<'y>) -> impl Iterator<Item = (&'static Setting, &'y Node<'y>)> {
    TABLE.iter().filter_map(|setting| Some((setting, fields.get(setting.name)?)))
}
