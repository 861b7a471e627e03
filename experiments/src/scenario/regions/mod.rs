//! One quota over several regions: budgets that follow the load around the globe, regions that are cut off from the ledger in turn,
//! clients that move from region to region, the cost of the ledger, and other ways to hold the quota.
//!
//! Each region has an agent, a store, a bus and an aggregator of production, in the world of the simulator. An hour is compressed: a
//! day takes as long as the file says, so the load changes faster than in truth.

mod settings;
mod union;
mod world;
mod baselines;
mod cost;
mod day;
mod outage;
mod rotation;
mod cap;
mod results;
mod findings;
mod tables;
mod pictures;

use indicatif::ProgressBar;

pub(super) use settings::GlobalQuotaSettings;

use super::experiment::Experiment;
use super::parallel::run_all;
use super::result::ScenarioFindings;
use super::setting_error::SettingError;
use baselines::{central_store, free_zone, regional_limits, static_shares};
use cost::{LedgerCost, ledger_cost};
use day::{BaselineTally, DayTally};
use outage::{CutTally, OutageDay, outage_day};
use results::GlobalQuota;
use rotation::{RotationTally, rotation};
use settings::REGIONS;

enum RegionsJob {
    Day(u64),
    Outage,
    Rotation(u64),
    Cost(u32),
}

enum JobResult {
    Day(Box<DayTally>),
    Outage(OutageDay),
    Rotation(RotationTally),
    Cost(LedgerCost),
}

impl Experiment for GlobalQuotaSettings {
    fn check(&self) -> Result<(), SettingError> {
        self.check_values()
    }

    fn names(&self) -> Vec<String> {
        let mut all = GlobalQuota {
            days: vec![DayTally::default(); self.rebalance_ms.len()],
            baselines: vec![BaselineTally::default(); findings::BASELINES.len()],
            rotations: vec![RotationTally::default(); self.rotation_s.len()],
            ..GlobalQuota::default()
        };
        all.costs = self.cost.counters.iter().map(|counters| LedgerCost::without_entries(*counters)).collect();
        all.outage.cuts = vec![CutTally::default(); REGIONS.len()];
        findings::numbers(self, &all).into_keys().collect()
    }

    fn run(&self, seed: u64, bar: &ProgressBar) -> ScenarioFindings {
        let tick_ms = self.rebalance_ms[0];
        // The longest runs come first.
        let mut jobs: Vec<RegionsJob> = self.cost.counters.iter().map(|counters| RegionsJob::Cost(*counters)).collect();
        jobs.push(RegionsJob::Outage);
        jobs.extend(self.rebalance_ms.iter().map(|tick_ms| RegionsJob::Day(*tick_ms)));
        jobs.extend(self.rotation_s.iter().map(|stay_s| RegionsJob::Rotation(*stay_s)));
        bar.set_length(jobs.len() as u64);
        let results = run_all(&jobs, |job| {
            let result = match job {
                RegionsJob::Day(tick_ms) => JobResult::Day(Box::new(day::day(self, seed, *tick_ms))),
                RegionsJob::Outage => JobResult::Outage(outage_day(self, seed, tick_ms)),
                RegionsJob::Rotation(stay_s) => JobResult::Rotation(rotation(self, seed, tick_ms, *stay_s)),
                RegionsJob::Cost(counters) => JobResult::Cost(ledger_cost(self, *counters, seed, tick_ms)),
            };
            bar.inc(1);
            result
        });
        let mut all = GlobalQuota { cap: cap::cap(&self.cost), ..GlobalQuota::default() };
        for result in results {
            match result {
                JobResult::Day(day) => all.days.push(*day),
                JobResult::Outage(outage) => all.outage = outage,
                JobResult::Rotation(tally) => all.rotations.push(tally),
                JobResult::Cost(cost) => all.costs.push(cost),
            }
        }
        let (calls, quota) = (&all.days[0].calls, self.quota);
        let ways = [
            static_shares(calls, quota),
            central_store(calls, quota, self.link_ms),
            free_zone(calls, quota, self.free),
            regional_limits(calls, quota),
        ];
        all.baselines = ways.iter().map(|admitted| BaselineTally::of(admitted)).collect();
        ScenarioFindings {
            finding: findings::finding(self, &all),
            numbers: findings::numbers(self, &all),
            tables: tables::tables(self, &all),
            plots: pictures::plots(self, &all),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::settings::tests::small;
    use crate::scenario::experiment::tests::findings_of;

    #[test]
    fn each_finding_has_its_numbers() {
        let settings = small();
        let findings = findings_of(&settings);
        assert!(findings.finding.starts_with("While the load moves around the globe"), "{}", findings.finding);
        for (name, value) in &findings.numbers {
            assert!(value.is_finite(), "{name}: {value}");
            let is_quota_held = !name.starts_with("free zone") && !name.contains("regional limits");
            assert!(!name.contains("fullest minute") || !is_quota_held || *value <= 100.0, "{name}: {value}");
        }
        assert!(findings.numbers["regional limits: fullest minute, % of quota"] > 100.0);
        assert_eq!(findings.plots.len(), 3);
    }
}
