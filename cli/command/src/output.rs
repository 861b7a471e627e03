//! Standard output, which carries data; messages and progress go to standard error.
//!
//! A text may quote what a caller sent or a server answered. So the characters that control a terminal are escaped in all of
//! it: in the one way that all texts take, so that no command can forget it.

use std::borrow::Cow;
use std::fmt::{Display, Write as _};
use std::io::{self, ErrorKind, IsTerminal, Write, stderr};

use clap::ValueEnum;
use comfy_table::{ContentArrangement, Row, Table, presets};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tollgate_core::one_line::{is_unprintable, printable};

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
    // The last column of a table is filled up with blanks.
    let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    write_line(&printable(&lines.join("\n")))
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

/// Returns a text of several lines as one line.
#[must_use]
pub fn one_sentence(text: &str) -> String {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    lines.map(|line| line.trim_end_matches(';')).collect::<Vec<_>>().join("; ")
}

/// Writes the same data as text or as JSON.
///
/// # Errors
/// As [`written`].
pub fn say_as(format: Format, text: impl Display, json: impl Display) -> io::Result<()> {
    match format {
        Format::Text => say(text),
        Format::Json => say_json(json),
    }
}

/// Writes JSON. Characters that control a terminal are escaped as JSON does it: they can only stand in its texts.
///
/// # Errors
/// As [`written`].
pub fn say_json(json: impl Display) -> io::Result<()> {
    write_line(&printable_json(&json.to_string()))
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

fn write_line(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    written(writeln!(out, "{}", text.trim_end()).and_then(|()| out.flush()))
}

fn printable_json(json: &str) -> Cow<'_, str> {
    if !json.contains(|c| c != '\n' && is_unprintable(c)) {
        return Cow::Borrowed(json);
    }
    let mut escaped = String::with_capacity(json.len() + 8);
    for c in json.chars() {
        if c != '\n' && is_unprintable(c) {
            for unit in c.encode_utf16(&mut [0; 2]) {
                let _ = write!(escaped, "\\u{unit:04x}");
            }
        } else {
            escaped.push(c);
        }
    }
    Cow::Owned(escaped)
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

#[cfg(test)]
mod tests {
    use super::{one_sentence, printable_json};

    #[test]
    fn json_stays_the_same_value_and_holds_no_character_that_controls_a_terminal() {
        assert_eq!(
            printable_json("{\n  \"a\": \"\u{9b}2J\u{e0001}\"\n}"),
            "{\n  \"a\": \"\\u009b2J\\udb40\\udc01\"\n}"
        );
    }

    #[test]
    fn a_text_of_several_lines_is_one_line_without_signs_of_a_program() {
        assert_eq!(one_sentence("rules.yaml:1: a;\r\n  rules.yaml:2: b\n\n"), "rules.yaml:1: a; rules.yaml:2: b");
    }
}
