//! The demo's text: an introduction, budgets that move, and the summary.

use std::fmt::Write as _;
use std::io::Result;
use std::time::Duration;

use console::style;
use tollgate_sim::figures::count;

use super::record::{RegionFigures, RegionSummary};
use super::story::{QUOTA_UNITS, REGIONS, quota};
use crate::board::{Board, bar};

/// Width of the bar of a budget, in characters.
const BAR_WIDTH: u64 = 40;

pub(super) fn begin(board: &mut Board<'_>) -> Result<()> {
    board.write(&format!(
        "{} regions, each with a store, a bus, an agent and an aggregator, share one quota\nof {} for a partner. Budgets of it move to the demand; the ledger is in {}.",
        REGIONS.len(),
        quota(),
        REGIONS[0]
    ))?;
    let lines = "A line shows the units of each region, and the calls that it admitted.\n";
    board.write(if board.is_terminal { "" } else { lines })
}

/// Displays the figures since the last display.
pub(super) fn show(
    board: &mut Board<'_>,
    at: Duration,
    figures: &[RegionFigures; REGIONS.len()],
    cut_off: Option<usize>,
) -> Result<()> {
    let since_ms = board.since_shown(at).as_millis().max(1);
    let per_second = |number: u64| u128::from(number) * 1_000 / since_ms;
    if !board.is_terminal {
        let of = |(name, of): (&&str, &RegionFigures)| {
            let (admitted, made) = (per_second(of.admitted), per_second(of.admitted + of.denied));
            format!("  {name} {:>3} ({admitted:>3} of {made:>3}/s)", of.limit)
        };
        let regions: String = REGIONS.iter().zip(figures).map(of).collect();
        return board.write(&format!("{:>4.1} s{regions}", at.as_secs_f64()));
    }
    let mut text = format!("\n  {:<3} {:<40} {:>6} {:>9} {:>8}\n", "", "budget", "units", "admitted", "denied");
    for (number, (name, of)) in REGIONS.iter().zip(figures).enumerate() {
        let bar = style(bar(of.limit, QUOTA_UNITS, BAR_WIDTH));
        let bar = if cut_off == Some(number) { bar.red() } else { bar.cyan() };
        let (admitted, denied) = (per_second(of.admitted), per_second(of.denied));
        let _ = writeln!(text, "  {name:<3} {bar} {:>6} {admitted:>7}/s {denied:>6}/s", of.limit);
    }
    let sum: u64 = figures.iter().map(|of| of.limit).sum();
    let _ = writeln!(text, "  {:<3} {:<40} {sum:>6} of {QUOTA_UNITS}", "all", "");
    board.draw(&text)
}

pub(super) fn end(board: &mut Board<'_>, summary: &RegionSummary) -> Result<()> {
    let RegionSummary { calls, admitted, exact, fullest } = *summary;
    board.write(&format!(
        "\nfullest window  {fullest} of {QUOTA_UNITS} units over all regions: {}\nadmitted        {} of {} calls; one store for all regions admits {}\nwithout budgets each region would have the whole quota: up to {} in a window",
        if fullest <= QUOTA_UNITS { "never over" } else { "OVER THE QUOTA" },
        count(admitted),
        count(calls),
        count(exact),
        count(QUOTA_UNITS * REGIONS.len() as u64),
    ))
}
