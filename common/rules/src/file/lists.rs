//! `lists:`: callers that are never denied, and callers that always are.

use serde_json::{Value, json};

use super::patterns::read_matches;
use super::unverified::warn_unverified;
use crate::schema::{Key, names, object, reference};
use crate::yaml::{Node, YamlReader, is_list, line_of};
use tollgate_core::rules::{DescriptorSpec, Lists, Matches};

const LISTS: [Key; 2] = [
    Key::new("allow", "Callers that are counted and never denied.", entries),
    Key::new("deny", "Callers that are always denied.", entries),
];

/// Returns the schema of `lists`.
pub(super) fn schema() -> Value {
    object(LISTS)
}

fn entries() -> Value {
    json!({ "type": "array", "items": reference("matches") })
}

/// Adds the entries of one file.
pub(super) fn read_lists(reader: &mut YamlReader<'_>, node: &Node<'_>, known: &[DescriptorSpec], lists: &mut Lists) {
    let fields = reader.fields(node, "`lists`", &names(&LISTS));
    for (line, entry) in read_entries(reader, fields.get("allow"), "allow", known) {
        if entry.is_empty() {
            let text = "an empty entry allows every call, so nothing is limited; write whom it means, or remove it";
            reader.refuse(line, text);
            continue;
        }
        if entry.iter().all(|(_, pattern)| pattern.is_everything()) {
            reader.warn(line, "this entry allows whoever has the descriptor, whatever its value");
        }
        for (name, _) in &entry {
            warn_unverified(reader, line, &format!("the allow list rests on `{name}` from"), name, known);
        }
        lists.allow.push(entry);
    }
    for (line, entry) in read_entries(reader, fields.get("deny"), "deny", known) {
        if entry.iter().all(|(_, pattern)| pattern.is_everything()) {
            reader.refuse(line, "this entry denies every call; write what the values of those whom it means look like");
        }
        lists.deny.push(entry);
    }
}

fn read_entries(
    reader: &mut YamlReader<'_>,
    node: Option<&Node<'_>>,
    what: &str,
    known: &[DescriptorSpec],
) -> Vec<(usize, Matches)> {
    let Some(node) = node else { return Vec::new() };
    if !is_list(node) {
        let text = format!("`{what}` must be a list of entries, such as [{{ api_key: sk_internal_* }}]");
        reader.refuse(line_of(node), text);
        return Vec::new();
    }
    let mut entries = Vec::new();
    for item in reader.items(node, what) {
        let before = reader.problems.len();
        let entry = read_matches(reader, item, &format!("an entry of `{what}`"), known);
        // An entry with an error is dropped, so that its rest causes no second error.
        if reader.problems.len() == before {
            entries.push((line_of(item), entry));
        }
    }
    entries
}
