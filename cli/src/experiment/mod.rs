//! `tollgate experiment`: measurements in virtual time and on real servers.

mod live;
mod scenarios;

use clap::Subcommand;

use crate::exit::Exit;
use live::LiveCommand;
#[cfg(feature = "report")]
use scenarios::ReportArgs;
use scenarios::{ListArgs, RunArgs};

/// Measures how late and how wrong each way of limiting is
#[derive(Subcommand)]
pub(crate) enum ExperimentCommand {
    List(ListArgs),
    Run(RunArgs),
    #[cfg(feature = "report")]
    Report(ReportArgs),
    /// Runs on real servers, in real time
    #[command(subcommand)]
    Live(LiveCommand),
}

pub(crate) fn run(command: &ExperimentCommand) -> anyhow::Result<Exit> {
    match command {
        ExperimentCommand::List(args) => scenarios::list(args),
        ExperimentCommand::Run(args) => scenarios::run(args),
        #[cfg(feature = "report")]
        ExperimentCommand::Report(args) => scenarios::report(args),
        ExperimentCommand::Live(command) => live::run(command),
    }
}
