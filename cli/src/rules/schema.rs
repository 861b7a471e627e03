//! `tollgate rules schema`: prints the JSON Schema of the rules file, for editors.

use tollgate_command::exit::Exit;
use tollgate_command::output;

/// Prints the JSON Schema of the rules file, by which editors complete and check it
///
/// An editor with yaml-language-server uses it if the first line of the rules file is
/// `# yaml-language-server: $schema=rules.schema.json`, with the path of the printed schema.
#[derive(clap::Args)]
pub(crate) struct SchemaArgs {}

pub(crate) fn run(_: &SchemaArgs) -> anyhow::Result<Exit> {
    output::say_json(format_args!("{:#}", tollgate_rules::json_schema()))?;
    Ok(Exit::Done)
}
