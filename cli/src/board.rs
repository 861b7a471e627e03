//! The live display of a command: a drawing that is replaced on a terminal, and plain lines elsewhere.

use std::io::{Result, Write};
use std::time::Duration;

use console::style;

pub(crate) struct Board<'a> {
    out: &'a mut (dyn Write + Send),
    pub(crate) is_terminal: bool,
    /// Time between two drawings on a terminal; lines are written once a second.
    redraw: Duration,
    drawn_lines: usize,
    shown_at: Duration,
}

impl<'a> Board<'a> {
    pub(crate) fn new(out: &'a mut (dyn Write + Send), is_terminal: bool, redraw: Duration) -> Self {
        Self { out, is_terminal, redraw, drawn_lines: 0, shown_at: Duration::ZERO }
    }

    /// Returns the time between two displays.
    pub(crate) fn interval(&self) -> Duration {
        if self.is_terminal { self.redraw } else { Duration::from_secs(1) }
    }

    /// Returns the time since the last display, which is now.
    pub(crate) fn since_shown(&mut self, at: Duration) -> Duration {
        at.saturating_sub(std::mem::replace(&mut self.shown_at, at))
    }

    /// Writes text that stays, and ends the line.
    pub(crate) fn write(&mut self, text: &str) -> Result<()> {
        self.wipe()?;
        writeln!(self.out, "{text}")?;
        self.out.flush()
    }

    /// Writes an event as a line of its own.
    pub(crate) fn event(&mut self, at: Duration, what: &str) -> Result<()> {
        let what = if self.is_terminal { style(what).bold().yellow().to_string() } else { what.to_owned() };
        self.write(&format!("{:>4.1} s  {what}", at.as_secs_f64()))
    }

    /// Replaces the drawing.
    pub(crate) fn draw(&mut self, text: &str) -> Result<()> {
        // One write: a terminal that shows the wiped screen in between flickers.
        let drawing = self.wiping() + text;
        self.drawn_lines = text.lines().count();
        self.out.write_all(drawing.as_bytes())?;
        self.out.flush()
    }

    /// Clears the whole terminal: one of another size has moved the drawing.
    pub(crate) fn clear(&mut self) -> Result<()> {
        self.drawn_lines = 0;
        // Cursor to the first place, then clear to the end of the screen (ECMA-48: CUP, ED).
        self.out.write_all(b"\x1b[H\x1b[J")
    }

    fn wipe(&mut self) -> Result<()> {
        let wiping = self.wiping();
        self.out.write_all(wiping.as_bytes())
    }

    /// Returns the codes that remove the drawing, which is then forgotten.
    fn wiping(&mut self) -> String {
        match std::mem::take(&mut self.drawn_lines) {
            0 => String::new(),
            // Cursor up by `lines`, then clear to the end of the screen (ECMA-48: CUU, ED).
            lines => format!("\x1b[{lines}A\x1b[J"),
        }
    }
}

/// Returns a bar that is as full as a part of a whole, padded to this many characters.
pub(crate) fn bar(part: u64, whole: u64, width: u64) -> String {
    let filled = usize::try_from(part.min(whole) * width / whole.max(1)).unwrap_or(0);
    format!("{:<1$}", "█".repeat(filled), usize::try_from(width).unwrap_or(0))
}
