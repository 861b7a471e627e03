//! `tollgate`: reads the command line, hands over to one file per command, and turns what became of it into an exit code.
//!
//! A new command is a file with `Args` and `run`, a variant of [`Command`] and an arm in [`run`].

mod exit;
mod output;
mod logging;
mod limits;
mod sample;
mod demo;
mod replay;
mod up;
mod check;
mod rules;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

use crate::exit::Exit;

const START_HERE: &str = "\
Start here, no server is needed:
  tollgate demo                                a fleet, an abuser, an outage
  tollgate replay LOG --limit \"60/min per ip\"  whom it would have limited
  tollgate up                                  a limiter on 127.0.0.1:8080";

/// Rate limiting for fleets of API gateways
#[derive(Parser)]
#[command(name = "tollgate", version, after_help = START_HERE, disable_help_subcommand = true)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    Demo(demo::Args),
    Replay(replay::Args),
    Up(up::Args),
    Check(check::Args),
    #[command(subcommand)]
    Rules(rules::Command),
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    // The demo tells itself what happens, on a table that logs would tear.
    let shows_itself = matches!(cli.command, Some(Command::Demo(_)));
    logging::start(if shows_itself { "error" } else { "info" });
    match run(cli) {
        Ok(exit) => exit.into(),
        Err(error) => exit::report(&error).into(),
    }
}

fn run(cli: Cli) -> anyhow::Result<Exit> {
    match cli.command {
        None => {
            output::say(Cli::command().render_help())?;
            Ok(Exit::Done)
        }
        Some(Command::Demo(args)) => demo::run(&args),
        Some(Command::Replay(args)) => replay::run(&args),
        Some(Command::Up(args)) => up::run(args),
        Some(Command::Check(args)) => check::run(&args),
        Some(Command::Rules(command)) => rules::run(&command),
    }
}
