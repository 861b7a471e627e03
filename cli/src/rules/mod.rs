//! `tollgate rules`: looks into rules files, and publishes them.

mod diff;
mod import;
mod publish;
mod validate;
mod show;

use crate::exit::Exit;

/// Looks into rules files, and publishes them
#[derive(clap::Subcommand)]
pub(crate) enum RulesCommand {
    Validate(validate::Args),
    Show(show::Args),
    Diff(diff::Args),
    Import(import::Args),
    Publish(publish::Args),
}

pub(crate) fn run(command: &RulesCommand) -> anyhow::Result<Exit> {
    match command {
        RulesCommand::Validate(args) => validate::run(args),
        RulesCommand::Show(args) => show::run(args),
        RulesCommand::Diff(args) => diff::run(args),
        RulesCommand::Import(args) => import::run(args),
        RulesCommand::Publish(args) => publish::run(args),
    }
}
