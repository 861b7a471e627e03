//! `tollgate-lab list`, `run` and `report`: scenarios in virtual time.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::Args;
use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{ArgMatches, Command, FromArgMatches};
use serde_json::json;
use tollgate_command::exit::{Exit, Usage};
use tollgate_command::output::note;
use tollgate_command::output::{Format, progress_bar, say, say_as, table};
use tollgate_command::servers::{KafkaArgs, RedisArgs};
use tollgate_files::read_text;

use super::live;
use crate::scenario::{Scenario, ScenarioResult};

/// Maximum length of the file of a scenario, in bytes.
const SCENARIO_LEN_MAX: usize = 1 << 20;

const ABOUT_RUN: &str = "\
Scenarios run in virtual time and need no server. A scenario is a TOML file with
a seed, parameters, and the ranges in which its numbers are expected. The files
of the program are in the folder experiments/scenarios of its source; copy one
to change it. The command exits with 1 if a number is outside its range. The
ranges are those of the file's seed; another seed may be a little outside.";

/// Maximum length of a result as JSON, in bytes.
const RESULT_LEN_MAX: usize = 16 << 20;
const ABOUT_REPORT: &str = "\
The page report.html contains its pictures and needs no other file. Beside it
are the results as JSON and the pictures as SVG. All are written after each
scenario; --resume goes on with those that are missing. With --live, the page also
shows accuracy and lag at the servers of --redis and --kafka, and failures of
servers that the command starts itself, if `scripts/servers` has installed
Kafka. The command exits with 1 if a number is outside its expected range, or
a bound of the failures is not kept.";

/// Prints the scenarios
#[derive(Args)]
pub(crate) struct ListArgs {
    /// Form of the list
    #[arg(long, value_enum, default_value = "text", env = "TOLLGATE_FORMAT")]
    format: Format,
}

/// Runs scenarios and compares their numbers with the expected ones
#[derive(Args)]
#[command(after_help = ABOUT_RUN)]
pub(crate) struct RunArgs {
    /// Scenario by its name, such as `approximations`, or by its file, such as `./mine.toml`
    #[arg(value_name = "NAME", required_unless_present = "all")]
    names: Vec<String>,
    /// All scenarios of the program
    #[arg(long, conflicts_with = "names")]
    all: bool,
    /// Seed of all that is random [default: that of the file]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Form of the results
    #[arg(long, value_enum, default_value = "text", env = "TOLLGATE_FORMAT")]
    format: Format,
}

/// Runs scenarios and writes a page with tables and plots
#[derive(Args)]
#[command(after_help = ABOUT_REPORT)]
pub(crate) struct ReportArgs {
    /// Scenarios of the page, by name or file [default: all of the program]
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// Folder of the report, which is created if it is missing
    #[arg(long, value_name = "DIR", default_value = "report")]
    out: PathBuf,
    /// Seed of all that is random [default: that of each file]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Takes over the results of this version that are in the folder, such as those of a run that was interrupted
    #[arg(long)]
    resume: bool,
    #[command(flatten)]
    servers: LiveServers,
}

/// Real servers of a report. Their flags need `--live`; their variables and their keys in a file may be set for other commands.
struct LiveServers(LiveFlags);

#[derive(Args)]
struct LiveFlags {
    /// Measures at real servers, too
    #[arg(long)]
    live: bool,
    #[command(flatten)]
    redis: RedisArgs,
    #[command(flatten)]
    kafka: KafkaArgs,
}

impl Args for LiveServers {
    fn augment_args(command: Command) -> Command {
        LiveFlags::augment_args(command)
    }

    fn augment_args_for_update(command: Command) -> Command {
        LiveFlags::augment_args_for_update(command)
    }
}

