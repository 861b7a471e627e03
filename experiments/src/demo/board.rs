//! The demo's live display: a table that is redrawn on a terminal, and one line per second elsewhere.

use std::fmt::Write as _;
use std::io::{Result, Write};
use std::time::Duration;

use console::style;
use tollgate::Source;

use super::record::Figures;
use super::summary::Summary;
use super::{AGENTS, CALLERS, load, quota};
use crate::figures::{count, percent, wrapped};

/// Width of the bar of a source, in characters.
const BAR_WIDTH: u64 = 30;

pub(super) struct Board<'a> {
    out: &'a mut (dyn Write + Send),
    terminal: bool,
    /// Addresses of the real servers, if there are any.
    servers: Vec<String>,
    drawn_lines: usize,
    drawn_at: Duration,
}

impl<'a> Board<'a> {
    pub(super) fn new(out: &'a mut (dyn Write + Send), terminal: bool, servers: Vec<String>) -> Self {
        Self { out, terminal, servers, drawn_lines: 0, drawn_at: Duration::ZERO }
    }

    pub(super) fn begin(&mut self) -> Result<()> {
        writeln!(
            self.out,
            "{AGENTS} agents over one store limit {CALLERS} callers and one abuser to {} each;\nthe aggregator counts every call.",
            quota()
        )?;
        if self.servers.is_empty() {
            return writeln!(self.out, "At 4 s the store becomes unavailable, at 7 s it recovers.\n");
        }
        writeln!(
            self.out,
            "{}\nunder names of this run only. From 4 s to 7 s no agent in this process reaches\nthe store; the servers run on.\n",
            wrapped(&format!("They run over {},", self.servers.join(" and ")))
        )
    }

    pub(super) fn interval(&self) -> Duration {
        if self.terminal { Duration::from_millis(250) } else { Duration::from_secs(1) }
    }

    /// Writes an event as a line of its own.
    pub(super) fn event(&mut self, at: Duration, what: &str) -> Result<()> {
        self.wipe()?;
        let what = if self.terminal { style(what).bold().yellow().to_string() } else { what.to_owned() };
        writeln!(self.out, "{:>4.1} s  {what}", at.as_secs_f64())
    }

    /// Displays the figures since the last display.
    pub(super) fn show(&mut self, at: Duration, view: &Figures, store_is_up: bool) -> Result<()> {
        let since = at.saturating_sub(std::mem::replace(&mut self.drawn_at, at));
        let calls = view.allowed + view.denied;
        let [made, admitted, denied] =
            [calls, view.allowed, view.denied].map(|count| u128::from(count) * 1_000 / since.as_millis().max(1));
        let at = at.as_secs_f64();
        if self.terminal {
            let rates = format!("{at:>4.1} s   {made:>5} calls/s   {admitted:>5} admitted/s   {denied:>4} denied/s");
            return self.draw(&rates, calls, view, store_is_up);
        }
        let lag = view.lag_p50_ms;
        let mut text = format!("{at:>4.1} s  {made:>5} calls/s  {admitted:>5} admitted/s  {denied:>4} denied/s");
        let _ = write!(text, "  signal lag {lag} ms\n        by");
        for (source, count) in Source::ALL.into_iter().zip(view.by_source).filter(|(_, count)| *count > 0) {
            let _ = write!(text, " {source} {}", percent(count, calls));
        }
        if let Some((caller, (calls, denied))) = view.top.first() {
            let _ = write!(text, "\n        top {} {calls} ({denied} denied)", load::key(*caller));
        }
        writeln!(self.out, "{text}")
    }

    pub(super) fn end(&mut self, summary: &Summary) -> Result<()> {
        self.wipe()?;
        writeln!(self.out, "\n{summary}")?;
        self.out.flush()
    }

    fn draw(&mut self, rates: &str, calls: u64, view: &Figures, store_is_up: bool) -> Result<()> {
        let store = if store_is_up { style("up").green() } else { style("down").red().bold() };
        let mut text = format!("{rates}\n         store {store}   signal lag {} ms\n\n", view.lag_p50_ms);
        for (source, count) in Source::ALL.into_iter().zip(view.by_source) {
            let filled = usize::try_from(count * BAR_WIDTH / calls.max(1)).unwrap_or(0);
            let bar = format!("{:<30}", "█".repeat(filled));
            let _ = writeln!(text, "  {source:<9} {}  {:>6}", style(bar).cyan(), percent(count, calls));
        }
        let _ = writeln!(text, "\n  {:<12} {:>7} {:>7}", "top callers", "calls", "denied");
        for (caller, (calls, denied)) in &view.top {
            let _ = writeln!(text, "  {:<12} {:>7} {:>7}", load::key(*caller), count(*calls), count(*denied));
        }
        self.wipe()?;
        self.drawn_lines = text.lines().count();
        write!(self.out, "{text}")?;
        self.out.flush()
    }

    fn wipe(&mut self) -> Result<()> {
        match std::mem::take(&mut self.drawn_lines) {
            0 => Ok(()),
            // Cursor up by `lines`, then clear to the end of the screen (ECMA-48: CUU, ED).
            lines => write!(self.out, "\x1b[{lines}A\x1b[J"),
        }
    }
}
