//! Rules as they are published to a fleet: the text of a rules file. Each reader parses it itself (`tollgate_rules`).

/// Rules as they are published: one record of the topic `rules`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Published {
    /// Name of the file that the rules came from.
    pub name: String,
    /// Content of that file.
    pub text: String,
}
