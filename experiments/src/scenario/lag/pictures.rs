//! Pictures of the experiment: the fullest window and the false denials over the delay, in the largest fleet.

use super::callers::LagDemand;
use super::cell::Decider;
use super::curves::{LagResult, curve, denied_percent, highest, signalled_to_s, worst_percent};
use super::settings::LagSettings;
use crate::scenario::{Axis, Plot, Series, SeriesRole};

const LIMITS: [(&str, f64); 1] = [("quota: 100%", 100.0)];

/// Draws the fullest window of bursts, of bursts after the loss of the store, and of a steady demand; and the false denials.
pub(super) fn plots(settings: &LagSettings, results: &[LagResult]) -> Vec<Plot> {
    let agents = settings.shown_agents();
    // Bursts differ most over the delays with fresh signals, which have a picture of their own.
    let stale_s = settings.delays_s.iter().copied().find(|delay_s| *delay_s > signalled_to_s(results, agents));
    let lines = |demand, is_drawn: fn(&Decider) -> bool| -> Vec<Series> {
        let value = |tally: &_| match demand {
            LagDemand::Honest => denied_percent(tally),
            _ => worst_percent(settings, tally),
        };
        let line = |decider: Decider| Series {
            name: decider.name().to_owned(),
            role: SeriesRole::Measured,
            points: curve(results, agents, decider, demand, value),
        };
        Decider::ALL.into_iter().filter(is_drawn).map(line).collect()
    };
    let demand = format!("Demand of {} quotas", settings.steady);
    let bursts = lines(LagDemand::Burst, |decider| !decider.loses_store());
    let mut first = bursts.clone();
    for line in &mut first {
        line.points.retain(|(delay_s, _)| stale_s.is_none_or(|stale_s| *delay_s <= stale_s));
    }
    vec![
        windows("burst", "Bursts", bursts),
        windows("burst-fresh", "Bursts while signals are fresh", first),
        windows("burst-lost", "Bursts without the store", lines(LagDemand::Burst, |decider| decider.loses_store())),
        windows("steady", &demand, lines(LagDemand::Steady, |_| true)),
        false_denials(settings, lines(LagDemand::Honest, |_| true)),
    ]
}

/// Draws fullest windows. The title states the highest point of each line.
fn windows(name: &str, of: &str, lines: Vec<Series>) -> Plot {
    let highest_of = |line: &Series| (line.name.clone(), highest(line.points.iter().copied()));
    let mut tops: Vec<_> = lines.iter().map(highest_of).collect();
    tops.sort_by(|(_, a), (_, b)| b.1.total_cmp(&a.1));
    let (first, (delay_s, percent)) = &tops[0];
    let others: Vec<String> = tops[1..].iter().map(|(name, (_, percent))| format!("{name} {percent:.0}%")).collect();
    let title =
        format!("{of}: {first} admits up to {percent:.0}% of the quota (delay {delay_s} s); {}", others.join("; "));
    let last_s = lines[0].points.iter().map(|(delay_s, _)| *delay_s).fold(0.0, f64::max);
    let limits = LIMITS.map(|(name, percent)| Series {
        name: name.to_owned(),
        role: SeriesRole::Limit,
        points: vec![(0.0, percent), (last_s, percent)],
    });
    let least = lines.iter().flat_map(|line| &line.points).map(|(_, percent)| *percent).fold(100.0, f64::min);
    let series = limits.into_iter().chain(lines).collect();
    plot(name, title, Axis::new("fullest window, % of the quota", [least - 5.0, 110.0]), series)
}

fn false_denials(settings: &LagSettings, lines: Vec<Series>) -> Plot {
    let (delay_s, percent) = highest(lines.iter().flat_map(|line| line.points.iter().copied()));
    let title = format!(
        "Demand of {} quotas: up to {percent:.1}% of the calls are denied falsely (delay {delay_s} s)",
        settings.honest
    );
    plot("false-denials", title, Axis::new("calls denied falsely, %", [0.0, 0.1]), lines)
}

/// Draws lines. The ranges contain all of their points.
fn plot(name: &str, title: String, mut y: Axis, series: Vec<Series>) -> Plot {
    // A single delay has a range, too.
    let mut x = Axis::new("delay from a call to its signal, s", [0.0, 0.1]);
    for (delay_s, value) in series.iter().flat_map(|series| &series.points) {
        x.range[1] = x.range[1].max(*delay_s);
        y.range[1] = y.range[1].max(*value);
    }
    Plot { name: name.to_owned(), title, x, y, series }
}
