//! Parts of a command line that `tollgate` and `tollgate-lab` share: output, exit codes, logs, variables, and the flags that
//! name servers.

#![deny(clippy::print_stdout, clippy::print_stderr)] // they panic when the reader of a pipe has ended

pub mod output;
pub mod exit;
pub mod logging;
pub mod secret;
pub mod command_line;
pub mod unknown_variables;
pub mod threads;
pub mod servers;
pub mod shared_servers;
