//! Where settings come from: a flag, else an environment variable, else `--config tollgate.yaml`, else a default.
//!
//! Clap knows flags, variables and defaults, and what their values must be. A file's values become defaults before the
//! command line is read; so every flag has a key of its name, checked by the same code, and there is one order of
//! precedence.

mod file;
mod show;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{ArgMatches, Command};

use crate::exit::Usage;

pub(crate) use file::ConfigFile;
pub(crate) use show::Args;
pub(crate) use show::run;

/// The commands whose flags are keys of the file.
const CONFIGURED: [&str; 4] = ["agent", "aggregator", "up", "demo"];
const FLAG: &str = "--config";
const VARIABLE: &str = "TOLLGATE_CONFIG";

/// What a command line means together with the file it names.
pub(crate) struct Layered {
    pub(crate) matches: ArgMatches,
    pub(crate) file: Option<ConfigFile>,
}

/// Reads a command line and the file that it, or the environment, names.
///
/// # Errors
/// When the file cannot be read or holds what no command knows. A command line that makes no sense ends the process, as
/// clap does.
pub(crate) fn layer(command: Command, args: Vec<OsString>) -> anyhow::Result<Layered> {
    let file = path(&args).map(|path| ConfigFile::read(path, &keys(&command))).transpose()?;
    let command = match &file {
        Some(file) => CONFIGURED
            .iter()
            .fold(command, |command, name| command.mut_subcommand(name, |subcommand| with_defaults(subcommand, file))),
        None => command,
    };
    match command.try_get_matches_from(args) {
        Ok(matches) => Ok(Layered { matches, file }),
        Err(error) => match file.as_ref().and_then(|file| refused_value(&error, file)) {
            Some(text) => Err(Usage(text).into()),
            None => error.exit(),
        },
    }
}

/// The name by which a flag is a key.
fn key(long: &str) -> String {
    long.replace('-', "_")
}

/// Every key that some command knows.
fn keys(command: &Command) -> Vec<String> {
    let configured = command.get_subcommands().filter(|subcommand| CONFIGURED.contains(&subcommand.get_name()));
    let mut keys: Vec<String> =
        configured.flat_map(Command::get_arguments).filter_map(|arg| arg.get_long()).map(key).collect();
    keys.sort_unstable();
    keys.dedup();
    keys.retain(|key| key != "help");
    keys
}

fn with_defaults(command: Command, file: &ConfigFile) -> Command {
    let known: Vec<(String, Vec<String>)> = command
        .get_arguments()
        .filter_map(|arg| Some((arg.get_id().to_string(), file.get(&key(arg.get_long()?))?.values.clone())))
        .collect();
    known.into_iter().fold(command, |command, (id, values)| command.mut_arg(id, |arg| arg.default_values(values)))
}

/// The file that is named, before anything else is known of the command line.
fn path(args: &[OsString]) -> Option<PathBuf> {
    let mut args = args.iter().skip(1);
    while let Some(arg) = args.next() {
        if arg == FLAG {
            return args.next().map(PathBuf::from);
        }
        if let Some(path) = arg.to_str().and_then(|arg| arg.strip_prefix(FLAG)?.strip_prefix('=')) {
            return Some(path.into());
        }
    }
    std::env::var_os(VARIABLE).filter(|path| !path.is_empty()).map(PathBuf::from)
}

/// A value of the file that its flag would refuse, too: told with its place.
fn refused_value(error: &clap::Error, file: &ConfigFile) -> Option<String> {
    if !matches!(error.kind(), ErrorKind::ValueValidation | ErrorKind::InvalidValue) {
        return None;
    }
    let Some(ContextValue::String(flag)) = error.get(ContextKind::InvalidArg) else { return None };
    let Some(ContextValue::String(value)) = error.get(ContextKind::InvalidValue) else { return None };
    let name = key(flag.trim_start_matches("--").split([' ', '=']).next()?);
    let setting = file.get(&name).filter(|setting| setting.values.contains(value))?;
    let reason = std::error::Error::source(error).map_or_else(String::new, |source| format!(": {source}"));
    Some(format!("{}:{}: `{name}` cannot be `{value}`{reason}", file.path().display(), setting.line))
}
