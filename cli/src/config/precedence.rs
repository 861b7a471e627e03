//! The layers of a command line: the values of the settings file below its flags and variables.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, ArgAction, ArgMatches, Command};
use tollgate_command::{command_line, secret};

use super::file::ConfigFile;

/// The commands whose flags are keys of the file, unless they have no variable; those of published rules are below `rules`.
const CONFIGURED: [&str; 14] = [
    "agent",
    "aggregator",
    "up",
    "demo",
    "ready",
    "publish",
    "get",
    "history",
    "rollback",
    "status",
    "override",
    "overrides",
    "deny",
    "allow",
];
const FLAG: &str = "--config";

/// Parses a command line and the settings file that it or the environment names.
///
/// # Errors
/// If the file cannot be read or contains unknown keys, or if the command line contains a password. A wrong command line
/// ends the process, as clap does.
pub(crate) fn layer(command: Command, args: &[OsString]) -> anyhow::Result<(ArgMatches, Option<ConfigFile>)> {
    let file = path(args).map(|path| ConfigFile::read(path, &keys(&command))).transpose()?;
    let command = match &file {
        Some(file) => with_defaults(command, file),
        None => command,
    };
    let explain = |error: &clap::Error| refused_value(error, args, file.as_ref()).or_else(|| conflict(error, args));
    let matches = command_line::parse(command, args, explain)?;
    Ok((matches, file))
}

pub(super) fn key(long: &str) -> String {
    long.replace('-', "_")
}

/// Returns all keys of the configured commands, and the actions of their flags.
fn keys(command: &Command) -> BTreeMap<String, ArgAction> {
    let mut found: BTreeMap<_, _> = command.get_subcommands().flat_map(keys).collect();
    if CONFIGURED.contains(&command.get_name()) {
        let flags = command.get_arguments().filter(|arg| !arg.is_hide_env_set());
        found.extend(flags.filter_map(|arg| Some((key(arg.get_long()?), arg.get_action().clone()))));
    }
    found
}

/// Makes the file's values the defaults of the configured commands.
fn with_defaults(command: Command, file: &ConfigFile) -> Command {
    let with_default = |arg: Arg| match arg.get_long().and_then(|long| file.settings.get(&key(long))) {
        Some(setting) if !arg.is_hide_env_set() => arg.default_values(setting.values.clone()),
        _ => arg,
    };
    let is_configured = CONFIGURED.contains(&command.get_name());
    let command = if is_configured { command.mut_args(with_default) } else { command };
    command.mut_subcommands(|inner| with_defaults(inner, file))
}

/// Returns the path of the settings file, before the command line is parsed.
pub(super) fn path(args: &[OsString]) -> Option<PathBuf> {
    let mut args = args.iter().skip(1);
    while let Some(arg) = args.next() {
        if arg == FLAG {
            return args.next().map(PathBuf::from);
        }
        if let Some(path) = arg.to_str().and_then(|arg| arg.strip_prefix(FLAG)?.strip_prefix('=')) {
            return Some(path.into());
        }
    }
    std::env::var_os("TOLLGATE_CONFIG").filter(|path| !path.is_empty()).map(PathBuf::from)
}

/// Returns the error of a refused value of the file or of a variable, with its place. A value that may be a secret is not
/// repeated.
fn refused_value(error: &clap::Error, args: &[OsString], file: Option<&ConfigFile>) -> Option<String> {
    if !matches!(error.kind(), ErrorKind::ValueValidation | ErrorKind::InvalidValue) {
        return None;
    }
    let Some(ContextValue::String(flag)) = error.get(ContextKind::InvalidArg) else { return None };
    let Some(ContextValue::String(value)) = error.get(ContextKind::InvalidValue) else { return None };
    let name = key(flag.trim_start_matches("--").split([' ', '=']).next()?);
    let reason = match (std::error::Error::source(error), error.get(ContextKind::ValidValue)) {
        (Some(source), _) => format!(": {source}"),
        (None, Some(ContextValue::Strings(words))) => format!(": write {}", words.join(" or ")),
        (None, _) => String::new(),
    };
    let in_file =
        file.and_then(|file| Some((file, file.settings.get(&name).filter(|setting| setting.values.contains(value))?)));
    let in_file = in_file.map(|(file, setting)| format!("{}:{}", file.path.display(), setting.line));
    let place = in_variable(&name, args).or(in_file);
    if secret::FLAGS.contains(&&*name) {
        let place = place.unwrap_or_else(|| format!("--{}", name.replace('_', "-")));
        return Some(format!("{place}: a value of `{name}` cannot be used{reason}"));
    }
    Some(format!("{}: `{name}` cannot be `{value}`{reason}", place?))
}

/// Returns the error of flags that exclude each other, if variables give some of them.
fn conflict(error: &clap::Error, args: &[OsString]) -> Option<String> {
    if error.kind() != ErrorKind::ArgumentConflict {
        return None;
    }
    let flags = [ContextKind::InvalidArg, ContextKind::PriorArg].into_iter().filter_map(|kind| error.get(kind));
    let flags = flags.flat_map(|flags| match flags {
        ContextValue::String(flag) => std::slice::from_ref(flag),
        ContextValue::Strings(flags) => flags,
        _ => &[],
    });
    let name = |flag: &str| flag.trim_start_matches("--").split([' ', '=']).next().map(key);
    let (mut variables, mut written) = (Vec::new(), Vec::new());
    for flag in flags {
        match in_variable(&name(flag)?, args) {
            Some(variable) => variables.push(variable),
            None => written.push(flag.split(' ').next().unwrap_or_default().to_owned()),
        }
    }
    let remedy = format!("run `unset {}`", variables.join(" "));
    let variables = variables.join(" and ");
    match &written[..] {
        _ if variables.is_empty() => None,
        [] => Some(format!("{variables} exclude each other; keep one of them, or {remedy}")),
        [flag] => Some(format!("{flag} excludes {variables} of the environment; {remedy}")),
        _ => None,
    }
}

/// Returns the variable that gives the value of a flag, if the command line does not.
fn in_variable(name: &str, args: &[OsString]) -> Option<String> {
    let flag = format!("--{}", name.replace('_', "-"));
    let is_flag = |arg: &OsString| {
        let rest = arg.to_str().and_then(|arg| arg.strip_prefix(&*flag));
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('='))
    };
    let variable = command_line::variable(name);
    let is_set = std::env::var_os(&variable).is_some_and(|value| !value.is_empty());
    (is_set && !args.iter().any(is_flag)).then_some(variable)
}
