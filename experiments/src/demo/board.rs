//! The demo's live display: a table that is redrawn on a terminal, and one line per second elsewhere.

use std::fmt::Write as _;
use std::io::{Result, Write};
use std::time::Duration;

use console::style;
use indicatif::HumanCount;
use tollgate::{Quota, Source};

use super::load;
use super::record::Figures;
use super::summary::Summary;
use crate::replay::percent;

/// Width of the bar of a source, in characters.
const BAR_WIDTH: u64 = 30;

pub(super) struct Board<'a> {
    out: &'a mut (dyn Write + Send),
    terminal: bool,
    /// Addresses of the real servers, if there are any.
    servers: Vec<String>,
    drawn_lines: usize,
    drawn_at: Duration,
    /// Figures since the last plain line.
    pending: Figures,
}

impl<'a> Board<'a> {
    pub(super) fn new(out: &'a mut (dyn Write + Send), terminal: bool, servers: Vec<String>) -> Self {
        Self { out, terminal, servers, drawn_lines: 0, drawn_at: Duration::ZERO, pending: Figures::default() }
    }

    pub(super) fn begin(&mut self, agents: u32, callers: u32, quota: Quota) -> Result<()> {
        writeln!(
            self.out,
            "{agents} agents over one store limit {callers} callers and one abuser to {quota} each;\nthe aggregator counts every call."
        )?;
        if self.servers.is_empty() {
            return writeln!(self.out, "At 4 s the store becomes unavailable, at 7 s it recovers.\n");
        }
        writeln!(
            self.out,
            "They run over {}, under names of this run only.\nFrom 4 s to 7 s no agent in this process reaches the store; the servers run on.\n",
            self.servers.join(" and ")
        )
    }

    /// Writes an event as a line of its own.
    pub(super) fn event(&mut self, at: Duration, what: &str) -> Result<()> {
        self.wipe()?;
        let what = if self.terminal { style(what).bold().yellow().to_string() } else { what.to_owned() };
        writeln!(self.out, "{:>4.1} s  {what}", at.as_secs_f64())
    }

    pub(super) fn show(&mut self, at: Duration, view: &Figures, store_is_up: bool) -> Result<()> {
        self.pending.add(view);
        let since = at.saturating_sub(self.drawn_at);
        if !self.terminal && at.as_secs() == self.drawn_at.as_secs() {
            return Ok(());
        }
        let seconds = since.as_secs_f64().max(0.001);
        let view = std::mem::take(&mut self.pending);
        self.drawn_at = at;
        if self.terminal { self.draw(at, &view, seconds, store_is_up) } else { self.line(at, &view, seconds) }
    }

    pub(super) fn end(&mut self, summary: &Summary) -> Result<()> {
        self.wipe()?;
        writeln!(self.out, "\n{summary}")?;
        self.out.flush()
    }

    fn line(&mut self, at: Duration, view: &Figures, seconds: f64) -> Result<()> {
        let mut line = format!("{:>4.1} s  {:>5} calls/s ", at.as_secs_f64(), per_second(view.calls(), seconds));
        let (admitted, denied) = (per_second(view.allowed, seconds), per_second(view.denied, seconds));
        let _ = write!(line, " {admitted:>5} admitted/s  {denied:>4} denied/s  by");
        for source in Source::ALL {
            let count = view.by_source[source as usize];
            if count > 0 {
                let _ = write!(line, " {source} {}", percent(count, view.calls()));
            }
        }
        if let Some((caller, calls, denied)) = view.top.first() {
            let _ = write!(line, "  top {} {calls} ({denied} denied)", load::key(*caller));
        }
        writeln!(self.out, "{line}  signal lag {} ms", view.lag_p50_ms)
    }

    fn draw(&mut self, at: Duration, view: &Figures, seconds: f64, store_is_up: bool) -> Result<()> {
        let store = if store_is_up { style("up").green() } else { style("down").red().bold() };
        let mut text = format!(
            "{:>4.1} s   {:>5} calls/s   {:>5} admitted/s   {:>4} denied/s\n         store {store}   signal lag {} ms\n\n",
            at.as_secs_f64(),
            per_second(view.calls(), seconds),
            per_second(view.allowed, seconds),
            per_second(view.denied, seconds),
            view.lag_p50_ms
        );
        for source in Source::ALL {
            let count = view.by_source[source as usize];
            let filled = usize::try_from(count * BAR_WIDTH / view.calls().max(1)).unwrap_or(0);
            let bar = format!("{:<30}", "█".repeat(filled));
            let _ = writeln!(text, "  {source:<9} {}  {:>6}", style(bar).cyan(), percent(count, view.calls()));
        }
        let _ = writeln!(text, "\n  {:<12} {:>7} {:>7}", "top callers", "calls", "denied");
        for (caller, calls, denied) in &view.top {
            let _ = writeln!(
                text,
                "  {:<12} {:>7} {:>7}",
                load::key(*caller),
                HumanCount(*calls).to_string(),
                HumanCount(*denied).to_string()
            );
        }
        self.wipe()?;
        self.drawn_lines = text.lines().count();
        write!(self.out, "{text}")?;
        self.out.flush()
    }

    /// Erases the last drawing.
    fn wipe(&mut self) -> Result<()> {
        match std::mem::take(&mut self.drawn_lines) {
            0 => Ok(()),
            // Cursor up by `lines`, then clear to the end of the screen (ECMA-48: CUU, ED).
            lines => write!(self.out, "\x1b[{lines}A\x1b[J"),
        }
    }
}

impl Figures {
    fn calls(&self) -> u64 {
        self.allowed + self.denied
    }

    /// Adds the figures of a later interval. The top callers are those of the later one.
    fn add(&mut self, later: &Self) {
        self.allowed += later.allowed;
        self.denied += later.denied;
        for (sum, count) in self.by_source.iter_mut().zip(later.by_source) {
            *sum += count;
        }
        self.top.clone_from(&later.top);
        self.lag_p50_ms = later.lag_p50_ms;
    }
}

#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "shown to people"
)]
fn per_second(count: u64, seconds: f64) -> u64 {
    (count as f64 / seconds).round() as u64
}
