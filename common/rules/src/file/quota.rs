//! `quota:` of a rule: a quota, `tier`, `unlimited`, or one that a descriptor of the call holds.

use serde_json::{Value, json};

use super::unverified::warn_unverified;
use crate::schema::{self, Key, text};
use crate::settings::{Located, parse_quota, read_quota_value, warn_undeclared};
use crate::yaml::{Fields, YamlReader, line_of, scalar};
use tollgate_core::rules::{DescriptorSpec, Quota, Rule};

const FROM: [Key; 2] = [
    Key::new("from", "Descriptor whose value is the quota of the call.", text),
    Key::new("default", "Quota of calls without it.", schema::quota),
];

/// Returns the schema of a rule's quota.
pub(super) fn schema() -> Value {
    let from = schema::with_required(schema::object(FROM), &schema::names(&FROM));
    json!({ "anyOf": [schema::quota_or_unlimited(), { "const": "tier" }, from] })
}

/// Reads the quota of the rule itself; none if the rule states none, or `tier`. Such a rule has the quota of the tier,
/// or else that of `defaults`.
pub(super) fn read_quota(
    reader: &mut YamlReader<'_>,
    fields: &Fields<'_>,
    known: &[DescriptorSpec],
    rule: &mut Rule,
) -> Option<Located<Option<Quota>>> {
    let node = fields.get("quota")?;
    let line = line_of(node);
    match scalar(node) {
        Some("tier") => return None,
        Some(_) => return read_quota_value(reader, node),
        None => {}
    }
    let before = reader.problems.len();
    let from = reader.fields(node, "`quota`", &schema::names(&FROM));
    let name = reader.text_of(&from, "from");
    let default = from.get("default").and_then(|node| {
        let text = reader.text(node, "`default`")?;
        parse_quota(reader, line_of(node), text)
    });
    let Some((name, default)) = name.zip(default) else {
        if reader.problems.len() == before {
            let text = "a quota that a call brings needs both, such as { from: limit, default: 100/min }";
            reader.refuse(line, text);
        }
        return None;
    };
    warn_undeclared(reader, line, name, known);
    warn_unverified(reader, line, "this quota comes from", name, known);
    rule.quota_from = Some(name.into());
    Some(Located { value: Some(default), line })
}
