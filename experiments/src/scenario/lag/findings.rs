//! Numbers, sentence and tables of the experiment.

use indexmap::IndexMap;
use tollgate_sim::figures::ratio;

use super::callers::LagDemand;
use super::cell::{Decider, LagCell};
use super::curves::{LagResult, curve, denied_percent, highest, signalled_to_s, worst_percent};
use super::settings::LagSettings;
use crate::scenario::ResultTable;
use crate::scenario::fleet::FleetTally;

/// Returns the numbers of each fleet, and those over all delays.
#[expect(clippy::cast_precision_loss, reason = "units of a quota")]
pub(super) fn numbers(settings: &LagSettings, results: &[LagResult]) -> IndexMap<String, f64> {
    let mut numbers = IndexMap::new();
    let worst = |tally: &FleetTally| worst_percent(settings, tally);
    for agents in &settings.agents {
        for decider in Decider::ALL {
            let name = decider.name();
            for demand in [LagDemand::Steady, LagDemand::Burst] {
                let (_, most) = highest(curve(results, *agents, decider, demand, worst));
                let name = format!("{name}, {agents} agents, {}", demand.name());
                numbers.insert(format!("{name}, any delay: worst window, % of quota"), most);
            }
            let (_, most) = highest(curve(results, *agents, decider, LagDemand::Honest, denied_percent));
            numbers.insert(format!("{name}, {agents} agents, honest, any delay: false denials, %"), most);
        }
        numbers
            .insert(format!("{agents} agents: largest delay with fresh signals, s"), signalled_to_s(results, *agents));
    }
    let quota_units = (settings.callers * settings.quota) as f64;
    for (LagCell { agents, delay_s, decider }, tallies) in results {
        let name = decider.name();
        for (demand, tally) in LagDemand::ALL.iter().zip(tallies) {
            let name = format!("{name}, {agents} agents, {}, {delay_s} s", demand.name());
            if *demand == LagDemand::Honest {
                numbers.insert(format!("{name}: false denials, %"), denied_percent(tally));
                continue;
            }
            let measured_s = settings.seconds - settings.lost_after_s;
            let minutes = if *demand == LagDemand::Burst { 1.0 } else { measured_s as f64 / 60.0 };
            let excess = 100.0 * tally.over_admitted as f64 / (quota_units * minutes);
            numbers.insert(format!("{name}: worst window, % of quota"), worst_percent(settings, tally));
            numbers.insert(format!("{name}: excess, % of quota"), excess);
        }
    }
    numbers
}

/// States the worst windows of the largest fleet, and the delay up to which signals are fresh.
pub(super) fn finding(settings: &LagSettings, results: &[LagResult]) -> String {
    let agents = settings.shown_agents();
    let worst = |decider, demand| curve(results, agents, decider, demand, |tally| worst_percent(settings, tally));
    let highest_of =
        |decider| highest([LagDemand::Steady, LagDemand::Burst].map(|demand| highest(worst(decider, demand)))).1;
    let [strict, bounded, strict_lost, bounded_lost] =
        [Decider::Strict, Decider::Bounded, Decider::StrictLost, Decider::BoundedLost].map(highest_of);
    let bursts = worst(Decider::Eventual, LagDemand::Burst);
    let ((most_s, most), distance_to_1_s) =
        (highest(bursts.iter().copied()), |point: &(f64, f64)| (point.0 - 1.0).abs());
    let (near_s, near) =
        bursts.into_iter().min_by(|a, b| distance_to_1_s(a).total_cmp(&distance_to_1_s(b))).expect("there is a delay");
    let (_, denied) = highest(curve(results, agents, Decider::Eventual, LagDemand::Honest, denied_percent));
    format!(
        "In a fleet of {agents}, at any delay of the stream up to {} s, the fullest window of `strict` holds {strict:.0}% of the quota \
         and that of `bounded` {bounded:.0}%, while the store answers. `eventual` adds the calls of the delay: a burst of {:.1} \
         quotas a second gets {near:.0}% at {near_s} s and up to {most:.0}% (at {most_s} s). Signals are fresh up to a delay of {} s. \
         Beyond it, `on_failure` decides, and denies up to {denied:.1}% of the calls of callers below their quota. After the loss of \
         the store, `strict` holds up to {strict_lost:.0}%, and `bounded` up to {bounded_lost:.0}%.",
        settings.delays_s[settings.delays_s.len() - 1],
        settings.burst * ratio(1, settings.burst_s),
        signalled_to_s(results, agents)
    )
}

pub(super) fn tables(settings: &LagSettings, results: &[LagResult]) -> Vec<ResultTable> {
    let mut tables = Vec::new();
    for agents in &settings.agents {
        for demand in [LagDemand::Burst, LagDemand::Steady, LagDemand::Honest] {
            let caption = match demand {
                LagDemand::Burst => format!(
                    "Fullest window of callers that burst, in percent of the quota, by the delay of the stream; {agents} agents. \
                     lost: the store is lost after {} s.",
                    settings.lost_after_s
                ),
                LagDemand::Steady => {
                    format!("The same of callers with a demand of {} quotas; {agents} agents", settings.steady)
                }
                LagDemand::Honest => format!(
                    "Calls that are denied although the last minute had room, of callers with a demand of {} quotas; {agents} agents",
                    settings.honest
                ),
            };
            let cells = |decider| {
                let percent = |tally: &FleetTally| match demand {
                    LagDemand::Honest => denied_percent(tally),
                    _ => worst_percent(settings, tally),
                };
                let digits = usize::from(demand == LagDemand::Honest);
                let points = curve(results, *agents, decider, demand, percent);
                points.into_iter().map(move |(_, percent)| format!("{percent:.digits$}%")).collect::<Vec<_>>()
            };
            let columns = Decider::ALL.map(cells);
            let row = |(place, delay_s): (usize, &f64)| {
                std::iter::once(format!("{delay_s} s"))
                    .chain(columns.iter().map(|column| column[place].clone()))
                    .collect()
            };
            tables.push(ResultTable {
                caption,
                header: std::iter::once("delay").chain(Decider::ALL.map(Decider::name)).map(str::to_owned).collect(),
                rows: settings.delays_s.iter().enumerate().map(row).collect(),
            });
        }
    }
    tables
}
