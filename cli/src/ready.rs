//! `tollgate ready`: asks a running agent or aggregator whether it is ready, for health checks where no other program is,
//! as in the image.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;
use tollgate_command::exit::Exit;
use tollgate_command::output;
use tollgate_listen::Address;

use crate::client;

/// Maximum time for an answer.
const WAIT: Duration = Duration::from_secs(2);

/// Asks a running agent or aggregator whether it is ready
///
/// It reads the same variable and the same key of --config as the process, so both find one address. Exit code: 0 ready,
/// 1 not ready, 4 no answer.
#[derive(clap::Args)]
pub(crate) struct ReadyArgs {
    /// Address on which the process listens, or its URL
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8080", value_parser = address)]
    http: String,
    /// Issuers of its certificate, in PEM, to ask over TLS
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
}

pub(crate) fn run(args: &ReadyArgs) -> anyhow::Result<Exit> {
    let Some(answer) = client::ready(&args.http, args.ca.as_deref(), WAIT)? else { return Ok(Exit::Unanswered) };
    if answer["ready"] == true {
        output::say("ready")?;
        return Ok(Exit::Done);
    }
    let missing = answer["missing"].as_array().into_iter().flatten().filter_map(Value::as_str);
    output::say(format_args!("not ready: {}", missing.collect::<Vec<_>>().join("; ")))?;
    Ok(Exit::Failed)
}

/// Parses a URL, or an address to listen on.
fn address(text: &str) -> Result<String, String> {
    if text.contains("://") { Ok(text.to_owned()) } else { Address::parse(text).map(|address| address.to_string()) }
}
