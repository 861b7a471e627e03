//! Latency of the rate limit service for Envoy while Redis runs, is stopped and is killed, beside an echo.
//!
//! Each call goes to an agent in a process of its own and, at the same instant, to an echo in this process, which answers with the
//! bytes of the agent's first answer. Both share the machine with the load, so their difference is the time for a decision. A
//! call is measured from the instant at which it was due, so calls that a stall delays count as late (no coordinated omission).

mod request;
mod echo;
mod servers;
mod load;
mod report;

use std::num::NonZeroU32;
use std::time::Duration;

use indicatif::ProgressBar;

use crate::error::ExperimentError;
use load::{Load, Target};
use report::StateLatency;
use servers::RlsServers;

pub use report::RlsReport;

/// Time in which a rule waits for Redis.
const DEADLINE: Duration = Duration::from_millis(15);
/// Calls before the measurement, which open leases and connections.
const WARM_UP: Duration = Duration::from_secs(2);

/// Size of the measurement.
#[derive(Clone, Copy, Debug)]
pub struct RlsPlan {
    /// Calls per second, to the agent and to the echo each.
    pub rate: NonZeroU32,
    /// Seconds in each state of Redis.
    pub seconds: NonZeroU32,
}

/// State of Redis during a part of the measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RedisState {
    Running,
    Stopped,
    Killed,
}

impl RedisState {
    const ALL: [Self; 3] = [Self::Running, Self::Stopped, Self::Killed];

    fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Stopped => "stopped",
            Self::Killed => "killed",
        }
    }
}

/// Runs the measurement inside a tokio runtime. Redis and the agent are processes of these programs.
///
/// # Errors
/// If a server does not start or answer.
pub async fn run(
    redis_server: &str,
    tollgate: &std::path::Path,
    plan: RlsPlan,
    progress: &ProgressBar,
) -> Result<RlsReport, ExperimentError> {
    progress.set_length(RedisState::ALL.len() as u64);
    progress.set_message("servers start");
    let mut servers = RlsServers::start(redis_server, tollgate)?;
    let agent = Target::connect(servers.grpc()).await?;
    let answer = agent.ask(request::of(0, &mut fastrand::Rng::with_seed(0))).await?;
    let echo = Target::connect(echo::start(answer).await?).await?;
    let load = Load { agent, echo, rate: plan.rate };
    load.run(WARM_UP, || ()).await?;
    let mut states = Vec::new();
    for state in RedisState::ALL {
        progress.set_message(format!("Redis {}", state.name()));
        let measured = load.run(Duration::from_secs(plan.seconds.get().into()), || servers.bring(state)).await?;
        states.push(StateLatency::of(state, &measured));
        servers.restore(state)?;
        load.run(WARM_UP, || ()).await?;
        progress.inc(1);
    }
    Ok(RlsReport::new(plan, states))
}
