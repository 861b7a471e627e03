//! `tollgate`: parses the command line, runs one file per command, and turns its result into an exit code.
//!
//! A new command is a file with `Args` and `run`, a variant of [`Command`] and an arm in [`run`].

#![deny(clippy::print_stdout, clippy::print_stderr)] // they panic when the reader of a pipe has ended

mod config;
mod limits;
mod digest_key;
mod serve;
mod tls;
mod listen;
mod surfaces;
mod process_metrics;
mod tokens;
mod operator_token;
mod sampled_part;
mod http_exchange;
mod otlp;
mod decision_log;
mod sample;
mod limited_calls;
mod local_regions;
mod board;
mod demo;
mod replay;
mod agent;
mod up_regions;
mod up;
mod ledger;
mod aggregator;
mod client;
mod check;
mod ready;
mod quota;
mod regions;
mod top;
mod rules;
mod experiment;
mod completions;
mod man;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use tollgate_command::exit::{self, Exit};
use tollgate_command::output::{self, Format};
use tollgate_command::unknown_variables::unknown_variables;
use tollgate_command::{command_line, logging};

/// Allocator that returns the memory of a flood to the system. That of glibc keeps it, because the few entries that stay
/// lie scattered over it. Huge pages keep it, too, and are off: after 100,000 callers of `tollgate up`, 39 MB stay without
/// them, and 63 MB with them (2026-11-26, AMD EPYC VM). jemalloc leaves 33 MB, but takes a sixth of a cold build.
#[cfg(target_os = "linux")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const START_HERE: &str = "\
Start here, no server is needed:
  tollgate demo                                a fleet, an abuser, an outage
  tollgate replay LOG --limit \"60/min per ip\"  the callers it would have limited
  tollgate up                                  a limiter on 127.0.0.1:8080";

/// Rate limiting for fleets of API gateways
#[derive(Parser)]
#[command(name = "tollgate", version, after_help = START_HERE, disable_help_subcommand = true)]
struct Cli {
    /// Settings, as YAML: each flag is a key
    #[arg(long, value_name = "FILE", global = true)]
    config: Option<PathBuf>,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    Demo(Box<demo::DemoArgs>),
    Replay(replay::ReplayArgs),
    Up(Box<up::UpArgs>),
    Agent(Box<agent::AgentArgs>),
    Aggregator(Box<aggregator::AggregatorArgs>),
    Check(check::CheckArgs),
    Quota(quota::QuotaArgs),
    Top(top::TopArgs),
    Ready(ready::ReadyArgs),
    Regions(regions::RegionsArgs),
    #[command(subcommand)]
    Rules(rules::RulesCommand),
    #[command(hide = true)]
    Experiment(experiment::ExperimentArgs),
    Config(config::ConfigArgs),
    DigestKey(digest_key::DigestKeyArgs),
    Completions(completions::CompletionsArgs),
    Man(man::ManArgs),
}

fn main() -> ExitCode {
    #[cfg(target_os = "linux")]
    tollgate_librdkafka::link();
    let args: Vec<OsString> = std::env::args_os().collect();
    let exit = match parse(&args) {
        Ok(cli) => run(cli).unwrap_or_else(|error| exit::report(&error)),
        Err(error) if logging::wants_json(&args) => {
            let _ = logging::start("info", Format::Json);
            exit::log(&error)
        }
        Err(error) => exit::report(&error),
    };
    ExitCode::from(exit as u8)
}

/// Returns the whole command line, with a variable for each flag.
fn command() -> clap::Command {
    command_line::with_variables(Cli::command())
}

/// Parses the command line, with the environment and the settings file below it.
fn parse(args: &[OsString]) -> anyhow::Result<Cli> {
    let (matches, _) = config::layer(command(), args)?;
    Cli::from_arg_matches(&matches).map_err(|error| error.exit())
}

fn run(cli: Cli) -> anyhow::Result<Exit> {
    let format = match &cli.command {
        Some(Command::Up(args)) => args.agent.log.log_format,
        Some(Command::Agent(args)) => args.log.log_format,
        Some(Command::Aggregator(args)) => args.log.log_format,
        _ => Format::Text,
    };
    let level = match &cli.command {
        // These commands draw tables and progress bars, which log lines would break.
        Some(Command::Demo(_) | Command::Top(_)) => "error",
        // Its error says what each attempt to connect would say.
        Some(Command::Rules(_)) => "info,tollgate_bus=off,rdkafka=off",
        _ => "info",
    };
    match logging::start(level, format) {
        Err(error) if format == Format::Json => return Ok(exit::log(&error.into())),
        started => started?,
    }
    // An empty variable is none.
    let given = std::env::vars_os().filter(|(_, value)| !value.is_empty());
    let names = given.filter_map(|(name, _)| name.into_string().ok());
    for (name, likely) in unknown_variables(&command(), names) {
        let remedy =
            likely.map_or("remove it".to_owned(), |likely| format!("set {likely} if this is meant, or remove it"));
        tracing::warn!(remedy, "no setting is named {name}, so it has no effect");
    }
    match execute(cli) {
        Err(error) if format == Format::Json => Ok(exit::log(&error)),
        ended => ended,
    }
}

fn execute(cli: Cli) -> anyhow::Result<Exit> {
    match cli.command {
        None => {
            output::say(command().render_help())?;
            Ok(Exit::Done)
        }
        Some(Command::Demo(args)) => demo::run(&args),
        Some(Command::Replay(args)) => replay::run(&args),
        Some(Command::Up(args)) => up::run(*args),
        Some(Command::Agent(args)) => agent::run(*args),
        Some(Command::Aggregator(args)) => aggregator::run(*args),
        Some(Command::Check(args)) => check::run(&args),
        Some(Command::Quota(args)) => quota::run(&args),
        Some(Command::Top(args)) => top::run(&args),
        Some(Command::Ready(args)) => ready::run(&args),
        Some(Command::Regions(args)) => regions::run(&args),
        Some(Command::Rules(command)) => rules::run(&command),
        Some(Command::Experiment(command)) => experiment::run(&command),
        Some(Command::Config(args)) => config::run(&args, &command()),
        Some(Command::DigestKey(args)) => digest_key::run(&args),
        Some(Command::Completions(args)) => completions::run(&args, &command()),
        Some(Command::Man(args)) => man::run(&args, command()),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    /// A variable that is exported for one command fits every other one.
    #[test]
    fn flags_with_one_variable_take_the_same_values() {
        fn collect(command: &clap::Command, forms: &mut HashMap<String, Vec<String>>) {
            for arg in command.get_arguments() {
                let Some(variable) = arg.get_env() else { continue };
                let form = format!("{:?} {:?}", arg.get_action(), arg.get_value_names());
                let forms = forms.entry(variable.to_string_lossy().into_owned()).or_default();
                if !forms.contains(&form) {
                    forms.push(form);
                }
            }
            command.get_subcommands().for_each(|command| collect(command, forms));
        }
        let mut forms = HashMap::new();
        collect(&command(), &mut forms);
        forms.retain(|_, forms| forms.len() > 1);
        assert!(forms.is_empty(), "give one of the flags another variable: {forms:#?}");
    }
}
