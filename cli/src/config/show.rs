//! `tollgate config`: the settings of a command and their origins.

use std::ffi::OsString;

use clap::parser::ValueSource;
use clap::{ArgMatches, Command};
use serde_json::json;

use super::{ConfigFile, key, layer};
use crate::exit::Exit;
use crate::output::{self, Format};
use crate::secret;

const SHOWN: [&str; 4] = ["agent", "aggregator", "up", "demo"];

/// Shows the settings of a command and their origins
///
/// The precedence is flag, TOLLGATE_* variable, key in --config FILE, default.
#[derive(clap::Args)]
pub(crate) struct ConfigArgs {
    /// Form of the output
    #[arg(long, env = "TOLLGATE_FORMAT", hide_env_values = true, default_value = "text")]
    format: Format,
    /// Command: agent, aggregator, up or demo
    #[arg(default_value = "agent", value_parser = SHOWN)]
    command: String,
    /// Flags of that command
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "FLAGS")]
    flags: Vec<OsString>,
}

pub(crate) fn run(args: &ConfigArgs, whole: &Command) -> anyhow::Result<Exit> {
    let mut line: Vec<OsString> = vec!["tollgate".into()];
    // The file may be named on this command line or on the one that is shown.
    if let Some(path) = super::path(&std::env::args_os().collect::<Vec<_>>()) {
        line.extend(["--config".into(), path.into_os_string()]);
    }
    line.push(args.command.clone().into());
    line.extend(args.flags.iter().cloned());
    let layered = layer(whole.clone(), line)?;
    secret::refuse_on_command_line(&layered.matches)?;
    let Some((_, matches)) = layered.matches.subcommand() else { return Ok(Exit::Usage) };
    let command = whole.find_subcommand(&args.command).expect("it was just run");
    let settings = settings(command, matches, layered.file.as_ref());
    match args.format {
        Format::Text => {
            let row = |setting: &ShownSetting| {
                let value = setting.value.clone().unwrap_or_else(|| "-".to_owned());
                [setting.key.clone(), value, setting.origin.clone()]
            };
            output::say(output::table(&["KEY", "VALUE", "FROM"], settings.iter().map(row)))?;
        }
        Format::Json => {
            let settings: Vec<_> = settings
                .into_iter()
                .map(|setting| json!({ "key": setting.key, "value": setting.value, "origin": setting.origin }))
                .collect();
            output::say(json!({ "command": args.command, "settings": settings }))?;
        }
    }
    Ok(Exit::Done)
}

struct ShownSetting {
    key: String,
    value: Option<String>,
    origin: String,
}

fn settings(command: &Command, matches: &ArgMatches, file: Option<&ConfigFile>) -> Vec<ShownSetting> {
    let mut settings = Vec::new();
    for arg in command.get_arguments() {
        let Some(long) = arg.get_long().filter(|long| !["help", "config"].contains(long)) else { continue };
        let key = key(long);
        let id = arg.get_id().as_str();
        let in_file = file.and_then(|file| Some((file, file.get(&key)?)));
        let origin = match (matches.value_source(id), in_file) {
            (Some(ValueSource::CommandLine), _) => format!("--{long}"),
            (Some(ValueSource::EnvVariable), _) => {
                arg.get_env().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
            }
            (Some(_), Some((file, setting))) => format!("{}:{}", file.path().display(), setting.line),
            (Some(_), None) => "default".to_owned(),
            (None, _) => String::new(),
        };
        let value = matches.get_raw(id).map(|values| {
            let values: Vec<String> = values.map(|value| secret::hidden(&value.to_string_lossy())).collect();
            values.join(", ")
        });
        settings.push(ShownSetting { key, value, origin });
    }
    settings
}
