//! `tollgate rules`: checks, shows, compares, describes, imports and publishes rules files. One file per subcommand.

mod exceptions;
mod bounds;
mod diff;
mod import;
mod publish;
mod outage;
mod regions;
mod validate;
mod show;
mod schema;

use tollgate_command::exit::Exit;

/// Checks, shows, compares, imports and publishes rules files
#[derive(clap::Subcommand)]
pub(crate) enum RulesCommand {
    Validate(validate::ValidateArgs),
    Show(show::ShowArgs),
    Diff(diff::DiffArgs),
    Schema(schema::SchemaArgs),
    Import(import::ImportArgs),
    Publish(Box<publish::PublishArgs>),
}

pub(crate) fn run(command: &RulesCommand) -> anyhow::Result<Exit> {
    match command {
        RulesCommand::Validate(args) => validate::run(args),
        RulesCommand::Show(args) => show::run(args),
        RulesCommand::Diff(args) => diff::run(args),
        RulesCommand::Schema(args) => schema::run(args),
        RulesCommand::Import(args) => import::run(args),
        RulesCommand::Publish(args) => publish::run(args),
    }
}
