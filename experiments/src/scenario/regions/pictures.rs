//! Pictures of the experiment: admissions and budgets of regions over the day, and the ways beside each other.

use super::findings::{BASELINES, percent};
use super::results::GlobalQuota;
use super::settings::{GlobalQuotaSettings, REGIONS};
use crate::scenario::{Axis, Plot, Series, SeriesRole};

const HOURS: f64 = 24.0;
/// Regions that are drawn: those with the largest demand.
const DRAWN: usize = 3;

pub(super) fn plots(settings: &GlobalQuotaSettings, all: &GlobalQuota) -> Vec<Plot> {
    vec![admissions(settings, all), budgets(settings, all), ways(settings, all)]
}

/// Draws the admissions by region, their sum, and those of the exact limiter.
#[expect(clippy::cast_precision_loss, reason = "minutes and numbers of calls")]
fn admissions(settings: &GlobalQuotaSettings, all: &GlobalQuota) -> Plot {
    let day = &all.days[0];
    let hour = |minute: usize| (minute as f64 + 0.5) / day.minutes.len() as f64 * HOURS;
    let line = |name: &str, role, value: &dyn Fn(usize) -> u64| Series {
        name: name.to_owned(),
        role,
        points: (0..day.minutes.len()).map(|minute| (hour(minute), value(minute) as f64)).collect(),
    };
    let mut series = vec![
        line("one exact limiter", SeriesRole::Truth, &|minute| day.exact_minutes[minute]),
        line("all regions", SeriesRole::Measured, &|minute| day.minutes[minute].iter().sum()),
    ];
    series.extend(
        drawn(settings)
            .into_iter()
            .map(|region| line(REGIONS[region], SeriesRole::Measured, &|minute| day.minutes[minute][region])),
    );
    let highest = 1.1 * settings.quota as f64;
    Plot {
        name: "admissions".to_owned(),
        title: format!(
            "Regions with budgets admit {:.1}% of what one exact limiter admits, while the load moves around the globe",
            percent(day.admitted, day.exact)
        ),
        x: Axis::new("hour of the day, UTC, from noon in eu", [0.0, HOURS]),
        y: Axis::new("admitted calls per minute", [0.0, highest]),
        series,
    }
}

/// Draws the budgets of regions by the ledger.
#[expect(clippy::cast_precision_loss, reason = "seconds and units")]
fn budgets(settings: &GlobalQuotaSettings, all: &GlobalQuota) -> Plot {
    let day = &all.days[0];
    let hour = |second: usize| (second as f64 + 1.0) / (settings.day_ms() / 1_000) as f64 * HOURS;
    let line = |region: usize| {
        let units = |second: usize| day.budgets[second][region].held as f64;
        let step = (day.budgets.len() / 1_000).max(1);
        let points = (0..day.budgets.len()).step_by(step).map(|second| (hour(second), units(second)));
        Series { name: REGIONS[region].to_owned(), role: SeriesRole::Measured, points: points.collect() }
    };
    let limit = |units: u64, name: &str| Series {
        name: format!("{name}: {units}"),
        role: SeriesRole::Limit,
        points: vec![(0.0, units as f64), (HOURS, units as f64)],
    };
    let mut series = vec![limit(settings.quota, "quota")];
    series.extend(drawn(settings).into_iter().map(line));
    let largest = day.budgets.iter().flatten().map(|budget| budget.held).max().unwrap_or(0);
    Plot {
        name: "budgets".to_owned(),
        title: format!(
            "Budgets follow the sun: a region holds {} to {:.0}% of the quota",
            format_args!("{:.0}%", percent(settings.floor, settings.quota)),
            percent(largest, settings.quota)
        ),
        x: Axis::new("hour of the day, from noon in eu", [0.0, HOURS]),
        y: Axis::new("units held", [0.0, 1.1 * settings.quota as f64]),
        series,
    }
}

/// Returns the regions with the largest demand, in their order.
fn drawn(settings: &GlobalQuotaSettings) -> Vec<usize> {
    let mut regions: Vec<usize> = (0..REGIONS.len()).collect();
    regions.sort_by(|a, b| settings.peaks[*b].total_cmp(&settings.peaks[*a]));
    regions.truncate(DRAWN);
    regions.sort_unstable();
    regions
}

/// Draws the admitted calls and the fullest minute of each way.
fn ways(settings: &GlobalQuotaSettings, all: &GlobalQuota) -> Plot {
    let (day, quota) = (&all.days[0], settings.quota);
    let mut rows = vec![("budgets", day.admitted, day.fullest)];
    rows.extend(BASELINES.iter().zip(&all.baselines).map(|(name, way)| (*name, way.admitted, way.fullest)));
    let points =
        rows.iter().map(|(name, admitted, fullest)| (*name, (percent(*admitted, day.exact), percent(*fullest, quota))));
    let points: Vec<(&str, (f64, f64))> = points.collect();
    let cross = |(x, y): (f64, f64), dx: f64, dy: f64| vec![(x - dx, y), (x + dx, y), (x, y), (x, y - dy), (x, y + dy)];
    let (lowest, highest) = (0.0, points.iter().map(|(_, (_, fullest))| *fullest).fold(0.0, f64::max));
    let x_range =
        points.iter().fold([100.0_f64, 100.0_f64], |[least, most], (_, (x, _))| [least.min(*x), most.max(*x)]);
    let x_range = [x_range[0] - 5.0, x_range[1] + 5.0];
    let mut series = vec![Series {
        name: "quota".to_owned(),
        role: SeriesRole::Limit,
        points: vec![(x_range[0], 100.0), (x_range[1], 100.0)],
    }];
    series.extend(points.iter().map(|(name, at)| Series {
        name: (*name).to_owned(),
        role: SeriesRole::Measured,
        points: cross(*at, (x_range[1] - x_range[0]) / 60.0, highest / 40.0),
    }));
    let find = |name: &str| points.iter().find(|(known, _)| *known == name).map_or((0.0, 0.0), |(_, at)| *at);
    Plot {
        name: "ways".to_owned(),
        title: format!(
            "Budgets admit {:.1}% of the exact limiter within the quota, static shares {:.0}%; regional limits let {:.0}% pass",
            find("budgets").0,
            find("static shares").0,
            find("regional limits").1
        ),
        x: Axis::new("admitted calls, % of one exact limiter", x_range),
        y: Axis::new("fullest minute, % of the quota", [lowest, 1.05 * highest]),
        series,
    }
}
