//! Layers: the policy settings of one level, merged over those below it, and resolved to a limit policy.
//!
//! A setting is kept as a change to the policy, so that this file needs no field per setting. Only the quota is kept as a
//! value: without one there is no policy.

use std::collections::BTreeMap;

use tollgate_core::algorithm::Algorithm;
use tollgate_core::rules::{LimitPolicy, PolicyError, Quota};
use tollgate_core::window::Estimate;

use super::policy_edit::PolicyEdit;
use super::policy_values::{algorithm_name, parse_quota};
use super::setting::{Level, Setting, ValueParser};
use super::table::{TABLE, present};
use crate::yaml::{Fields, Node, YamlReader, line_of};

/// Policy settings of one level. A setting that is absent is taken from the layer below.
#[derive(Clone, Default)]
pub(crate) struct Layer {
    /// Quota; `None` inside it means `unlimited`.
    pub(crate) quota: Option<Located<Option<Quota>>>,
    /// Changes by the name of the setting.
    pub(super) edits: BTreeMap<&'static str, Located<PolicyEdit>>,
}

/// A value and the line of the file in which it stands.
#[derive(Clone, Copy)]
pub(crate) struct Located<T> {
    pub(crate) value: T,
    pub(crate) line: usize,
}

impl Layer {
    /// Reads all policy settings of a level other than a rule.
    pub(crate) fn read_level(reader: &mut YamlReader<'_>, fields: &Fields<'_>) -> Self {
        let quota = fields.get("quota").and_then(|node| read_quota_value(reader, node));
        Self::read(reader, fields, quota)
    }

    /// Reads all policy settings of a mapping, except the quota, which has more forms under a rule.
    pub(crate) fn read(
        reader: &mut YamlReader<'_>,
        fields: &Fields<'_>,
        quota: Option<Located<Option<Quota>>>,
    ) -> Self {
        let mut layer = Self { quota, ..Self::default() };
        for (setting, node) in present(fields) {
            let (slot, read) = match setting.parser {
                ValueParser::Policy(read) => (setting.key.name, read),
                ValueParser::PolicyAlias(slot, read) => (slot, read),
                _ => continue,
            };
            let Some(value) = read(reader, node) else { continue };
            let line = line_of(node);
            if layer.edits.contains_key(slot) {
                let name = setting.key.name;
                reader.refuse(line, format!("`{slot}` and `{name}` say the same thing; write one of them"));
            } else {
                layer.edits.insert(slot, Located { value, line });
            }
        }
        layer
    }

    /// Returns these settings, completed by those of the layer below.
    pub(crate) fn over(&self, below: &Self) -> Self {
        let mut edits = below.edits.clone();
        edits.extend(self.edits.iter().map(|(slot, edit)| (*slot, edit.clone())));
        Self { quota: self.quota.or(below.quota), edits }
    }

    /// Returns the name and line of the settings that have no effect beside `quota: unlimited`.
    pub(crate) fn without_effect_if_unlimited(&self) -> impl Iterator<Item = (&'static str, usize)> {
        let counting = TABLE.iter().filter(|setting| !setting.levels.contains(&Level::Unlimited));
        let edits = counting.filter_map(|setting| self.edits.get_key_value(setting.key.name));
        edits.filter(|(_, edit)| !matches!(edit.value, PolicyEdit::Default)).map(|(name, edit)| (*name, edit.line))
    }

    fn algorithm(&self) -> Algorithm {
        match self.edits.get("algorithm").map(|edit| &edit.value) {
            Some(PolicyEdit::Algorithm(algorithm)) => *algorithm,
            _ => Algorithm::SlidingWindow(Estimate::Interpolated),
        }
    }
}

/// Resolves a rule's `own` settings and those that it inherits to a policy; none when it does not limit. A setting that the
/// algorithm does not have is refused among the own settings, and ignored among the inherited ones. `line` is the place of
/// problems that no single setting causes.
pub(crate) fn resolve(own: &Layer, inherited: &Layer, line: usize) -> Result<Option<LimitPolicy>, Located<String>> {
    let all = own.over(inherited);
    let algorithm = all.algorithm();
    let refusal = |setting: &Setting| (setting.refusal)(algorithm, algorithm_name(algorithm));
    for setting in TABLE.iter().rev() {
        let edit = own.edits.get(setting.key.name).filter(|edit| !matches!(edit.value, PolicyEdit::Default));
        if let Some((edit, value)) = edit.zip(refusal(setting)) {
            return Err(Located { value, line: edit.line });
        }
    }
    let quota = all.quota.ok_or_else(|| Located { value: "the rule has no `quota`".to_owned(), line })?;
    let Some(quota) = quota.value else { return Ok(None) };
    let mut policy = LimitPolicy::of(quota);
    for setting in TABLE.iter().filter(|setting| refusal(setting).is_none()) {
        if let Some(edit) = all.edits.get(setting.key.name) {
            edit.value.apply(&mut policy).map_err(|value| Located { value, line: edit.line })?;
        }
    }
    policy.check().map_err(|error| {
        let culprits: &[&str] = match error {
            PolicyError::AlgorithmOfEventual => &["algorithm", "consistency"],
            PolicyError::BurstOfEventual => &["burst", "consistency"],
            _ => &["burst"],
        };
        let edit = culprits.iter().find_map(|name| own.edits.get(name));
        let line = edit.map(|edit| edit.line).or(own.quota.map(|quota| quota.line)).unwrap_or(line);
        Located { value: error.to_string(), line }
    })?;
    Ok(Some(policy))
}

/// Reads `100/min` or `unlimited`.
pub(crate) fn read_quota_value(reader: &mut YamlReader<'_>, node: &Node<'_>) -> Option<Located<Option<Quota>>> {
    let line = line_of(node);
    let value = match reader.text(node, "`quota`")? {
        "unlimited" => None,
        "tier" => {
            reader.refuse(line, "`quota: tier` is for rules alone; write a quota here, such as 100/min");
            return None;
        }
        text => Some(parse_quota(reader, line, text)?),
    };
    Some(Located { value, line })
}
