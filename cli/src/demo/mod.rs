//! `tollgate demo`: a fleet, an abuser and an outage, in ten seconds; `--regions`: one quota over three regions.

mod record;
mod load;
mod fleet;
mod regions;

use std::io::{self, ErrorKind, IsTerminal, stdout};

use tollgate_command::exit::Exit;
use tollgate_command::output;
use tollgate_command::servers::{KafkaArgs, RedisArgs};
use tollgate_command::threads;

const ABOUT: &str = "\
Real agents and a real aggregator run in this process. No server is needed.
With --redis, --kafka or both, they use real servers. Each run then has its own
names there: the prefixes, `demo-` and a number. It deletes its topics at the
end, and its keys in Redis expire within seconds. The outage is a switch in this
process, also with real servers, which keep running. Without a terminal, the
demo prints a line a second.";

/// Shows a fleet of agents, an abuser and an outage, in ten seconds
#[derive(clap::Args)]
#[command(after_help = ABOUT)]
pub(crate) struct DemoArgs {
    #[command(flatten)]
    redis: RedisArgs,
    #[command(flatten)]
    kafka: KafkaArgs,
    /// Shows one quota over three regions instead, in twenty seconds and in memory
    #[arg(long, env = "TOLLGATE_DEMO_REGIONS", conflicts_with_all = ["redis", "kafka"])]
    regions: bool,
}

pub(crate) fn run(args: &DemoArgs) -> anyhow::Result<Exit> {
    threads::block_on(async {
        let terminal = stdout().is_terminal();
        let shown = if args.regions {
            regions::run(&mut stdout(), terminal).await
        } else {
            fleet::run(&mut stdout(), terminal, args.redis.settings(), args.kafka.settings()).await
        };
        if let Err(error) = shown {
            let error = error.downcast::<io::Error>()?;
            match error.kind() {
                ErrorKind::BrokenPipe | ErrorKind::StorageFull => output::written(Err(error))?,
                _ => return Err(error.into()),
            }
        }
        Ok(Exit::Done)
    })
}
