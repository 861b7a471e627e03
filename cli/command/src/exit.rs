//! End of a command: its exit code, and the form of an error.

use tollgate::{RulesFileError, StartError};
use tollgate_bus::BusError;
use tollgate_core::rules::problem::Problems;
use tollgate_redis::RedisAddressError;
use tollgate_rules::ShorthandError;

use crate::output::{self, one_sentence};

/// Exit code of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Done, or the call is allowed.
    Done = 0,
    /// Failed.
    Failed = 1,
    /// Wrong usage, or invalid rules.
    Usage = 2,
    /// The call is denied, or a dry run found a difference.
    Denied = 3,
    /// No agent answered.
    Unanswered = 4,
}

/// Wrong usage, with the remedy.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Usage(
    /// Text of the error.
    pub String,
);

/// Prints an error on standard error, and returns the exit code. Problems of rules begin with their place, so editors can jump to it.
#[must_use]
pub fn report(error: &anyhow::Error) -> Exit {
    let (exit, has_place) = kind(error);
    if has_place {
        output::note(format_args!("{error}"));
    } else {
        output::note(format_args!("error: {error:#}"));
    }
    exit
}

/// Logs an error, for programs that read the log, and returns the exit code.
#[must_use]
pub fn log(error: &anyhow::Error) -> Exit {
    tracing::error!("{}", one_sentence(&format!("{error:#}")));
    kind(error).0
}

/// Returns the exit code of an error, and true if its text begins with a place.
fn kind(error: &anyhow::Error) -> (Exit, bool) {
    let start_error = error.downcast_ref::<StartError>();
    let rules_error = match start_error {
        Some(StartError::Rules(error)) => Some(error),
        _ => error.downcast_ref::<RulesFileError>(),
    };
    let has_place = error.is::<Problems>() || matches!(rules_error, Some(RulesFileError::Invalid(_)));
    let is_usage = has_place
        || rules_error.is_some()
        || matches!(
            start_error,
            Some(
                StartError::NoRules
                    | StartError::Unenforceable(_)
                    | StartError::Cap { .. }
                    | StartError::Keys(_)
                    | StartError::Redis(_)
                    | StartError::Kafka(_)
            )
        )
        || matches!(error.downcast_ref(), Some(BusError::Setting { .. }))
        || error.is::<Usage>()
        || error.is::<ShorthandError>()
        || error.is::<RedisAddressError>();
    (if is_usage { Exit::Usage } else { Exit::Failed }, has_place)
}
