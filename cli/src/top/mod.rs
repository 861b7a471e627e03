//! `tollgate top`: the calls of a fleet in a terminal, from the API of an aggregator.
//!
//! `api` asks, `state` keeps the answers and the choices of the person, `frame` draws both as lines, and `screen` owns the
//! terminal. Everything but `screen` and `watch` is a pure function, so tests need no terminal.

mod api;
mod cells;
mod state;
mod sparkline;
mod tables;
mod frame;
mod keyboard;
mod screen;
mod watch;

use std::io::{IsTerminal, stdout};

use clap::builder::NonEmptyStringValueParser;
use tollgate_command::exit::Exit;
use tollgate_command::output::{self, Format};
use tollgate_command::threads;
use tollgate_core::clock::{Clock, SystemClock};

use crate::client::{NoAnswer, TlsClientArgs};
use api::{Aggregators, TopOrder, TopQuestion};
use cells::Glyphs;
use frame::{FrameSize, frame};
use state::TopState;

const ABOUT: &str = "\
It asks an aggregator under /api/v1, once a second. In a terminal, keys sort the
callers by denials (d), calls (c), use of their quota (n) or first denial (w).
r shows one rule after the other, arrows and PgUp/PgDn scroll, q ends it.
Without a terminal it prints one frame.";

/// Shows the calls of a fleet: the rules, the callers with the most denials, the agents
///
/// Exit code: 0 done, 4 no aggregator answered.
#[derive(clap::Args)]
#[command(after_help = ABOUT)]
pub(crate) struct TopArgs {
    /// Address of the aggregator [default: 127.0.0.1:8090, or else `tollgate up` on 8080]
    #[arg(long, value_name = "URL", value_parser = NonEmptyStringValueParser::new())]
    aggregator: Option<String>,
    #[command(flatten)]
    tls: TlsClientArgs,
    /// Prints one frame and ends
    #[arg(long)]
    once: bool,
    /// Only the calls and callers of this rule
    #[arg(long, value_name = "NAME")]
    rule: Option<String>,
    /// Minutes whose calls are summed for callers
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u8).range(1..=60))]
    minutes: u8,
    /// Order of the callers
    #[arg(long, default_value = "denied")]
    sort: TopOrder,
    /// Form of the output; JSON is one object with the answers of the aggregator
    #[arg(long, default_value = "text")]
    format: Format,
}

pub(crate) fn run(args: &TopArgs) -> anyhow::Result<Exit> {
    let mut aggregators = Aggregators::new(args.aggregator.as_deref(), &args.tls)?;
    let question = TopQuestion { order: args.sort, rule: args.rule.clone(), minutes: args.minutes };
    threads::block_on(async {
        let data = match aggregators.ask(&question).await {
            Ok(data) => data,
            Err(NoAnswer::Refused(why)) => anyhow::bail!(why),
            Err(NoAnswer::Silent(why)) => {
                output::note(format_args!(
                    "error: no aggregator answers at {why}; start one with `tollgate up` or `tollgate aggregator`, or name another with --aggregator"
                ));
                return Ok(Exit::Unanswered);
            }
        };
        if args.format == Format::Json {
            output::say_json(data.to_json())?;
            return Ok(Exit::Done);
        }
        let glyphs = Glyphs::of_environment(|name| std::env::var(name).ok());
        let is_live = !args.once && stdout().is_terminal() && std::env::var("TERM").is_ok_and(|name| name != "dumb");
        let state = TopState::new(question, data, is_live);
        if is_live {
            watch::watch(aggregators, state, glyphs).await?;
        } else {
            let size = if stdout().is_terminal() { screen::size() } else { FrameSize::default() };
            let lines = frame(&state, size, glyphs, SystemClock::start().now());
            output::say(lines.into_iter().map(|(_, text)| text + "\n").collect::<String>())?;
        }
        Ok(Exit::Done)
    })
}
