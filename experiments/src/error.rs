//! Reasons why an experiment has no result.

use tollgate::StartError;
use tollgate_bus::BusError;
use tollgate_command::shared_servers::SharedServerError;
use tollgate_servers::ServerError;

/// Reason why an experiment has no result.
#[derive(Debug, thiserror::Error)]
pub enum ExperimentError {
    /// The parameters are not valid.
    #[error("{0}")]
    Plan(&'static str),
    /// A shared server does not answer.
    #[error(transparent)]
    Shared(#[from] SharedServerError),
    /// The bus refuses a setting, or does not answer.
    #[error(transparent)]
    Kafka(#[from] BusError),
    /// A server of the experiment does not run.
    #[error(transparent)]
    Server(#[from] ServerError),
    /// An agent did not start.
    #[error(transparent)]
    Agent(#[from] StartError),
    /// The agents received no signals.
    #[error("no signals came within 30 s; set TOLLGATE_LOG=info to read the logs of the agents and the aggregator")]
    Silence,
    /// The output or a thread failed.
    #[error("the output cannot be written, or a thread cannot be started: {0}")]
    Io(#[from] std::io::Error),
}
