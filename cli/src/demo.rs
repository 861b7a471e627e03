//! `tollgate demo`: a fleet, an abuser and an outage, in ten seconds.

use std::io::{ErrorKind, IsTerminal, stdout};

use tollgate_experiments::{ExperimentError, demo};

use crate::exit::Exit;
use crate::output;
use crate::serve;
use crate::servers::{KafkaArgs, RedisArgs};

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
}

pub(crate) fn run(args: &DemoArgs) -> anyhow::Result<Exit> {
    serve::block_on(async {
        let terminal = stdout().is_terminal();
        match demo::run(&mut stdout(), terminal, args.redis.settings(), args.kafka.settings()).await {
            Err(ExperimentError::Io(error))
                if matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::StorageFull) =>
            {
                output::written(Err(error))?;
                Ok(Exit::Done)
            }
            ended => Ok(ended.map(|()| Exit::Done)?),
        }
    })
}
