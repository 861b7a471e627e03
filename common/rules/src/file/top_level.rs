//! Top level of the files that together hold the rules: which keys are merged over the files, and which stand in one only.

use std::sync::Arc;

use serde_json::Value;

use crate::schema::text;
use crate::yaml::{Fields, Node, YamlReader, line_of};

/// Maximum number of characters of `owner`.
const OWNER_LEN_MAX: usize = 100;

/// Top-level keys of each file.
pub(super) struct TopLevel<'y> {
    files: Vec<OwnedFile<'y>>,
}

/// Top-level keys of a file, and its owner.
type OwnedFile<'y> = (Fields<'y>, Option<Arc<str>>);

/// Returns the schema of `owner`.
pub(super) fn owner_schema() -> Value {
    let mut owner = text();
    owner["pattern"] = format!("^.{{1,{OWNER_LEN_MAX}}}$").into();
    owner
}

fn read_owner(reader: &mut YamlReader<'_>, fields: &Fields<'_>) -> Option<Arc<str>> {
    let is_name = |text: &str| text.chars().count() <= OWNER_LEN_MAX && !text.chars().any(char::is_control);
    let name_of = |text: &str| is_name(text).then(|| text.into());
    let form = format!("one line of at most {OWNER_LEN_MAX} characters");
    fields.get("owner").and_then(|node| reader.parse_by(node, "`owner`", &form, name_of))
}

impl<'y> TopLevel<'y> {
    /// Reads the keys of each file, which must be known.
    pub(super) fn read(reader: &mut YamlReader<'_>, documents: &'y [Node<'y>], known: &[&str]) -> Self {
        let read = |document| {
            let fields = reader.fields(document, "the rules file", known);
            let owner = read_owner(reader, &fields);
            (fields, owner)
        };
        Self { files: documents.iter().map(read).collect() }
    }

    /// Returns the files in their order, each with its owner.
    pub(super) fn files(&self) -> &[OwnedFile<'y>] {
        &self.files
    }

    /// Names the owner of its file in each problem.
    pub(super) fn name_owners(&self, reader: &mut YamlReader<'_>) {
        let owner_at = |fields: &Fields<'_>| reader.place(fields.line());
        let owners = self.files.iter().filter_map(|(fields, owner)| Some((owner_at(fields), owner.as_deref()?)));
        let owners: Vec<(String, &str)> = owners.collect();
        let file_of = |place: &str| place.rsplit_once(':').map(|(file, _)| file.to_owned());
        for problem in reader.problems.iter_mut().chain(&mut reader.warnings) {
            let of_file = owners.iter().find(|(place, _)| file_of(place) == file_of(&problem.place));
            if let Some((_, owner)) = of_file {
                problem.text = format!("{} (owner: {owner})", problem.text);
            }
        }
    }

    /// Returns the values of a key, in the order of the files.
    pub(super) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'y Node<'y>> + 'a {
        self.files.iter().filter_map(move |(fields, _)| fields.get(name))
    }

    /// Returns the value of a key that may stand in one file only.
    pub(super) fn only(&self, reader: &mut YamlReader<'_>, name: &str) -> Option<&'y Node<'y>> {
        let mut found = self.all(name);
        let first = found.next()?;
        for other in found {
            let place = reader.place_seen_from(line_of(first), line_of(other));
            let text = format!("`{name}` stands in {place}, too, and is one for all files; write it in one of them");
            reader.refuse(line_of(other), text);
        }
        Some(first)
    }

    /// Returns the entries of a key that is merged over the files. Two files may have the same entry, but not two of one name.
    pub(super) fn merged(&self, reader: &mut YamlReader<'_>, name: &str) -> Vec<(&'y str, &'y Node<'y>)> {
        let mut merged: Vec<(&str, &Node<'_>)> = Vec::new();
        for node in self.all(name) {
            for (entry, node) in reader.mapping(node, &format!("`{name}`")).iter() {
                match merged.iter().find(|(known, _)| *known == entry) {
                    None => merged.push((entry, node)),
                    Some((_, known)) if *known == node => {}
                    Some((_, known)) => {
                        let place = reader.place_seen_from(line_of(known), line_of(node));
                        let text = format!(
                            "`{entry}` under `{name}` is written in another way in {place}; write it in one of the files, or alike"
                        );
                        reader.refuse(line_of(node), text);
                    }
                }
            }
        }
        merged
    }
}
