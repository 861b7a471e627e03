//! The command line of `tollgate-lab`.

mod live;
mod scenarios;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use tollgate_command::command_line;
use tollgate_command::exit::{self, Exit};
use tollgate_command::logging;
use tollgate_command::output::{self, Format};

use live::LiveCommand;
use scenarios::{ListArgs, ReportArgs, RunArgs};

const START_HERE: &str = "\
Start here, no server is needed:
  tollgate-lab list        the experiments
  tollgate-lab run lag     one of them
  tollgate-lab report      all of them, as a page with plots";

/// Measures how late and how wrong each way of limiting is
#[derive(Parser)]
#[command(name = "tollgate-lab", version, after_help = START_HERE, disable_help_subcommand = true)]
struct Lab {
    #[command(subcommand)]
    command: Option<LabCommand>,
}

#[derive(Subcommand)]
enum LabCommand {
    List(ListArgs),
    Run(RunArgs),
    Report(ReportArgs),
    /// Runs on real servers, in real time
    #[command(subcommand)]
    Live(LiveCommand),
}

/// Runs the command line of the process, and returns its exit code.
#[must_use]
pub fn main() -> Exit {
    run().unwrap_or_else(|error| exit::report(&error))
}

fn run() -> anyhow::Result<Exit> {
    let command = command_line::with_variables(Lab::command());
    let matches = command_line::parse(command.clone(), &std::env::args_os().collect::<Vec<_>>(), |_| None)?;
    let lab = Lab::from_arg_matches(&matches).map_err(|error| error.exit())?;
    // Log lines would break tables and progress bars.
    logging::start("error", Format::Text)?;
    match lab.command {
        None => {
            output::say(command.clone().render_help())?;
            Ok(Exit::Done)
        }
        Some(LabCommand::List(args)) => scenarios::list(&args),
        Some(LabCommand::Run(args)) => scenarios::run(&args),
        Some(LabCommand::Report(args)) => scenarios::report(&args),
        Some(LabCommand::Live(command)) => live::run(&command),
    }
}
