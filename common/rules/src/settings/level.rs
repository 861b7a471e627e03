//! Mappings of each level: their reader, and their schema. Both have the settings that the table names for the level.

use serde_json::{Value, json};

use super::setting::{Level, Setting};
use super::table::TABLE;
use crate::schema;
use crate::yaml::{Fields, Node, YamlReader};

impl Level {
    /// Reads a mapping of this level: its fields, without the values that have parsers of their own.
    pub(crate) fn read<'y>(self, reader: &mut YamlReader<'_>, node: &'y Node<'y>) -> Fields<'y> {
        let what = match self {
            Self::Defaults => "`defaults`",
            Self::Exception => "a tier",
            Self::Rule | Self::DenyingRule | Self::Unlimited => "a rule",
        };
        reader.fields(node, what, &self.settings().map(|setting| setting.key.name).collect::<Vec<_>>())
    }

    /// Returns the schema of a mapping of this level.
    pub(crate) fn schema(self) -> Value {
        schema::object(self.settings().map(|setting| setting.key))
    }

    fn settings(self) -> impl Iterator<Item = &'static Setting> {
        TABLE.iter().filter(move |setting| setting.levels.contains(&self))
    }
}

/// Returns the schema of the settings that a rule with `deny: true` must not have.
pub(crate) fn schema_beside_deny() -> Value {
    let without_effect = Level::Rule.settings().filter(|setting| !setting.levels.contains(&Level::DenyingRule));
    let refused: serde_json::Map<_, _> =
        without_effect.map(|setting| (setting.key.name.to_owned(), false.into())).collect();
    json!({ "properties": refused })
}
