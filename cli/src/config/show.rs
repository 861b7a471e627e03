//! `tollgate config`: the settings of a command and their origins.

use std::ffi::OsString;

use clap::parser::ValueSource;
use clap::{ArgMatches, Command};
use comfy_table::ContentArrangement;
use serde_json::{Value, json};
use tollgate_command::exit::Exit;
use tollgate_command::output::{self, Format};
use tollgate_command::secret;

use super::ConfigFile;
use super::precedence::{key, layer, path};
use super::rollup_bytes::{bytes_per_caller_and_day, sentence};

const SHOWN: [&str; 4] = ["agent", "aggregator", "up", "demo"];

/// Shows the settings of a command and their origins
///
/// The precedence is flag, TOLLGATE_* variable, key in --config FILE, default.
#[derive(clap::Args)]
pub(crate) struct ConfigArgs {
    /// Form of the output
    #[arg(long, default_value = "text")]
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
    if let Some(path) = path(&std::env::args_os().collect::<Vec<_>>()) {
        line.extend(["--config".into(), path.into_os_string()]);
    }
    line.push(args.command.clone().into());
    line.extend(args.flags.iter().cloned());
    let (matches, file) = layer(whole.clone(), &line)?;
    let Some((_, matches)) = matches.subcommand() else { return Ok(Exit::Usage) };
    let command = whole.find_subcommand(&args.command).expect("it was just run");
    let settings = settings(command, matches, file.as_ref());
    let cells =
        |setting: &Value| ["key", "value", "origin"].map(|name| setting[name].as_str().unwrap_or("-").to_owned());
    let mut table = output::table(&["KEY", "VALUE", "FROM"], settings.iter().map(cells));
    // A wrapped path or address could not be copied.
    table.set_content_arrangement(ContentArrangement::Disabled);
    let mut json = json!({ "command": args.command, "settings": settings });
    let mut text = table.to_string();
    if args.command == "aggregator" {
        json["rollups_bytes_per_caller_and_day"] = bytes_per_caller_and_day().into();
        text = format!("{text}\n{}", sentence());
    }
    output::say_as(args.format, text, json)?;
    Ok(Exit::Done)
}

/// Returns key, value and origin of each setting.
fn settings(command: &Command, matches: &ArgMatches, file: Option<&ConfigFile>) -> Vec<Value> {
    let mut settings = Vec::new();
    for arg in command.get_arguments() {
        let Some(long) = arg.get_long().filter(|long| !["help", "config"].contains(long)) else { continue };
        let key = key(long);
        let id = arg.get_id().as_str();
        let in_file = file.and_then(|file| Some((file, file.settings.get(&key)?)));
        // The help names a default that is not a value of the flag, such as a random name.
        let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
        let default = help.split_once("[default: ").map(|(_, rest)| rest.trim_end_matches(']').to_owned());
        let origin = match (matches.value_source(id), in_file) {
            (Some(ValueSource::CommandLine), _) => format!("--{long}"),
            (Some(ValueSource::EnvVariable), _) => {
                arg.get_env().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
            }
            (Some(_), Some((file, setting))) => format!("{}:{}", file.path.display(), setting.line),
            (Some(_), None) => "default".to_owned(),
            (None, _) => default.as_ref().map_or_else(String::new, |_| "default".to_owned()),
        };
        let value = matches.get_raw(id).map(|values| {
            let values: Vec<String> = values.map(|value| secret::shown(id, &value.to_string_lossy())).collect();
            values.join(", ")
        });
        let value = value.or(default);
        settings.push(json!({ "key": key, "value": value, "origin": origin }));
    }
    settings
}
