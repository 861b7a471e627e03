//! Pictures of the experiment: counts beside the true one, and the error over the number of counters that a call reads.

use indexmap::IndexMap;
use tollgate_core::window::Estimate;

use super::count::{Count, FIXED_WINDOW, PARTS_MAX, truth};
use super::errors::Errors;
use super::settings::ApproximationSettings;
use super::traffic;
use crate::scenario::arrivals::{BEGIN, MINUTE_MS};
use crate::scenario::{Axis, Plot, Series, SeriesRole};

/// Distance of the points of a picture.
const SAMPLE_MS: u64 = 250;
/// Draws the first minutes in three ways of counting, and the errors of all ways.
pub(super) fn plots(
    settings: &ApproximationSettings,
    seed: u64,
    counts: &[Count],
    errors: &[Errors],
    numbers: &IndexMap<String, f64>,
) -> Vec<Plot> {
    let percent = numbers[&format!("{FIXED_WINDOW}: passed wrongly, %")];
    let mean = |name: &str| numbers[&format!("{name}: mean error")];
    let courses = [
        (
            "fixed-window",
            1,
            Estimate::Ignored,
            format!("A fixed window forgets each minute, and {percent:.0}% of the calls past the limit"),
        ),
        (
            "two-of-60s",
            1,
            Estimate::Interpolated,
            format!("Current and previous minute: {:.1} calls off on average", mean("1 of 60 s")),
        ),
        (
            "five-of-15s",
            4,
            Estimate::Interpolated,
            format!("Five windows of 15 s: {:.1} calls off on average", mean("4 of 15 s")),
        ),
    ];
    let mut plots: Vec<Plot> = courses
        .into_iter()
        .map(|(name, parts, estimate, title)| course(settings, seed, name, Count::new(parts, estimate), title))
        .collect();
    plots.push(error_by_reads(counts, errors));
    plots
}

/// Draws a count and the true one over the first minutes.
#[expect(clippy::cast_precision_loss, reason = "small times and counts")]
fn course(settings: &ApproximationSettings, seed: u64, name: &str, mut count: Count, title: String) -> Plot {
    let (mut truth, mut calls) = (truth(), traffic::random(settings, seed).peekable());
    let (mut exact, mut counted, mut most) = (Vec::new(), Vec::new(), settings.limit);
    let end_ms = settings.shown_minutes * MINUTE_MS;
    for at_ms in (0..=end_ms).step_by(usize::try_from(SAMPLE_MS).expect("a short time")) {
        let now = BEGIN.plus_ms(at_ms);
        while let Some(at) = calls.next_if(|at| *at <= now) {
            truth.admit(at, 1);
            count.ring.add_at(at, 1);
        }
        truth.move_to(now);
        let minutes = at_ms as f64 / MINUTE_MS as f64;
        most = most.max(truth.units()).max(count.at(now));
        exact.push((minutes, truth.units() as f64));
        counted.push((minutes, count.at(now) as f64));
    }
    let (end, limit) = (settings.shown_minutes as f64, settings.limit as f64);
    let counted_as = if count.estimate == Estimate::Ignored { FIXED_WINDOW } else { "sub-windows" };
    let series = |name: &str, role, points| Series { name: name.to_owned(), role, points };
    Plot {
        name: name.to_owned(),
        title,
        x: Axis::new("time, minutes", [0.0, end]),
        y: Axis::new("calls in the last minute", [0.0, most as f64]),
        series: vec![
            series("true sliding window", SeriesRole::Truth, exact),
            series(counted_as, SeriesRole::Measured, counted),
            series("limit", SeriesRole::Limit, vec![(0.0, limit), (end, limit)]),
        ],
    }
}

/// Draws the mean error over the number of counters that a call reads.
fn error_by_reads(counts: &[Count], errors: &[Errors]) -> Plot {
    let curve = |estimate| -> Vec<(f64, f64)> {
        let of_estimate = counts.iter().zip(errors).filter(|(count, _)| count.estimate == estimate);
        of_estimate.map(|(count, errors)| (f64::from(count.reads()), errors.mean())).collect()
    };
    let (interpolated, conservative) = (curve(Estimate::Interpolated), curve(Estimate::Conservative));
    let most = conservative.iter().chain(&interpolated).map(|(_, error)| *error).fold(0.0, f64::max);
    let series = |name: &str, points| Series { name: name.to_owned(), role: SeriesRole::Measured, points };
    let with = |reads: f64| interpolated.iter().find(|(other, _)| *other >= reads).map_or(0.0, |(_, error)| *error);
    Plot {
        name: "error-by-reads".to_owned(),
        title: format!(
            "Returns diminish: {:.1} calls off with 2 reads, {:.1} with 5, {:.1} with 13, {:.1} with 61",
            with(2.0),
            with(5.0),
            with(13.0),
            with(61.0)
        ),
        x: Axis::new("counters read by a call", [0.0, f64::from(PARTS_MAX + 2)]),
        y: Axis::new("mean error, calls", [0.0, most]),
        series: vec![series("interpolated", interpolated), series("conservative", conservative)],
    }
}
