//! Records of the topic `rules`: the text of a rules file. Each reader parses it with `tollgate_rules`.

/// Rule set as published: one record of the topic `rules`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Published {
    /// Name of the source file.
    pub name: String,
    /// Content of the source file.
    pub text: String,
}
