//! Standard output, which carries data; messages go to standard error.

use std::fmt::Display;
use std::io::{self, ErrorKind, Write};

use clap::ValueEnum;

/// Form of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Text for people.
    Text,
    /// One JSON object, for programs.
    Json,
}

/// Writes text and ends the line. A closed pipe is not an error, because the reader may have read enough.
pub(crate) fn say(text: impl Display) -> io::Result<()> {
    let text = text.to_string();
    let mut out = io::stdout().lock();
    match writeln!(out, "{}", text.trim_end()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}
