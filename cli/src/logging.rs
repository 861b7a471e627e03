//! Logs on standard error, filtered by `TOLLGATE_LOG`.

use std::io::{IsTerminal, stderr};

use tracing_subscriber::EnvFilter;

const VARIABLE: &str = "TOLLGATE_LOG";

/// Starts logging with the filter of the variable, or with the default.
pub(crate) fn start(default: &str) {
    let text = std::env::var(VARIABLE).unwrap_or_default();
    let (filter, refused) = match EnvFilter::try_new(if text.is_empty() { default } else { &text }) {
        Ok(filter) => (filter, None),
        Err(error) => (EnvFilter::new(default), Some(error)),
    };
    let colours = stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    tracing_subscriber::fmt().with_writer(stderr).with_ansi(colours).with_target(false).with_env_filter(filter).init();
    if let Some(error) = refused {
        tracing::warn!(
            "{VARIABLE} is not understood, `{default}` is used: {error}; write info, debug or tollgate=debug"
        );
    }
}
