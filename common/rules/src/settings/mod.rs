//! Settings of a rule: one table with the name, levels, algorithms, parser and display of each.
//!
//! `TABLE` drives everything that knows settings by name: the fields that each level accepts, their schema, the hints for unknown
//! fields, the refusals of settings that have no effect, the parts and JSON of `rules validate`, the lines of
//! `rules diff`, and the policies in `/explain`. A new setting is one entry there, and a field of
//! `LimitPolicy` or [`Rule`]. `layer` merges the settings of several levels into a policy; `show` collects their display.
//! Deliberately left out: the structure around settings (`match`, `per`, tiers, lists), which `file` reads.

mod policy_edit;
mod show;
mod setting;
mod policy_values;
mod burst;
mod costs;
mod own_answer;
mod table;
mod shown;
mod level;
mod layer;
mod global_scope;
mod without_effect;
#[cfg(test)]
mod tests;

use tollgate_core::rules::{DescriptorSpec, Rule};

use crate::yaml::{Fields, YamlReader, line_of};

pub(crate) use costs::{check_costs, warn_undeclared};
pub(crate) use global_scope::{complete_global, global_defaults, refuse_not_global};
pub(crate) use layer::{Layer, Located, read_quota_value, resolve};
pub(crate) use level::schema_beside_deny;
pub(crate) use policy_values::parse_quota;
pub(crate) use setting::Level;
use setting::{Setting, ValueParser};
pub use show::{ALGORITHM_COLUMN, QUOTA_COLUMN, Shown};
use table::present;
pub(crate) use without_effect::WithoutEffect;

/// Reads the settings of a rule itself, or those of all rules among the defaults; those of a policy are read by [`Layer::read`].
pub(crate) fn read_rule_values(
    reader: &mut YamlReader<'_>,
    fields: &Fields<'_>,
    level: Level,
    known: &[DescriptorSpec],
    rule: &mut Rule,
) {
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
        let name = setting.key.name;
        let text = format!("a rule with `deny: true` counts nothing and takes no `{name}`; remove one of the two");
        reader.refuse(line_of(node), text);
    }
}
