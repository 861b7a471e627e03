//! Ways of limiting, one table: the ways that gateways use or that articles propose, beside those of the product, on the same calls.
//!
//! A baseline is written small, as its source describes it, over a simulated network. The ways of the product run its agents, store
//! and aggregator in the simulated fleet. An exact list of each caller's admissions judges all answers at the instant of the answer.

mod settings;
mod workload;
mod network;
mod measures;
mod lag;
mod baseline;
mod production;
mod way;
mod tables;
mod pictures;

use indexmap::IndexMap;
use indicatif::ProgressBar;

use super::experiment::Experiment;
use super::parallel::run_all;
use super::result::ScenarioFindings;
use super::setting_error::SettingError;
use baseline::BASELINES;
use measures::Measures;
use production::PRODUCTION_WAYS;
pub(super) use settings::WaySettings;
use way::{Way, WayRow};

/// Numbers that stand for a lag that does not end, and for one that is not measured.
const ENDLESS_LAG: f64 = 5_000.0;
const UNMEASURED_LAG: f64 = -1.0;

impl Experiment for WaySettings {
    fn check(&self) -> Result<(), SettingError> {
        self.check_values()
    }

    fn names(&self) -> Vec<String> {
        let row = |way: Way| WayRow { way, measures: vec![Measures::default(); self.agents.len()] };
        numbers(self, &ways().map(row).collect::<Vec<_>>()).into_keys().collect()
    }

    fn run(&self, seed: u64, bar: &ProgressBar) -> ScenarioFindings {
        let unmeasured = vec![Measures::default(); self.agents.len()];
        let mut rows: Vec<WayRow> = ways().map(|way| WayRow { way, measures: unmeasured.clone() }).collect();
        // The largest fleets take longest, so they begin.
        let places: Vec<(usize, usize)> =
            (0..self.agents.len()).rev().flat_map(|size| (0..rows.len()).map(move |row| (row, size))).collect();
        bar.set_length(places.len() as u64);
        let measured = run_all(&places, |(row, size)| {
            let measures = rows[*row].way.measures(self, self.agents[*size], seed);
            bar.inc(1);
            measures
        });
        for ((row, size), measures) in places.into_iter().zip(measured) {
            rows[row].measures[size] = measures;
        }
        let numbers = numbers(self, &rows);
        ScenarioFindings {
            finding: finding(self, &rows),
            tables: tables::tables(self, &rows),
            plots: pictures::plots(self, &rows),
            numbers,
        }
    }
}

/// Returns all ways, in the order of the table.
fn ways() -> impl Iterator<Item = Way> {
    BASELINES.into_iter().map(Way::Baseline).chain(PRODUCTION_WAYS.into_iter().map(Way::Production))
}

/// States the fullest minutes and the costs of a few ways in the fleet that is shown.
fn finding(settings: &WaySettings, rows: &[WayRow]) -> String {
    let shown = settings.shown();
    let figure = |name: &str, value: fn(&Measures) -> f64| -> String {
        let row = rows.iter().find(|row| row.way.name() == name).expect("a way of this name");
        tables::amount(value(&row.measures[shown]))
    };
    let worst = |name: &str| figure(name, Measures::worst);
    format!(
        "Among {} agents, the fullest minute holds up to {}% of the quota with limiters of each node, {}% with sticky sessions, {}% with \
         gossip merged by maximum, and {}% with summed gossip; a broadcast keeps it at {}% for {} messages a call. A store with leases keeps \
         it at {}% for {} requests a call; the default rule, which is right on average, lets bursts have {}%. If the store is lost, parts deny {}% of the calls of callers within their quota, and {}% \
         with signals.",
        settings.shown_agents,
        worst("Kong, per node"),
        worst("sticky sessions"),
        worst("gossip, maximum"),
        worst("gossip, summed"),
        worst("broadcast"),
        figure("broadcast", |of| of.messages),
        worst("store, leases (strict)"),
        figure("store, leases (strict)", |of| of.store_requests),
        worst("default rule"),
        figure("store lost: leases", |of| of.under),
        figure("store lost: signals", |of| of.under),
    )
}

/// Returns the numbers of each way and fleet size.
#[expect(clippy::cast_precision_loss, reason = "small numbers of bytes")]
fn numbers(settings: &WaySettings, rows: &[WayRow]) -> IndexMap<String, f64> {
    let mut numbers = IndexMap::new();
    for WayRow { way, measures } in rows {
        for (agents, measures) in settings.agents.iter().zip(measures) {
            let figures = [
                ("over-admitted, %", measures.over),
                ("under-admitted, %", measures.under),
                ("worst minute, % of quota", measures.worst()),
                ("steady demand: worst minute, % of quota", measures.spread),
                ("bursts: worst minute, % of quota", measures.burst),
                ("one agent: worst minute, % of quota", measures.one_node),
                ("wait, ms", measures.wait_ms),
                ("lag, ms", measures.lag_ms.unwrap_or(UNMEASURED_LAG).min(ENDLESS_LAG)),
                ("messages a call", measures.messages),
                ("bytes a call", measures.bytes),
                ("store requests a call", measures.store_requests),
                ("bytes of a counter at a node", measures.counter.node as f64),
                ("bytes of a counter at the store", measures.counter.store as f64),
            ];
            let name = format!("{} at {agents}", way.name());
            numbers.extend(figures.map(|(figure, value)| (format!("{name}: {figure}"), value)));
        }
    }
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::experiment::tests::findings_of;

    /// B2, O6: each size of the fleet has its numbers, with the signs that the designs have.
    #[test]
    fn each_finding_has_its_numbers() {
        let settings = WaySettings::small();
        let findings = findings_of(&settings);
        assert!(
            findings.finding.starts_with("Among 5 agents, the fullest minute holds up to "),
            "{}",
            findings.finding
        );
        let number = |name: &str| findings.numbers[name];
        assert!(number("Kong, per node at 2: worst minute, % of quota") > 190.0, "two nodes admit two quotas");
        assert!(
            number("gossip, maximum at 5: worst minute, % of quota")
                > number("gossip, summed at 5: worst minute, % of quota")
        );
        for way in ["store only (strict)", "store, leases (strict)", "store: conservative"] {
            assert!(number(&format!("{way} at 5: worst minute, % of quota")) <= 100.0, "{way}");
        }
        let [two, five] = [2, 5].map(|agents| number(&format!("broadcast at {agents}: messages a call")));
        assert!(five > 3.0 * two, "{two} {five}");
    }
}
