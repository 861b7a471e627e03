//! Pictures of the experiment over time: calls, requests to the store and units by clients without penalties, and the units of the
//! jobs that wait beside others, without penalties and with them.

use tollgate_sim::figures::{count, ratio};

use super::cases::{AT_ONCE, CASES, HALF, HALF_PENALIZED, RETRY_AFTER, StormCase};
use super::settings::RetryStormSettings;
use super::storm::{StormOutcome, StormSecond};
use crate::scenario::timeline::steps;
use crate::scenario::{Axis, Plot, Series, SeriesRole};

/// Draws the values over time.
#[expect(clippy::cast_precision_loss, reason = "small times and numbers of calls")]
pub(super) fn plots(settings: &RetryStormSettings, outcomes: &[StormOutcome]) -> Vec<Plot> {
    let plot = |name: &str, title: String, label: &str, value: fn(&StormSecond) -> u64| {
        let shown = || CASES.iter().zip(outcomes).filter(|(case, _)| !case.has_penalties);
        let line = |(case, outcome): (&StormCase, &StormOutcome)| Series {
            name: case.name.to_owned(),
            role: SeriesRole::Measured,
            points: steps(1_000, outcome.seconds.iter().map(value)),
        };
        let most = shown().map(|(_, outcome)| outcome.most(value)).max().unwrap_or_default();
        Plot {
            name: name.to_owned(),
            title,
            x: Axis::new("time, s", [0.0, settings.seconds as f64]),
            y: Axis::new(label, [0.0, most.max(1) as f64]),
            series: shown().map(line).collect(),
        }
    };
    let of = |name: &str| {
        let place = CASES.iter().position(|case| case.name == name);
        &outcomes[place.expect("the case has a run")]
    };
    let (at_once, waiting) = (of(AT_ONCE), of(RETRY_AFTER));
    let mut units = plot(
        "units",
        format!(
            "Jobs that call again at once get {} units, and jobs that wait {}",
            count(at_once.admitted),
            count(waiting.admitted)
        ),
        "units in the last minute",
        |second| second.window,
    );
    units.series.push(Series {
        name: "quota".to_owned(),
        role: SeriesRole::Limit,
        points: vec![(0.0, settings.quota as f64), (settings.seconds as f64, settings.quota as f64)],
    });
    vec![
        plot(
            "calls",
            format!(
                "{:.0} calls for each admitted unit at once, {:.1} with Retry-After",
                at_once.calls_per_unit(),
                waiting.calls_per_unit()
            ),
            "calls in a second",
            |second| second.calls,
        ),
        plot(
            "requests",
            format!(
                "Up to {} calls in a second: while all are denied, the store gets {:.0} requests",
                count(at_once.most(|second| second.calls)),
                at_once.requests_of_denials()
            ),
            "requests to the store in a second",
            |second| second.requests,
        ),
        units,
        waiting_units(settings, of(HALF), of(HALF_PENALIZED)),
    ]
}

/// Draws the units of the jobs that wait, beside as many that do not.
#[expect(clippy::cast_precision_loss, reason = "small times and numbers of calls")]
fn waiting_units(settings: &RetryStormSettings, without: &StormOutcome, with: &StormOutcome) -> Plot {
    let line = |name: &str, role, outcome: &StormOutcome, value: fn(&StormSecond) -> u64| {
        let sums = outcome.seconds.iter().scan(0, move |sum, second| {
            *sum += value(second);
            Some(*sum)
        });
        let points = std::iter::once(0).chain(sums).enumerate().map(|(second, units)| (second as f64, units as f64));
        Series { name: name.to_owned(), role, points: points.collect() }
    };
    let share = |outcome: &StormOutcome| 100.0 * ratio(outcome.admitted_waiting, outcome.admitted);
    Plot {
        name: "waiting".to_owned(),
        title: format!(
            "If half of the jobs wait, they get {:.0}% of the units without penalties, and {:.0}% with them",
            share(without),
            share(with)
        ),
        x: Axis::new("time, s", [0.0, settings.seconds as f64]),
        y: Axis::new("units since the beginning", [0.0, without.admitted.max(1) as f64]),
        series: vec![
            line("all jobs", SeriesRole::Truth, without, |second| second.admitted),
            line("jobs that wait", SeriesRole::Measured, without, |second| second.admitted_waiting),
            line("the same with penalties", SeriesRole::Measured, with, |second| second.admitted_waiting),
        ],
    }
}
