//! Parameters of the experiment.

use std::f64::consts::TAU;

use serde::Deserialize;

use crate::scenario::arrivals::MINUTE_MS;
use crate::scenario::setting_error::SettingError;

/// Regions by the hour of their noon, each four hours after the one before. The first one is the home of the ledger.
pub(super) const REGIONS: [&str; 6] = ["eu", "sa", "us", "au", "as", "me"];
/// Largest number of calls of a run, which are in memory at once.
const CALLS_MAX: f64 = 3e6;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct GlobalQuotaSettings {
    /// Quota per minute over all regions, and the units of it that are reserved for each.
    pub(super) quota: u64,
    pub(super) floor: u64,
    pub(super) term_s: u64,
    /// Time from a region to the home cluster, one way.
    pub(super) link_ms: u64,
    /// Intervals in which regions compare budgets with the demand. All parts but the comparison use the first one.
    pub(super) rebalance_ms: Vec<u64>,
    /// Length of the compressed day.
    pub(super) day_min: u64,
    /// Demand of each region at its noon, in quotas, and the part of it by night.
    pub(super) peaks: Vec<f64>,
    pub(super) night: f64,
    /// Time for which each region is cut off.
    pub(super) cut_min: u64,
    /// Units that a region admits without asking in the free-zone approach.
    pub(super) free: u64,
    /// Times for which a client stays at a region, length of its run, and its demand in quotas.
    pub(super) rotation_s: Vec<u64>,
    pub(super) rotation_min: u64,
    pub(super) rotation_demand: f64,
    pub(super) cost: CostSettings,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CostSettings {
    /// Numbers of counters above the floors, one for each run; as many are below.
    pub(super) counters: Vec<u32>,
    pub(super) quota: u64,
    pub(super) floor: u64,
    /// Demand of a counter above the floors, in quotas, and of one below them, in floors per region.
    pub(super) demand: f64,
    pub(super) demand_below: f64,
    /// Time before the counting, and of it.
    pub(super) warm_min: u64,
    pub(super) minutes: u64,
}

impl GlobalQuotaSettings {
    /// Refuses values that do not fit.
    pub(super) fn check_values(&self) -> Result<(), SettingError> {
        let count = REGIONS.len() as u64;
        SettingError::unless_in("quota", self.quota, count..=100_000)?;
        SettingError::unless_in("floor", self.floor, 0..=self.quota / count)?;
        SettingError::unless_in("term_s", self.term_s, 5..=3_600)?;
        SettingError::unless_in("link_ms", self.link_ms, 1..=1_000)?;
        if self.rebalance_ms.is_empty() || self.rebalance_ms.iter().any(|ms| !(50..=60_000).contains(ms)) {
            return Err(SettingError::new(
                "rebalance_ms",
                "has a time outside 50 to 60000, or none; write one or more",
            ));
        }
        SettingError::unless_in("day_min", self.day_min, 24..=1_440)?;
        SettingError::unless_in("peaks", self.peaks.len(), REGIONS.len()..=REGIONS.len())?;
        if self.peaks.iter().any(|peak| !(0.0..=10.0).contains(peak)) {
            return Err(SettingError::new("peaks", "has a demand outside 0 to 10; write quotas"));
        }
        SettingError::unless_in("night", self.night, 0.0..=1.0)?;
        SettingError::unless_in("cut_min", self.cut_min, 1..=self.day_min / count)?;
        SettingError::unless_in("free", self.free, 0..=self.quota)?;
        if self.rotation_s.is_empty() || self.rotation_s.iter().any(|stay_s| !(1..=3_600).contains(stay_s)) {
            return Err(SettingError::new("rotation_s", "has a time outside 1 to 3600, or none; write one or more"));
        }
        SettingError::unless_in("rotation_min", self.rotation_min, 1..=240)?;
        SettingError::unless_in("rotation_demand", self.rotation_demand, 0.1..=10.0)?;
        self.cost.check()?;
        #[expect(clippy::cast_precision_loss, reason = "an estimate")]
        let calls = self.quota as f64
            * (self.day_min as f64 * self.peaks.iter().sum::<f64>())
                .max(self.rotation_min as f64 * self.rotation_demand);
        if calls > CALLS_MAX {
            return Err(SettingError::new(
                "quota",
                format!("makes up to {calls:.0} calls in a run; at most 3 million"),
            ));
        }
        Ok(())
    }

    pub(super) fn day_ms(&self) -> u64 {
        self.day_min * MINUTE_MS
    }

    pub(super) fn cut_ms(&self) -> u64 {
        self.cut_min * MINUTE_MS
    }

    /// Returns the least and the greatest demand of all regions, in quotas.
    pub(super) fn demands(&self) -> (f64, f64) {
        let at = |minute: u32| {
            let part = f64::from(minute) / 1_440.0;
            (0..REGIONS.len()).map(|region| demand(self, region, part)).sum::<f64>()
        };
        (0..1_440).map(at).fold((f64::MAX, 0.0), |(least, most), sum| (least.min(sum), most.max(sum)))
    }
}

impl CostSettings {
    fn check(&self) -> Result<(), SettingError> {
        if self.counters.is_empty() || self.counters.iter().any(|counters| !(1..=20_000).contains(counters)) {
            return Err(SettingError::new("counters", "has a number outside 1 to 20000, or none; write one or more"));
        }
        SettingError::unless_in("quota", self.quota, REGIONS.len() as u64..=100_000)?;
        SettingError::unless_in("floor", self.floor, 1..=self.quota / REGIONS.len() as u64)?;
        SettingError::unless_in("demand", self.demand, 0.01..=10.0)?;
        SettingError::unless_in("demand_below", self.demand_below, 0.01..=1.0)?;
        SettingError::unless_in("warm_min", self.warm_min, 1..=60)?;
        SettingError::unless_in("minutes", self.minutes, 1..=600)
    }
}

/// Returns the demand of a region at a part of the day from 0 to 1, in quotas: half a sine wave by day, little by night.
#[expect(clippy::cast_precision_loss, reason = "six regions")]
pub(super) fn demand(settings: &GlobalQuotaSettings, region: usize, part: f64) -> f64 {
    let noon = region as f64 / REGIONS.len() as f64;
    let sun = (TAU * (part - noon)).cos().max(0.0);
    settings.peaks[region] * (settings.night + (1.0 - settings.night) * sun)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Parameters other than those of the program's file.
    pub(in super::super) fn small() -> GlobalQuotaSettings {
        GlobalQuotaSettings {
            quota: 120,
            floor: 2,
            term_s: 30,
            link_ms: 20,
            rebalance_ms: vec![1_000, 3_000],
            day_min: 24,
            peaks: vec![0.8, 0.3, 1.2, 0.1, 0.5, 0.2],
            night: 0.1,
            cut_min: 3,
            free: 10,
            rotation_s: vec![30],
            rotation_min: 3,
            rotation_demand: 2.0,
            cost: CostSettings {
                counters: vec![2, 4],
                quota: 120,
                floor: 10,
                demand: 0.9,
                demand_below: 0.1,
                warm_min: 1,
                minutes: 1,
            },
        }
    }

    #[test]
    fn bad_parameters_are_refused() {
        assert!(small().check_values().is_ok());
        let refused: [fn(&mut GlobalQuotaSettings); 6] = [
            |bad| bad.floor = 21,
            |bad| bad.rebalance_ms.clear(),
            |bad| bad.peaks = vec![1.0],
            |bad| bad.cut_min = 5,
            |bad| bad.cost.floor = 0,
            |bad| (bad.day_min, bad.quota) = (1_440, 100_000),
        ];
        for (place, change) in refused.into_iter().enumerate() {
            let mut bad = small();
            change(&mut bad);
            assert!(bad.check_values().is_err(), "{place}");
        }
    }

    #[test]
    fn the_demand_passes_the_quota_only_at_some_hours() {
        let (least, most) = small().demands();
        assert!(least < 0.8 && most > 1.2, "{least} to {most}");
    }
}
