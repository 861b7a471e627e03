//! Adversary: the arrival times that fill a true window most, found by search, against the bounds that `tollgate rules validate`
//! prints.
//!
//! The algorithms are attacked on one store without agents, the consistencies in a simulated fleet. A search that exceeds a printed
//! bound has found a fault of the bound.

mod settings;
mod attack;
mod search;
mod store_target;
mod target_store;
mod target_rules;
mod fleet_target;
mod attack_target;
mod pictures;

use indexmap::IndexMap;
use indicatif::ProgressBar;
use tollgate_core::messages::signals::FRESH_MS;

use super::experiment::Experiment;
use super::parallel::run_all;
use super::result::{ResultTable, ScenarioFindings};
use super::setting_error::SettingError;
use attack_target::{AttackTarget, TargetResult};
use fleet_target::FleetTarget;
use search::WorstAttack;
pub(super) use settings::AdversarySettings;
use store_target::StoreTarget;

/// Captions of the tables.
const ALGORITHMS: &str = "Algorithms on one store, without agents. found: units of the fullest true window, in percent of the quota. \
    bound: that of `rules validate`, at worst, in the same unit. of bound: the largest part of the bound that a window of any attack \
    held. calls: those of the attack with the fullest window. 1s and 60s: time in which the burst of a bucket is refilled.";
const FLEETS: &str = "Rules in a fleet. The store is late now and then (REDIS LATE of `rules validate`), or the store, or the store and the \
    bus, are lost for a window. \"+ 3 s\": the bound contains the calls \
    of any 3 s, \"+ 6 s\": twice as many, around an edge. The largest part of it may be that of another attack. Logs and \
    buckets have no leases: `bounded` gives them the same as `strict`. `eventual` counts in windows without a burst only.";

impl Experiment for AdversarySettings {
    fn check(&self) -> Result<(), SettingError> {
        SettingError::unless_in("quota", self.quota, 1..=1_000)?;
        SettingError::unless_in("agents", self.agents, 1..=20)?;
        SettingError::unless_in("restarts", self.restarts, 1..=100)?;
        SettingError::unless_in("store_generations", self.store_generations, 1..=10_000)?;
        SettingError::unless_in("store_attacks", self.store_attacks, 1..=1_000)?;
        SettingError::unless_in("fleet_generations", self.fleet_generations, 1..=10_000)?;
        SettingError::unless_in("fleet_attacks", self.fleet_attacks, 1..=1_000)
    }

    fn names(&self) -> Vec<String> {
        let results: Vec<_> =
            self.targets().iter().map(|target| target.result(self.quota, WorstAttack::default())).collect();
        numbers(&results).into_keys().collect()
    }

    fn run(&self, seed: u64, bar: &ProgressBar) -> ScenarioFindings {
        let targets = self.targets();
        bar.set_length(targets.len() as u64);
        let results = run_all(&targets, |target| {
            let worst = target.search(self, seed);
            bar.inc(1);
            target.result(self.quota, worst)
        });
        let found = |name: &str| {
            let result = results.iter().find(|result| result.name == name).expect("it is a target");
            format!("{:.0}%", result.found_percent())
        };
        let beaten: Vec<&str> =
            results.iter().filter(|result| result.worst.of_bound > 100.0).map(|result| result.name).collect();
        let verdict = if beaten.is_empty() {
            "No search exceeds a printed bound".to_owned()
        } else {
            format!("The search exceeds the printed bound of: {}", beaten.join("; "))
        };
        ScenarioFindings {
            finding: format!(
                "The fullest true window that a search finds holds {} of the quota with the interpolated estimate, {} with the conservative \
                 one, {} under fixed_window. In a fleet, it holds {} under `strict` and {} under `bounded`. {verdict}.",
                found("interpolated"),
                found("conservative"),
                found("fixed_window"),
                found("strict"),
                found("bounded"),
            ),
            tables: tables(&results),
            plots: pictures::plots(&targets, &results),
            numbers: numbers(&results),
        }
    }
}

impl AdversarySettings {
    fn targets(&self) -> Vec<AttackTarget> {
        let stores = StoreTarget::all(self.quota).into_iter().map(AttackTarget::Store);
        stores.chain(FleetTarget::all(self.quota, self.agents).into_iter().map(AttackTarget::Fleet)).collect()
    }
}

fn numbers(results: &[TargetResult]) -> IndexMap<String, f64> {
    let mut numbers = IndexMap::new();
    for result in results {
        numbers.insert(format!("{}: found, % of the quota", result.name), result.found_percent());
        numbers.insert(format!("{}: found, % of the bound", result.name), result.worst.of_bound);
    }
    numbers
}

/// Returns a table of the algorithms, and one of the fleets.
fn tables(results: &[TargetResult]) -> Vec<ResultTable> {
    let row = |(place, result): (usize, &TargetResult)| {
        let calls = match result.bound.times_calls {
            0 => String::new(),
            times => format!(" + {} s", times * FRESH_MS / 1_000),
        };
        vec![
            format!("{place:2} {}", result.name),
            format!("{:.0}", result.found_percent()),
            format!("{:.0}{calls}", result.bound_percent()),
            format!("{:.1}", result.worst.of_bound),
            result.worst.outcome.calls.to_string(),
        ]
    };
    let table = |caption: &str, is_of_fleet: bool| ResultTable {
        caption: caption.to_owned(),
        header: ["rule", "found, %", "bound, %", "of bound, %", "calls"].map(str::to_owned).to_vec(),
        rows: (1..).zip(results).filter(|(_, result)| result.is_of_fleet == is_of_fleet).map(row).collect(),
    };
    vec![table(ALGORITHMS, false), table(FLEETS, true)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::experiment::tests::findings_of;

    /// Returns the parameters of the program's file.
    fn of_program() -> AdversarySettings {
        let mut file: toml::Table = toml::from_str(include_str!("../../../scenarios/adversary.toml")).expect("TOML");
        let toml::Value::Table(mut settings) = file.remove("experiment").expect("an experiment") else {
            panic!("a table")
        };
        settings.remove("kind");
        settings.try_into().expect("its settings")
    }

    /// With this seed, the search once exceeded the bound of `eventual`, which had the calls of 3 s for both sides of an edge.
    #[test]
    fn the_search_of_seed_14_keeps_to_the_bound_of_eventual() {
        let settings = of_program();
        let all = settings.targets();
        let names = ["eventual", "eventual, fixed_window"];
        let targets: Vec<_> = all.into_iter().filter(|target| names.contains(&target.name())).collect();
        assert_eq!(targets.len(), names.len());
        for (target, worst) in targets.iter().zip(run_all(&targets, |target| target.search(&settings, 14))) {
            assert!(worst.of_bound <= 100.0, "{}: {worst:?}", target.name());
        }
    }

    #[test]
    fn each_finding_has_its_numbers() {
        let settings = AdversarySettings {
            quota: 10,
            agents: 2,
            restarts: 1,
            store_generations: 5,
            store_attacks: 5,
            fleet_generations: 1,
            fleet_attacks: 2,
        };
        let findings = findings_of(&settings);
        assert!(findings.finding.starts_with("The fullest true window that a search finds"), "{}", findings.finding);
    }
}
