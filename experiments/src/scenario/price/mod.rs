//! Price of leases: requests to the store that they save, and quota that they strand; and the sizes of a deployment.
//!
//! The requests and the bytes on the bus are simulated with the engines of production. Cores and bandwidth are computed from them and
//! from figures of the benches, which the file of the scenario contains with their sources.

mod sizing;
mod settings;
mod leases;
mod record_sizes;
mod simulated;
mod tables;
mod pictures;

use indexmap::IndexMap;
use indicatif::ProgressBar;

use super::experiment::Experiment;
use super::parallel::run_all;
use super::result::ScenarioFindings;
use super::setting_error::SettingError;
use leases::LeaseCell;
use record_sizes::RecordSizes;
use settings::LeaseCase;
pub(in crate::scenario) use settings::PriceSettings;
use simulated::{Simulated, stranded_of_two_percent, stranded_percent, under_percent};
use sizing::{Load, Sizing};
use tollgate_sim::figures::{self, ratio};

#[derive(Clone, Copy, Debug)]
enum Deployment {
    WithoutLeases,
    /// With leases, and callers of this quota.
    WithLeases(u64),
}

impl Experiment for PriceSettings {
    fn check(&self) -> Result<(), SettingError> {
        let lens = [
            ("agents", self.agents.len()),
            ("skews", self.skews.len()),
            ("quotas", self.quotas.len()),
            ("loads", self.loads.len()),
        ];
        for (key, len) in lens {
            SettingError::unless_in(key, len, 1..=10).map_err(|_| SettingError::new(key, "needs 1 to 10 values"))?;
        }
        let ascends =
            |key, is_sorted| if is_sorted { Ok(()) } else { Err(SettingError::new(key, "is not in ascending order")) };
        for agents in &self.agents {
            SettingError::unless_in("agents", *agents, 1..=200)?;
        }
        ascends("agents", self.agents.is_sorted_by(|a, b| a < b))?;
        for skew in &self.skews {
            SettingError::unless_in("skews", *skew, 0.0..=3.0)?;
        }
        ascends("skews", self.skews.is_sorted_by(|a, b| a < b))?;
        for quota in &self.quotas {
            SettingError::unless_in("quotas", *quota, 1..=100_000)?;
        }
        ascends("quotas", self.quotas.is_sorted_by(|a, b| a < b))?;
        SettingError::unless_in("demand", self.demand, 0.01..=10.0)?;
        SettingError::unless_in("units_per_minute", self.units_per_minute, 1..=1_000_000)?;
        SettingError::unless_in("warm_up_minutes", self.warm_up_minutes, 0..=60)?;
        SettingError::unless_in("minutes", self.minutes, 1..=60)?;
        for load in &self.loads {
            let per_agent = load.calls_per_second / load.agents.max(1);
            if !(1..=1_000_000).contains(&per_agent) || load.agents == 0 {
                return Err(SettingError::new(
                    "loads",
                    "has agents with less than 1 or more than 1000000 calls/s each",
                ));
            }
        }
        for (key, value) in self.figures.by_key() {
            SettingError::unless_in(key, value, 0.001..=1e6)?;
        }
        Ok(())
    }

    fn names(&self) -> Vec<String> {
        let cells = vec![LeaseCell::default(); self.cases().count()];
        let simulated = Simulated { cells, sizes: vec![RecordSizes::default(); self.loads.len()] };
        self.numbers(&simulated).into_keys().collect()
    }

    fn run(&self, seed: u64, bar: &ProgressBar) -> ScenarioFindings {
        let cases: Vec<LeaseCase> = self.cases().collect();
        let mut rates: Vec<u64> = self.loads.iter().map(Load::of_agent).collect();
        rates.sort_unstable();
        rates.dedup();
        bar.set_length((cases.len() + rates.len()) as u64);
        let cells = run_all(&cases, |case| {
            let cell = leases::measure(self, *case, seed);
            bar.inc(1);
            cell
        });
        let sizes = run_all(&rates, |rate| {
            let sizes = record_sizes::measure(*rate, self.quotas[0], seed);
            bar.inc(1);
            sizes
        });
        let of_load = |load: &Load| rates.iter().position(|rate| *rate == load.of_agent()).map(|case| sizes[case]);
        let sizes = self.loads.iter().filter_map(of_load).collect();
        let simulated = Simulated { cells, sizes };
        ScenarioFindings {
            finding: finding(self, &simulated),
            numbers: self.numbers(&simulated),
            tables: tables::tables(self, &simulated),
            plots: pictures::plots(self, &simulated.cells),
        }
    }
}

impl PriceSettings {
    /// Returns a deployment without leases, and those with leases.
    fn deployments(&self) -> impl Iterator<Item = Deployment> {
        let with_leases = self.quotas.iter().map(|quota| Deployment::WithLeases(*quota));
        std::iter::once(Deployment::WithoutLeases).chain(with_leases)
    }

