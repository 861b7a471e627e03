//! `tollgate demo`: what Tollgate does, in ten seconds.

use std::io::{IsTerminal, stdout};

use crate::exit::Exit;

/// Shows a fleet of agents, an abuser and an outage, in ten seconds
#[derive(clap::Args)]
#[command(
    after_help = "Real agents, aggregator and bus in this process; no server is needed. Without a terminal it prints a line a second."
)]
pub(crate) struct Args {}

pub(crate) fn run(_: &Args) -> anyhow::Result<Exit> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let terminal = stdout().is_terminal();
    runtime.block_on(tollgate_experiments::demo::run(&mut stdout(), terminal))?;
    Ok(Exit::Done)
}