impl FromArgMatches for LiveServers {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let flags = LiveFlags::from_arg_matches(matches)?;
        let typed = |flag: &&str| matches.value_source(flag) == Some(ValueSource::CommandLine);
        match ["redis", "kafka"].into_iter().find(typed).filter(|_| !flags.live) {
            Some(flag) => {
                let text = format!("--{flag} is for the measurement at real servers; add --live, or leave it out\n");
                Err(clap::Error::raw(ErrorKind::MissingRequiredArgument, text))
            }
            None => Ok(Self(flags)),
        }
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

pub(super) fn list(args: &ListArgs) -> anyhow::Result<Exit> {
    let scenarios = Scenario::all();
    let rows = scenarios.iter().map(|Scenario { name, file, .. }| [name.clone(), file.title.clone()]);
    let json = scenarios
        .iter()
        .map(|Scenario { name, file, .. }| json!({"name": name, "title": file.title, "shows": file.shows}));
    let json = json!({ "scenarios": json.collect::<Vec<_>>() });
    say_as(args.format, table(&["NAME", "TITLE"], rows), json)?;
    Ok(Exit::Done)
}

pub(super) fn run(args: &RunArgs) -> anyhow::Result<Exit> {
    let scenarios = named(&args.names, args.seed)?;
    let (mut exit, mut json) = (Exit::Done, Vec::new());
    for (number, scenario) in scenarios.iter().enumerate() {
        let result = run_one(scenario)?;
        exit = if result.unexpected().is_empty() { exit } else { Exit::Failed };
        match args.format {
            Format::Text if number > 0 => say(format_args!("\n{result}"))?,
            Format::Text => say(&result)?,
            Format::Json => json.push(serde_json::to_value(result)?),
        }
    }
    if args.format == Format::Json {
        say(json!({ "results": json }))?;
    }
    Ok(exit)
}

pub(super) fn report(args: &ReportArgs) -> anyhow::Result<Exit> {
    let scenarios = named(&args.names, args.seed)?;
    // Missing servers, and a folder that cannot be written, are reported before the work.
    let LiveFlags { live, redis, kafka } = &args.servers.0;
    let servers = live.then(|| live::servers(redis, kafka)).transpose()?;
    crate::report::prepare(&args.out)?;
    // Servers that do not answer end the command before the scenarios.
    let live = servers.map(|(redis, kafka)| live::measurements(&redis, &kafka)).transpose()?;
    if live.is_some() {
        // The measurements are kept if the scenarios are interrupted.
        crate::report::write(&args.out, &[], live.as_ref())?;
    }
    let (mut results, count) = (Vec::new(), scenarios.len());
    for (number, scenario) in (1..).zip(&scenarios) {
        let path = args.out.join(format!("{}.json", scenario.name));
        let earlier = args.resume.then(|| read_text(&path, RESULT_LEN_MAX).ok()).flatten();
        let known = earlier.and_then(|json| scenario.known_result(&json));
        let state = if known.is_some() { "is there" } else { "runs" };
        note(format_args!("{number} of {count}: {} {state}", scenario.name));
        results.push(known.map_or_else(|| run_one(scenario), Ok)?);
        // What is finished stays if the rest is interrupted.
        crate::report::write(&args.out, &results, live.as_ref())?;
    }
    let page = crate::report::write(&args.out, &results, live.as_ref())?;
    say(page.display())?;
    let mut exit = Exit::Done;
    for broken in live.iter().filter_map(|live| live.failure.as_ref()).flat_map(|failure| &failure.run.broken) {
        note(format_args!("failing servers: {broken}"));
        exit = Exit::Failed;
    }
    for result in &results {
        for sentence in result.unexpected() {
            note(format_args!("scenario {}: {sentence}", result.name));
            exit = Exit::Failed;
        }
    }
    Ok(exit)
}

fn run_one(scenario: &Scenario) -> anyhow::Result<ScenarioResult> {
    let bar = progress_bar("{msg:18} {bar:40} {percent}%")?;
    let result = scenario.run(&bar);
    bar.finish_and_clear();
    Ok(result)
}

/// Returns the named scenarios or files, or all built-in ones if there are no names. A given seed replaces their own.
fn named(names: &[String], seed: Option<u64>) -> anyhow::Result<Vec<Scenario>> {
    let scenarios = if names.is_empty() { Scenario::all() } else { found(names)? };
    let seeded = |scenario: Scenario| match seed {
        Some(seed) => scenario.with_seed(seed),
        None => scenario,
    };
    Ok(scenarios.into_iter().map(seeded).collect())
}

fn found(names: &[String]) -> anyhow::Result<Vec<Scenario>> {
    let mut scenarios: Vec<Scenario> = Vec::new();
    for name in names {
        let scenario = find(name)?;
        // The files of a report have the names of its scenarios.
        if scenarios.iter().any(|other| other.name == scenario.name) {
            let twice = &scenario.name;
            bail!(Usage(format!(
                "{twice} is named twice; name it once, or run a copy of its file, such as ./{twice}-2.toml"
            )));
        }
        scenarios.push(scenario);
    }
    Ok(scenarios)
}

/// Returns the scenario of a name, or of a file.
fn find(name: &str) -> anyhow::Result<Scenario> {
    if name.contains('/') || Path::new(name).extension().is_some_and(|extension| extension == "toml") {
        let text = read_text(Path::new(name), SCENARIO_LEN_MAX)
            .context("cannot read the scenario; `tollgate-lab list` names those of the program")?;
        let stem = Path::new(name).file_stem().unwrap_or_default().to_string_lossy();
        return Ok(Scenario::parse(&stem, name, &text).map_err(|error| Usage(error.to_string()))?);
    }
    let all = Scenario::all();
    let names = all.iter().map(|scenario| scenario.name.clone()).collect::<Vec<_>>().join(", ");
    match all.into_iter().find(|scenario| scenario.name == name) {
        Some(scenario) => Ok(scenario),
        None => {
            bail!(Usage(format!("there is no scenario {name}; the scenarios are {names}, and ./FILE.toml runs a file")))
        }
    }
}