    /// Returns the cell of a quota and a fleet with even traffic.
    fn even_cell<'s>(&self, simulated: &'s Simulated, quota: u64, agents: usize) -> &'s LeaseCell {
        let is_meant = |case: &LeaseCase| {
            case.quota == quota && case.agents == agents && case.skew.total_cmp(&self.skews[0]).is_eq()
        };
        let case = self.cases().position(|case| is_meant(&case));
        &simulated.cells[case.expect("the case is one of the cells")]
    }

    fn sizing(&self, simulated: &Simulated, position: usize, deployment: Deployment) -> Sizing {
        let load = self.loads[position];
        let agents = self.simulated_agents(load);
        let tally = match deployment {
            Deployment::WithoutLeases => self.even_cell(simulated, self.quotas[0], agents).off,
            Deployment::WithLeases(quota) => self.even_cell(simulated, quota, agents).on,
        };
        self.figures.sizing(load, ratio(tally.requests, tally.calls), simulated.sizes[position].call)
    }

    fn numbers(&self, simulated: &Simulated) -> IndexMap<String, f64> {
        let mut numbers = IndexMap::new();
        for (LeaseCase { quota, agents, skew }, cell) in self.cases().zip(&simulated.cells) {
            let mut number = |name: &str, value| {
                numbers.insert(format!("{quota}/min, {}, skew {skew}: {name}", figures::agents(agents)), value)
            };
            number("store requests per call", ratio(cell.on.requests, cell.on.calls));
            number("store requests per admitted call", ratio(cell.on.requests, cell.on.admitted));
            number("store requests per call without leases", ratio(cell.off.requests, cell.off.calls));
            number("quota stranded, % of calls", stranded_percent(cell));
            number("two rules: store requests per call", ratio(cell.two.requests, cell.two.calls));
            number("two rules: quota stranded, % of calls", stranded_of_two_percent(cell));
            number("under-admitted without leases, %", under_percent(&cell.off));
        }
        for (position, load) in self.loads.iter().enumerate() {
            let name = format!("{} calls/s", load.calls_per_second);
            numbers.insert(format!("{name}: bytes per call"), simulated.sizes[position].call);
            numbers.insert(format!("{name}: bytes per signal"), simulated.sizes[position].signal);
            for deployment in self.deployments() {
                let sizing = self.sizing(simulated, position, deployment);
                let name = format!("{name}, {}", deployment.name());
                numbers.insert(format!("{name}: Redis cores, shared"), sizing.redis_cores[0]);
                numbers.insert(format!("{name}: Redis cores, alone"), sizing.redis_cores[1]);
            }
            let sizing = self.sizing(simulated, position, Deployment::WithoutLeases);
            numbers.insert(format!("{name}: Kafka, MB/s"), sizing.kafka_mb_per_second);
            numbers.insert(format!("{name}: agent cores"), sizing.agent_cores);
        }
        numbers
    }
}

impl Deployment {
    fn name(self) -> String {
        match self {
            Self::WithoutLeases => "leases off".to_owned(),
            Self::WithLeases(quota) => format!("leases, {quota}/min"),
        }
    }
}

/// States the price in the fleet of the first load for the smallest and the largest quota, and the cores of Redis for it.
fn finding(settings: &PriceSettings, simulated: &Simulated) -> String {
    let load = settings.loads[0];
    let agents = settings.simulated_agents(load);
    let [small, large] = [settings.quotas[0], settings.quotas[settings.quotas.len() - 1]];
    let price = |quota: u64| {
        let cell = settings.even_cell(simulated, quota, agents);
        let requests = ratio(cell.on.requests, cell.on.calls);
        format!(
            "{requests:.2} requests to the store for a call of {quota}/min and strand {:.2}%",
            stranded_percent(cell)
        )
    };
    let cores = |deployment| {
        let [shared, alone] = settings.sizing(simulated, 0, deployment).redis_cores;
        format!("{shared:.0} to {alone:.0}")
    };
    format!(
        "With {} and even traffic, leases make {}, and {}. {} calls/s need {} cores of Redis without leases, and {} with leases \
         if each caller has {large}/min.",
        figures::agents(agents),
        price(small),
        price(large),
        figures::count(load.calls_per_second),
        cores(Deployment::WithoutLeases),
        cores(Deployment::WithLeases(large)),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::experiment::tests::findings_of;
    use settings::tests::small;

    #[test]
    fn each_finding_has_its_numbers() {
        let settings = small();
        let findings = findings_of(&settings);
        assert!(findings.finding.starts_with("With 2 agents and even traffic, leases make 0."), "{}", findings.finding);
        let number = |name: &str| findings.numbers[&format!("600/min, 2 agents, skew 0: {name}")];
        assert!(number("store requests per call") < 0.5 * number("store requests per call without leases"));
        assert!(findings.numbers["1000 calls/s: bytes per call"] > 1.0, "{:?}", findings.numbers);
        assert!(findings.numbers["1000 calls/s: bytes per signal"] > 1.0, "{:?}", findings.numbers);
        assert_eq!((findings.tables.len(), findings.plots.len()), (3, 1));
    }
}
