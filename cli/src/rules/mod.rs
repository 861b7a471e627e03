//! `tollgate rules`: checks, shows, compares, describes, imports and publishes rules files. One file per subcommand.

mod exceptions;
mod bounds;
mod diff;
mod import;
mod published;
mod override_words;
mod draft;
mod override_rules;
mod change;
mod publish;
mod history;
mod status;
mod overrides;
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
    History(Box<history::HistoryArgs>),
    Get(Box<history::GetArgs>),
    Rollback(Box<history::RollbackArgs>),
    Status(Box<status::StatusArgs>),
    Override(Box<overrides::OverrideArgs>),
    Deny(Box<overrides::DenyArgs>),
    Allow(Box<overrides::AllowArgs>),
    Overrides(Box<overrides::OverridesArgs>),
}

pub(crate) fn run(command: &RulesCommand) -> anyhow::Result<Exit> {
    match command {
        RulesCommand::Validate(args) => validate::run(args),
        RulesCommand::Show(args) => show::run(args),
        RulesCommand::Diff(args) => diff::run(args),
        RulesCommand::Schema(args) => schema::run(args),
        RulesCommand::Import(args) => import::run(args),
        RulesCommand::Publish(args) => publish::run(args),
        RulesCommand::History(args) => history::history(args),
        RulesCommand::Get(args) => history::get(args),
        RulesCommand::Rollback(args) => history::rollback(args),
        RulesCommand::Status(args) => status::run(args),
        RulesCommand::Override(args) => overrides::override_quota(args),
        RulesCommand::Deny(args) => overrides::deny(args),
        RulesCommand::Allow(args) => overrides::allow(args),
        RulesCommand::Overrides(args) => overrides::list(args),
    }
}
