//! `tollgate-lab live`: measurements on real servers, in real time.

mod progress;
mod servers;
mod lag;
mod accuracy;
mod failure;
mod rls;
mod measurements;

use clap::Subcommand;
use tollgate_command::exit::Exit;
use tollgate_command::threads;

use accuracy::AccuracyArgs;
use failure::FailureArgs;
use lag::LagArgs;
use rls::RlsArgs;

pub(super) use measurements::measurements;
pub(super) use servers::servers;

#[derive(Subcommand)]
pub(crate) enum LiveCommand {
    Lag(LagArgs),
    Accuracy(AccuracyArgs),
    Failure(FailureArgs),
    Rls(RlsArgs),
}

pub(super) fn run(command: &LiveCommand) -> anyhow::Result<Exit> {
    match command {
        LiveCommand::Lag(args) => threads::block_on(lag::run(args)),
        LiveCommand::Accuracy(args) => threads::block_on(accuracy::run(args)),
        LiveCommand::Failure(args) => threads::block_on(failure::run(args)),
        LiveCommand::Rls(args) => threads::block_on(rls::run(args)),
    }
}
