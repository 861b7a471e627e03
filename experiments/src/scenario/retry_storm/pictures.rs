//! Pictures of the experiment over time, by clients: their calls, the requests to the store, and the units that they get.

use super::storm::{StormOutcome, StormSecond};
use super::{AT_ONCE, CLIENTS, RETRY_AFTER, RetryStormSettings};
use crate::scenario::timeline::steps;
use crate::scenario::{Axis, Plot, Series, SeriesRole};

/// Draws three values over time.
#[expect(clippy::cast_precision_loss, reason = "small times and numbers of calls")]
pub(super) fn plots(settings: &RetryStormSettings, outcomes: &[StormOutcome]) -> Vec<Plot> {
    let plot = |name: &str, title: String, label: &str, value: fn(&StormSecond) -> u64| {
        let line = |((name, _), outcome): (&(&str, _), &StormOutcome)| Series {
            name: (*name).to_owned(),
            role: SeriesRole::Measured,
            points: steps(1_000, outcome.seconds.iter().map(value)),
        };
        let most = outcomes.iter().map(|outcome| outcome.most(value)).max().unwrap_or_default();
        Plot {
            name: name.to_owned(),
            title,
            x: Axis { label: "time, s".to_owned(), range: [0.0, settings.seconds as f64] },
            y: Axis { label: label.to_owned(), range: [0.0, most.max(1) as f64] },
            series: CLIENTS.iter().zip(outcomes).map(line).collect(),
        }
    };
    let of = |name: &str| {
        let place = CLIENTS.iter().position(|(clients, _)| *clients == name);
        &outcomes[place.expect("the clients have a run")]
    };
    let (at_once, waiting) = (of(AT_ONCE), of(RETRY_AFTER));
    let mut units = plot(
        "units",
        format!("Jobs that call again at once get {} units, and jobs that wait {}", at_once.admitted, waiting.admitted),
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
                at_once.most(|second| second.calls),
                at_once.requests_of_denials()
            ),
            "requests to the store in a second",
            |second| second.requests,
        ),
        units,
    ]
}
