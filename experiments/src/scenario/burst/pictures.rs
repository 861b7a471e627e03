//! Picture of the experiment: the calls of one burst over time.

use super::{BurstSettings, INTERVAL_MS, RuleBursts};
use crate::figures::ratio;
use crate::scenario::{Axis, Plot, Series, SeriesRole};

/// Draws the first burst under a rule.
#[expect(clippy::cast_precision_loss, reason = "numbers of calls and short times")]
pub(super) fn plot(settings: &BurstSettings, rule: &RuleBursts) -> Plot {
    let (first, seconds) = (rule.bursts[0], ratio(settings.burst_ms, 1_000));
    let quota_s = ratio(settings.quota, settings.calls) * seconds;
    let (mut series, most) = (rule.timeline.series(), rule.timeline.most() as f64);
    series.push(Series {
        name: format!("call {} arrives", settings.quota),
        role: SeriesRole::Limit,
        points: vec![(quota_s, 0.0), (quota_s, most)],
    });
    Plot {
        name: "calls".to_owned(),
        title: format!(
            "A burst of {} calls: {} pass within {} ms, and the others are denied",
            settings.calls, first.admitted, first.last_ms
        ),
        x: Axis { label: "time, s".to_owned(), range: [0.0, seconds] },
        y: Axis { label: format!("calls in {INTERVAL_MS} ms"), range: [0.0, most] },
        series,
    }
}
