//! `tollgate rules`: checks, shows, compares, imports and publishes rules files. One file per subcommand.

mod diff;
mod import;
mod publish;
mod validate;
mod show;

use comfy_table::{Table, presets};

use crate::exit::Exit;

/// Checks, shows, compares, imports and publishes rules files
#[derive(clap::Subcommand)]
pub(crate) enum RulesCommand {
    Validate(validate::ValidateArgs),
    Show(show::ShowArgs),
    Diff(diff::DiffArgs),
    Import(import::ImportArgs),
    Publish(publish::PublishArgs),
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

/// Builds a table without borders.
fn table<R: Into<comfy_table::Row>>(header: &[&str], rows: impl IntoIterator<Item = R>) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_header(header).add_rows(rows);
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    table
}
