//! Standard output, which carries data; messages and progress go to standard error.

use std::fmt::Display;
use std::io::{self, ErrorKind, IsTerminal, Write, stderr};

use clap::ValueEnum;
use comfy_table::{ContentArrangement, Row, Table, presets};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tollgate_core::one_line::printable;

/// Width of a table for people, in characters.
const WIDTH_MAX: u16 = 80;

/// Form of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Text for people.
    Text,
    /// One JSON object, for programs.
    Json,
}

/// Writes text and ends the line. Control characters are escaped, because a text may repeat a log or a server's answer.
///
/// # Errors
/// As [`written`].
pub fn say(text: impl Display) -> io::Result<()> {
    let text = text.to_string();
    let mut out = io::stdout().lock();
    written(writeln!(out, "{}", printable(text.trim_end())).and_then(|()| out.flush()))
}

/// Names standard output in the error of writing to it. A closed pipe is not an error, because the reader may have read
/// enough.
///
/// # Errors
/// If writing failed for another reason.
pub fn written(result: io::Result<()>) -> io::Result<()> {
    result.or_else(|error| match error.kind() {
        ErrorKind::BrokenPipe => Ok(()),
        kind => Err(io::Error::new(kind, format!("cannot write to standard output: {error}; direct it elsewhere"))),
    })
}

/// Writes text as a limiter does: if that fails, the log has the text, and the limiter goes on.
pub fn announce(text: impl Display) {
    if let Err(error) = say(&text) {
        tracing::warn!("{error}; this line was for it: {text}");
    }
}

/// Writes a message to standard error, with its control characters escaped. A failure is ignored, because there is no other place to report it.
pub fn note(text: impl Display) {
    let _ = writeln!(stderr(), "{}", printable(&text.to_string()));
}

/// Writes the same data as text or as JSON.
///
/// # Errors
/// As [`written`].
pub fn say_as(format: Format, text: impl Display, json: impl Display) -> io::Result<()> {
    match format {
        Format::Text => say(text),
        Format::Json => say(json),
    }
}

/// Builds a table without borders. Long cells are wrapped, so that it is at most 80 characters wide.
pub fn table<R: Into<Row>>(header: &[&str], rows: impl IntoIterator<Item = R>) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_header(header).add_rows(rows);
    table.set_content_arrangement(ContentArrangement::Dynamic).set_width(WIDTH_MAX);
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    table
}

/// Returns a progress bar that is visible on a terminal only.
///
/// # Errors
/// If the template is not valid.
pub fn progress_bar(template: &str) -> anyhow::Result<ProgressBar> {
    let target = if stderr().is_terminal() { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
    let bar = ProgressBar::with_draw_target(Some(0), target);
    bar.set_style(ProgressStyle::with_template(template)?);
    Ok(bar)
}
