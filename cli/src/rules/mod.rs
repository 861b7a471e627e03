//! `tollgate rules`: looks into rules files, and publishes them.

mod diff;
mod import;
mod publish;
mod validate;
mod show;

use crate::exit::Exit;

/// Looks into rules files, and publishes them
#[derive(clap::Subcommand)]
pub(crate) enum Command {
    Validate(validate::Args),
    Show(show::Args),
    Diff(diff::Args),
    Import(import::Args),
    Publish(publish::Args),
}

pub(crate) fn run(command: &Command) -> anyhow::Result<Exit> {
    match command {
        Command::Validate(args) => validate::run(args),
        Command::Show(args) => show::run(args),
        Command::Diff(args) => diff::run(args),
        Command::Import(args) => import::run(args),
        Command::Publish(args) => publish::run(args),
    }
}
