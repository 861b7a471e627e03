//! Standard output, where data goes; talk goes to standard error.

use std::fmt::Display;
use std::io::{self, ErrorKind, Write};

use clap::ValueEnum;

/// In which form data is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people.
    Text,
    /// One JSON object, for programs.
    Json,
}

/// Writes text and ends the line. Whoever reads may have read enough: a closed pipe is no error.
pub(crate) fn say(text: impl Display) -> io::Result<()> {
    let text = text.to_string();
    let mut out = io::stdout().lock();
    match writeln!(out, "{}", text.trim_end()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}
