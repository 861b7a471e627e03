//! Pictures of the experiment: the fullest minute and the messages of a call over the size of the fleet.
//!
//! Those of Tollgate are its default rule, and the conservative estimate. The axis is logarithmic, since the sizes of
//! fleets span three orders of magnitude.

use tollgate_sim::figures::count;

use super::way::WayRow;
use super::{Measures, WaySettings};
use crate::scenario::{Axis, Plot, Series, SeriesRole};

/// Draws the fullest minute and the messages.
#[expect(clippy::cast_precision_loss, reason = "numbers of agents")]
pub(super) fn plots(settings: &WaySettings, rows: &[WayRow]) -> Vec<Plot> {
    let sizes: Vec<f64> = settings.agents.iter().map(|agents| *agents as f64).collect();
    let (least, most) = (sizes[0], sizes[sizes.len() - 1]);
    let curve = |name: &&str, value: fn(&Measures) -> f64| {
        let row = rows.iter().find(|row| row.way.name() == *name).expect("a way of this name");
        // Short runs have fewer bursts than the others, so they are no part of the same line.
        let is_drawn = |agents: &usize| !(row.way.has_bus() && settings.is_short_with_bus(*agents));
        let points = sizes.iter().zip(&row.measures).zip(&settings.agents).filter(|(_, agents)| is_drawn(agents));
        let points = points.map(|((size, of), _)| (*size, value(of)));
        Series { name: (*name).to_owned(), role: SeriesRole::Measured, points: points.collect() }
    };
    let curves = |names: &[&str], value: fn(&Measures) -> f64| -> Vec<Series> {
        names.iter().map(|name| curve(name, value)).collect()
    };
    let x = Axis::logarithmic("number of agents", [1.0, 1.1 * most]);
    let mut worst = curves(
        &["HAProxy stick tables", "local budget, Redis", "gossip, summed", "default rule", "store, leases (strict)"],
        Measures::worst,
    );
    worst.insert(
        0,
        Series { name: "quota".to_owned(), role: SeriesRole::Limit, points: vec![(least, 100.0), (most, 100.0)] },
    );
    let messages = curves(&["broadcast", "sub-interval counter", "gossip, summed", "store, signals"], |of| of.messages);
    let plot = |name: &str, title: String, label: &str, series: Vec<Series>| Plot {
        name: name.to_owned(),
        title,
        x: x.clone(),
        y: Axis::new(label, [0.0, highest(&series)]),
        series,
    };
    vec![
        plot("worst-minute", title_of_worst(&worst), "fullest minute, % of the quota", worst),
        plot("messages", title_of_messages(settings, &messages), "messages per call", messages),
    ]
}

fn highest(series: &[Series]) -> f64 {
    series.iter().flat_map(|series| &series.points).map(|(_, value)| *value).fold(0.1, f64::max)
}

fn last(series: &Series) -> f64 {
    series.points.last().map_or(0.0, |(_, value)| *value)
}

/// States the fullest minutes of the first and the last way in the largest fleet.
fn title_of_worst(series: &[Series]) -> String {
    let ends = series.get(1).into_iter().chain(series.last());
    let parts = ends.map(|series| format!("{} {:.0}%", series.name, last(series))).collect::<Vec<_>>();
    format!("Fullest minute in the largest fleet: {}", parts.join("; "))
}

/// States the messages of the broadcast in the largest fleet.
fn title_of_messages(settings: &WaySettings, series: &[Series]) -> String {
    let agents = settings.agents[settings.agents.len() - 1];
    let [first, ..] = series else { return String::new() };
    format!("A call costs the {} {:.0} messages among {} agents", first.name, last(first), count(agents as u64))
}
