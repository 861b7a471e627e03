//! `tollgate ready`: asks a running agent or aggregator whether it is ready, for health checks where no other program is,
//! as in the image.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::Value;
use tollgate_command::exit::Exit;
use tollgate_command::output;
use tollgate_listen::Address;

use crate::client::{self, TlsClientArgs};

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
    #[command(flatten)]
    tls: TlsClientArgs,
}

pub(crate) fn run(args: &ReadyArgs) -> anyhow::Result<Exit> {
    let http = if args.tls.is_used() { certified(&args.http) } else { args.http.clone() };
    let Some(answer) = client::ready(&http, &args.tls, WAIT)? else { return Ok(Exit::Unanswered) };
    if answer["ready"] == true {
        output::say("ready")?;
        return Ok(Exit::Done);
    }
    let missing = answer["missing"].as_array().into_iter().flatten().filter_map(Value::as_str);
    output::say(format_args!("not ready: {}", missing.collect::<Vec<_>>().join("; ")))?;
    Ok(Exit::Failed)
}

/// Returns the address by which a certificate names a process that listens on all addresses.
fn certified(http: &str) -> String {
    match http.parse::<SocketAddr>() {
        Ok(all) if all.ip().is_unspecified() => format!("localhost:{}", all.port()),
        _ => http.to_owned(),
    }
}

/// Parses a URL, or an address to listen on.
fn address(text: &str) -> Result<String, String> {
    if text.contains("://") { Ok(text.to_owned()) } else { Address::parse(text).map(|address| address.to_string()) }
}
