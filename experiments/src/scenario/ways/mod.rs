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
mod tables;
mod pictures;

use indexmap::IndexMap;
use indicatif::ProgressBar;
use tollgate_core::rules::Quota;

use super::arrivals::{BEGIN, MINUTE_MS};
use super::experiment::Experiment;
use super::file::SettingError;
use super::parallel::run_all;
use super::result::ScenarioFindings;
use baseline::{BASELINES, Baseline};
use measures::Measures;
use network::{Delays, Trial};
use production::{PRODUCTION_WAYS, ProductionWay};
pub(super) use settings::WaySettings;
use workload::WayCaller;

const DAY_MS: u64 = 24 * 60 * MINUTE_MS;
/// Time in which every call is answered, in ms.
const ANSWERED_MS: u64 = 100;
/// Length of the calls in a large fleet with a bus: the end of a minute with its burst. Each agent receives the heartbeats of all
/// others, so that a run costs as much as the square of the fleet.
const SHORT_MS: u64 = 12_000;
/// Time after which such a fleet loses its store.
const SHORT_LOST_MS: u64 = 3_000;
/// Numbers that stand for a lag that does not end, and for one that is not measured.
const ENDLESS_LAG: f64 = 5_000.0;
const UNMEASURED_LAG: f64 = -1.0;

/// A way of limiting.
#[derive(Clone, Copy)]
enum Way {
    Baseline(Baseline),
    Production(ProductionWay),
}

/// The figures of a way by fleet size.
struct WayRow {
    way: Way,
    measures: Vec<Measures>,
}

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

impl WaySettings {
    fn delays(&self, way: Way) -> Delays {
        let is_far = matches!(way, Way::Production(way) if way.is_far);
        let store = if is_far { self.far_store_ms_max } else { self.store_ms_max };
        Delays { peer: self.peer_ms_max, store, bus: self.bus_ms_max }
    }

    /// Returns the calls of a way in a fleet of this size.
    fn trial(&self, way: Way, nodes: usize, seed: u64) -> Trial {
        let is_short = way.has_bus() && self.is_short_with_bus(nodes);
        // The callers find their whole quota free once more after the loss of the store.
        let minutes = if is_short { 1 } else { self.minutes + u64::from(way.loses_store()) };
        let mut calls = workload::calls(&Self { minutes, ..self.clone() }, nodes, seed);
        let (mut end_ms, mut incident_ms) = (minutes * MINUTE_MS, self.minutes * MINUTE_MS * 3 / 4);
        if is_short {
            // A store is lost early, and its callers are seen for the rest of the minute.
            let (short_ms, lost_ms) = if way.loses_store() { (MINUTE_MS, SHORT_LOST_MS) } else { (SHORT_MS, SHORT_MS) };
            let left_out_ms = end_ms - short_ms;
            calls.retain(|call| call.at >= BEGIN.plus_ms(left_out_ms));
            for call in &mut calls {
                call.at = call.at.minus_ms(left_out_ms);
            }
            (end_ms, incident_ms) = (short_ms, lost_ms);
        }
        if way.is_at_one_node() {
            calls.retain(|call| !matches!(WayCaller::ALL[call.caller], WayCaller::Spread | WayCaller::Burst));
        }
        Trial {
            nodes,
            quota: Quota::new(self.quota, MINUTE_MS).expect("a quota in range"),
            callers: WayCaller::ALL.len(),
            calls,
            end: BEGIN.plus_ms(end_ms + ANSWERED_MS),
            incident: BEGIN.plus_ms(incident_ms),
            seed,
            delays: self.delays(way),
        }
    }
}

impl Way {
    fn name(&self) -> &'static str {
        match self {
            Self::Baseline(baseline) => baseline.name,
            Self::Production(way) => way.name,
        }
    }

    /// Returns true if only callers that stay at one node call.
    fn is_at_one_node(&self) -> bool {
        matches!(self, Self::Baseline(baseline) if baseline.is_at_one_node)
    }

    fn coordination(&self) -> &'static str {
        match self {
            Self::Baseline(baseline) => baseline.coordination,
            Self::Production(way) => way.coordination,
        }
    }

    fn has_bus(&self) -> bool {
        matches!(self, Self::Production(way) if way.has_bus)
    }

    fn loses_store(&self) -> bool {
        matches!(self, Self::Production(way) if way.loses_store)
    }

    fn measures(&self, settings: &WaySettings, nodes: usize, seed: u64) -> Measures {
        let trial = settings.trial(*self, nodes, seed);
        let window_ms = if matches!(self, Self::Baseline(baseline) if baseline.is_bucket) { DAY_MS } else { MINUTE_MS };
        let quota = Quota::new(settings.quota, window_ms).expect("a quota in range");
        let probes = lag::probes(nodes, settings.probes, quota, seed, settings.delays(*self));
        let (outcome, lag_outcome) = match self {
            Self::Baseline(baseline) => ((baseline.run)(&trial), (baseline.run)(&probes)),
            Self::Production(way) => (way.run(&trial, settings.counter_bytes), way.run_probes(&probes)),
        };
        let since = if self.loses_store() { trial.incident } else { BEGIN };
        let measures = Measures::of(&outcome, &trial, since, settings.calls_per_node_s);
        Measures { lag_ms: lag::lag_ms(&probes, &lag_outcome), ..measures }
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
         it at {}% for {} requests a call; the default rule, which is right on average, lets bursts have {}%. If the store is lost, allowances deny {}% of the calls of callers within their quota, and {}% \
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
        figure("store lost: allowances", |of| of.under),
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
                ("admitted by allowances, % of admissions", measures.by_allowance),
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

    /// B2, O6: each size of the fleet has its numbers, with the signs that the designs have.
    #[test]
    fn each_finding_has_its_numbers() {
        let settings = WaySettings::small();
        let findings = settings.run(1, &ProgressBar::hidden());
        assert_eq!(settings.names(), findings.numbers.keys().cloned().collect::<Vec<_>>());
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
