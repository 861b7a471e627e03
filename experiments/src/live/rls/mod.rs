//! Latency of the rate limit service for Envoy while Redis runs, is stopped and is killed, beside an echo.
//!
//! Each call goes to an agent in a process of its own and, at the same instant, to an echo in this process, which answers with the
//! bytes of the agent's first answer. Both share the machine with the load, so their difference is the time for a decision. A
//! call is measured from the instant at which it was due, so calls that a stall delays count as late (no coordinated omission).

mod plan;
mod request;
mod echo;
mod servers;
mod load;
mod report;

use std::path::Path;
use std::time::Duration;

use indicatif::ProgressBar;

use crate::error::ExperimentError;
use load::{RlsLoad, RlsTarget};
use plan::{RedisState, WARM_UP};
use report::StateLatency;
use servers::RlsServers;

pub use plan::RlsPlan;
pub use report::RlsReport;

/// Runs the measurement inside a tokio runtime. Redis and the agent are processes of these programs.
///
/// # Errors
/// If a server does not start or answer.
pub async fn run(
    redis_server: &str,
    tollgate: &Path,
    plan: RlsPlan,
    progress: &ProgressBar,
) -> Result<RlsReport, ExperimentError> {
    progress.set_length(RedisState::ALL.len() as u64);
    progress.set_message("the servers start");
    let mut servers = RlsServers::start(redis_server, tollgate)?;
    let agent = RlsTarget::connect(servers.grpc()).await?;
    let answer = agent.ask(request::of(0, &mut fastrand::Rng::with_seed(0))).await?;
    let echo = RlsTarget::connect(echo::start(answer).await?).await?;
    let load = RlsLoad { agent, echo, rate: plan.rate };
    let length = Duration::from_secs(plan.seconds.get().into());
    let mut states = Vec::new();
    for state in RedisState::ALL {
        progress.set_message(format!("Redis {}", state.name()));
        load.run(WARM_UP).await?;
        servers.bring(state);
        let latencies = load.run(length).await?;
        states.push(StateLatency::of(state, &latencies));
        servers.restore(state)?;
        progress.inc(1);
    }
    Ok(RlsReport::new(plan, states))
}
