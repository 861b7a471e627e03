//! The live display of the demo: a table that is redrawn on a terminal, and one line per second elsewhere.

use std::fmt::Write as _;
use std::io::{Result, Write};
use std::time::Duration;

use console::style;

use super::record::{RegionFigures, RegionSummary};
use super::{QUOTA_UNITS, REGIONS, quota};
use crate::figures::count;

/// Width of the bar of a budget, in characters.
const BAR_WIDTH: u64 = 40;

pub(super) struct RegionBoard<'a> {
    out: &'a mut (dyn Write + Send),
    terminal: bool,
    drawn_lines: usize,
    drawn_at: Duration,
}

impl<'a> RegionBoard<'a> {
    pub(super) fn new(out: &'a mut (dyn Write + Send), terminal: bool) -> Self {
        Self { out, terminal, drawn_lines: 0, drawn_at: Duration::ZERO }
    }

    pub(super) fn begin(&mut self) -> Result<()> {
        writeln!(
            self.out,
            "{} regions, each with a store, a bus, an agent and an aggregator, share one quota\nof {} for a partner. Budgets of it move to the demand; the ledger is in {}.",
            REGIONS.len(),
            quota(),
            REGIONS[0]
        )?;
        if self.terminal {
            return writeln!(self.out);
        }
        writeln!(self.out, "A line shows the units of each region, and the calls that it admitted.\n")
    }

    pub(super) fn interval(&self) -> Duration {
        if self.terminal { Duration::from_millis(200) } else { Duration::from_secs(1) }
    }

    /// Writes an event as a line of its own.
    pub(super) fn event(&mut self, at: Duration, what: &str) -> Result<()> {
        self.wipe()?;
        let what = if self.terminal { style(what).bold().yellow().to_string() } else { what.to_owned() };
        writeln!(self.out, "{:>4.1} s  {what}", at.as_secs_f64())
    }

    /// Displays the figures since the last display.
    pub(super) fn show(
        &mut self,
        at: Duration,
        figures: &[RegionFigures; REGIONS.len()],
        cut_off: Option<usize>,
    ) -> Result<()> {
        let since_ms = at.saturating_sub(std::mem::replace(&mut self.drawn_at, at)).as_millis().max(1);
        let per_second = |number: u64| u128::from(number) * 1_000 / since_ms;
        if !self.terminal {
            let of = |(name, of): (&&str, &RegionFigures)| {
                let (admitted, made) = (per_second(of.admitted), per_second(of.admitted + of.denied));
                format!("  {name} {:>3} ({admitted:>3} of {made:>3}/s)", of.limit)
            };
            let regions: String = REGIONS.iter().zip(figures).map(of).collect();
            return writeln!(self.out, "{:>4.1} s{regions}", at.as_secs_f64());
        }
        let mut text = format!("\n  {:<3} {:<40} {:>6} {:>9} {:>8}\n", "", "budget", "units", "admitted", "denied");
        for (number, (name, of)) in REGIONS.iter().zip(figures).enumerate() {
            let filled = usize::try_from(of.limit.min(QUOTA_UNITS) * BAR_WIDTH / QUOTA_UNITS).unwrap_or(0);
            let bar = format!("{:<40}", "█".repeat(filled));
            let bar = if cut_off == Some(number) { style(bar).red() } else { style(bar).cyan() };
            let _ = writeln!(
                text,
                "  {name:<3} {bar} {:>6} {:>7}/s {:>6}/s",
                of.limit,
                per_second(of.admitted),
                per_second(of.denied)
            );
        }
        let sum: u64 = figures.iter().map(|of| of.limit).sum();
        let _ = writeln!(text, "  {:<3} {:<40} {sum:>6} of {QUOTA_UNITS}", "all", "");
        self.wipe()?;
        self.drawn_lines = text.lines().count();
        write!(self.out, "{text}")?;
        self.out.flush()
    }

    pub(super) fn end(&mut self, summary: &RegionSummary) -> Result<()> {
        self.wipe()?;
        let RegionSummary { calls, admitted, exact, fullest } = *summary;
        writeln!(
            self.out,
            "\nfullest window  {fullest} of {QUOTA_UNITS} units over all regions: {}\nadmitted        {} of {} calls; one store for all regions admits {}\nwithout budgets each region would have the whole quota: up to {} in a window",
            if summary.is_within() { "never over" } else { "OVER THE QUOTA" },
            count(admitted),
            count(calls),
            count(exact),
            count(QUOTA_UNITS * REGIONS.len() as u64),
        )?;
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
