//! Threads of a command.

use anyhow::Context;

/// Runs a command on threads of its own.
///
/// # Errors
/// If the command fails, or the system provides no threads.
pub fn block_on<T>(command: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    tokio::runtime::Runtime::new().context("cannot start threads")?.block_on(command)
}
