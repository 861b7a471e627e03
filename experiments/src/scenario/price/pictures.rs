//! Picture of the experiment: requests to the store against stranded quota.

use tollgate_sim::figures::ratio;

use super::PriceSettings;
use super::leases::LeaseCell;
use super::settings::LeaseCase;
use super::simulated::stranded_percent;
use crate::scenario::{Axis, Plot, Series, SeriesRole};

/// Draws a line for each quota through the fleets with even traffic.
pub(super) fn plots(settings: &PriceSettings, cells: &[LeaseCell]) -> Vec<Plot> {
    let even = settings.skews[0];
    let point = |cell: &LeaseCell| (ratio(cell.on.requests, cell.on.calls), stranded_percent(cell));
    let curve = |quota: &u64| {
        let is_drawn = |case: &LeaseCase| case.quota == *quota && case.skew.total_cmp(&even).is_eq();
        let drawn = settings.cases().zip(cells).filter(|(case, _)| is_drawn(case));
        let mut points: Vec<(f64, f64)> = drawn.map(|(_, cell)| point(cell)).collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        Series { name: format!("{quota}/min"), role: SeriesRole::Measured, points }
    };
    let series: Vec<Series> = settings.quotas.iter().map(curve).collect();
    let points = || series.iter().flat_map(|series| &series.points);
    let (lowest, highest) = points().fold((0.0_f64, 0.1_f64), |(low, high), (_, y)| (low.min(*y), high.max(*y)));
    let fewest = points().map(|(x, _)| *x).fold(f64::INFINITY, f64::min);
    let (least, most) = (settings.agents[0], settings.agents[settings.agents.len() - 1]);
    vec![Plot {
        name: "price".to_owned(),
        title: format!(
            "{least} to {most} agents: leases make {fewest:.2} to 1 requests per call and strand up to {highest:.2}%"
        ),
        x: Axis::new("requests to the store per call", [0.0, 1.05]),
        y: Axis::new("quota stranded, % of the calls", [lowest, highest]),
        series,
    }]
}
