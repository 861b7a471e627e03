//! Command lines with an environment variable for each flag, and without passwords.

use std::borrow::Cow;
use std::ffi::OsString;
use std::io::Write;
use std::num::NonZeroU32;

use clap::builder::Resettable;
use clap::{Arg, ArgMatches, Command};
use tollgate_core::one_line::printable;

use crate::exit::{Exit, Usage};
use crate::logging::wants_json;
use crate::output::{self, one_sentence};
use crate::secret;

/// Returns the environment variable of a flag, by the flag's key: `TOLLGATE_STATE_DIR` for `state_dir`.
#[must_use]
pub fn variable(key: &str) -> String {
    format!("TOLLGATE_{}", key.to_uppercase())
}

/// Parses a number above 0.
///
/// # Errors
/// If it is none.
pub fn positive(text: &str) -> Result<NonZeroU32, &'static str> {
    text.parse().map_err(|_| "write a whole number from 1 to 4294967295")
}

/// Gives each flag the variable of its name, unless it hides it (`hide_env`). Empty variables are ignored, because container and environment files unset a
/// variable that way.
#[must_use]
pub fn with_variables(command: Command) -> Command {
    let with_variable = |arg: Arg| {
        if arg.get_env().is_some() || arg.get_long().is_none() || arg.is_hide_env_set() {
            return arg;
        }
        let variable = variable(arg.get_id().as_str());
        arg.env(variable).hide_env_values(true)
    };
    let is_empty = |arg: &Arg| arg.get_env().and_then(std::env::var_os).is_some_and(|value| value.is_empty());
    command
        .mut_args(with_variable)
        .mut_args(|arg| if is_empty(&arg) { arg.env(Resettable::Reset) } else { arg })
        .mut_subcommands(with_variables)
}

/// Parses a command line. `explain` returns a better text for an error of clap, if it has one.
///
/// # Errors
/// If `explain` has a text, the command line contains a password, or the log is JSON. Another wrong command line ends the process, as
/// clap does.
pub fn parse(
    command: Command,
    args: &[OsString],
    explain: impl FnOnce(&clap::Error) -> Option<String>,
) -> anyhow::Result<ArgMatches> {
    match command.try_get_matches_from(args) {
        Ok(matches) => {
            secret::refuse_on_command_line(&matches)?;
            Ok(matches)
        }
        // A help text or the version, which clap would end with 0 even if nobody can read it.
        Err(error) if !error.use_stderr() => {
            output::written(error.print().and_then(|()| std::io::stdout().flush()))?;
            std::process::exit(Exit::Done as i32)
        }
        Err(error) => {
            if let Some(text) = explain(&error) {
                return Err(Usage(text).into());
            }
            if wants_json(args) {
                let text = error.render().to_string();
                return Err(Usage(one_sentence(text.trim_start_matches("error: "))).into());
            }
            end(&error, args)
        }
    }
}

/// Ends the process with an error of clap. An error about arguments with control characters has neither these nor colors.
fn end(error: &clap::Error, args: &[OsString]) -> ! {
    let is_hostile = |arg: &OsString| matches!(printable(&arg.to_string_lossy()), Cow::Owned(_));
    if args.iter().any(is_hostile) {
        output::note(error.render().to_string().trim_end());
        std::process::exit(error.exit_code());
    }
    error.exit()
}
