//! Names of rules: the characters and the length that they may have.

use serde_json::Value;
use tollgate_core::call::NAME_LEN_MAX;

use crate::schema::text;
use crate::yaml::YamlReader;

pub(crate) fn is_name_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || "-_.:/ ".contains(c)
}

/// Returns the schema of a name.
pub(crate) fn form() -> Value {
    let mut form = text();
    form["pattern"] = format!("^[A-Za-z0-9_.:/ -]{{1,{NAME_LEN_MAX}}}$").into();
    form
}

/// Refuses a name that a rule must not have. `shown` is the name in the words of the file.
pub(crate) fn check_name(reader: &mut YamlReader<'_>, line: usize, name: &str, shown: &str) {
    if name.len() > NAME_LEN_MAX || !name.chars().all(is_name_char) {
        let text = format!("{shown}: write at most {NAME_LEN_MAX} letters, digits, spaces or any of - _ . : /");
        reader.refuse(line, text);
    }
}
