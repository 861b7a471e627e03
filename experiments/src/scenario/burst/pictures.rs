//! Picture of the experiment: the calls of one burst over time.

use tollgate_sim::figures::ratio;

use super::outcomes::RuleBursts;
use super::settings::{BurstSettings, INTERVAL_MS};
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
    let passed = if first.admitted == settings.quota {
        format!("exactly the quota of {} pass", settings.quota)
    } else {
        format!("{} pass, and the quota is {}", first.admitted, settings.quota)
    };
    let title =
        format!("Of {} calls in {seconds} s, {passed}, the last one after {} ms", settings.calls, first.last_ms);
    Plot {
        name: "calls".to_owned(),
        title,
        x: Axis::new("time, s", [0.0, seconds]),
        y: Axis::new(format!("calls in {INTERVAL_MS} ms"), [0.0, most]),
        series,
    }
}
