//! The demo's text: an introduction, figures that change, and the summary.

use std::fmt::Write as _;
use std::io::Result;
use std::time::Duration;

use console::style;
use tollgate::Source;
use tollgate_sim::figures::{count, percent, wrapped};

use super::load;
use super::record::Figures;
use super::settings::{AGENTS, CALLERS, quota};
use crate::board::{Board, bar};

/// Width of the bar of a source, in characters.
const BAR_WIDTH: u64 = 30;

/// Writes the introduction. `servers` are the addresses of the real servers, if there are any.
pub(super) fn begin(board: &mut Board<'_>, servers: &[String]) -> Result<()> {
    board.write(&format!(
        "{AGENTS} agents over one store limit {CALLERS} callers and one abuser to {} each;\nthe aggregator counts every call.",
        quota()
    ))?;
    if servers.is_empty() {
        return board.write("At 4 s the store becomes unavailable, at 7 s it recovers.\n");
    }
    let over = wrapped(&format!("They run over {},", servers.join(" and ")));
    board.write(&format!(
        "{over}\nunder names of this run only. From 4 s to 7 s no agent in this process reaches\nthe store; the servers run on.\n"
    ))
}

/// Displays the figures since the last display.
pub(super) fn show(board: &mut Board<'_>, at: Duration, view: &Figures, lag_ms: u64, store_is_up: bool) -> Result<()> {
    let since_ms = board.since_shown(at).as_millis().max(1);
    let calls = view.allowed + view.denied;
    let [made, admitted, denied] = [calls, view.allowed, view.denied].map(|count| u128::from(count) * 1_000 / since_ms);
    let at = at.as_secs_f64();
    let sources = || Source::ALL.into_iter().zip(view.by_source);
    if board.is_terminal {
        let store = if store_is_up { style("up").green() } else { style("down").red().bold() };
        let mut text = format!("{at:>4.1} s   {made:>5} calls/s   {admitted:>5} admitted/s   {denied:>4} denied/s");
        let _ = write!(text, "\n         store {store}   signal lag {lag_ms} ms\n\n");
        for (source, count) in sources() {
            let bar = style(bar(count, calls, BAR_WIDTH)).cyan();
            let _ = writeln!(text, "  {source:<9} {bar}  {:>6}", percent(count, calls));
        }
        let _ = writeln!(text, "\n  {:<12} {:>7} {:>7}", "top callers", "calls", "denied");
        for (caller, (calls, denied)) in &view.top {
            let _ = writeln!(text, "  {:<12} {:>7} {:>7}", load::key(*caller), count(*calls), count(*denied));
        }
        return board.draw(&text);
    }
    let mut text = format!("{at:>4.1} s  {made:>5} calls/s  {admitted:>5} admitted/s  {denied:>4} denied/s");
    let _ = write!(text, "  signal lag {lag_ms} ms\n        by");
    for (source, count) in sources().filter(|(_, count)| *count > 0) {
        let _ = write!(text, " {source} {}", percent(count, calls));
    }
    if let Some((caller, (calls, denied))) = view.top.first() {
        let _ = write!(text, "\n        top {} {calls} ({denied} denied)", load::key(*caller));
    }
    board.write(&text)
}
