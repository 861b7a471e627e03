//! `tollgate rules`: looks into rules files, and publishes them.

mod import;
mod publish;
mod validate;

use crate::exit::Exit;

/// Looks into rules files, and publishes them
#[derive(clap::Subcommand)]
pub(crate) enum Command {
    Validate(validate::Args),
    Import(import::Args),
    Publish(publish::Args),
}

pub(crate) fn run(command: &Command) -> anyhow::Result<Exit> {
    match command {
        Command::Validate(args) => validate::run(args),
        Command::Import(args) => import::run(args),
        Command::Publish(args) => publish::run(args),
    }
}
