//! Parameters of the experiment.

use serde::Deserialize;

use super::contenders::default_parts;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FalseDenialSettings {
    /// Number of callers in each cell.
    pub(super) keys: u64,
    /// Quotas, in calls per minute.
    pub(super) quotas: Vec<u64>,
    /// Demands, in quotas.
    pub(super) loads: Vec<f64>,
    pub(super) sub_windows: Vec<u32>,
    /// Minutes that are not measured, after callers begin to call.
    pub(super) warm_up_minutes: u64,
    pub(super) minutes: u64,
}

impl FalseDenialSettings {
    /// Returns the expected number of calls of the busiest caller, and of all.
    #[expect(clippy::cast_precision_loss, reason = "an estimate")]
    pub(super) fn calls(&self) -> [f64; 2] {
        let minutes = (1 + self.warm_up_minutes + self.minutes) as f64;
        let (quotas, loads) = (self.quotas.iter().map(|quota| *quota as f64), self.loads.iter().copied());
        let busiest = quotas.clone().fold(0.0, f64::max) * loads.clone().fold(0.0, f64::max) * minutes;
        [busiest, quotas.sum::<f64>() * loads.sum::<f64>() * minutes * self.keys as f64]
    }

    /// Returns the number of sub-windows that sentences and pictures show: the default, or the smallest.
    pub(super) fn shown_parts(&self) -> u32 {
        let default = self.sub_windows.iter().copied().find(|parts| *parts == default_parts());
        default.unwrap_or(self.sub_windows[0])
    }

    pub(super) fn load_nearest_to(&self, wanted: f64) -> f64 {
        let distance = |load: &f64| (load - wanted).abs();
        self.loads.iter().copied().min_by(|a, b| distance(a).total_cmp(&distance(b))).expect("there is a load")
    }

    pub(super) fn cells(&self) -> impl Iterator<Item = (f64, u64)> {
        self.loads.iter().flat_map(|load| self.quotas.iter().map(|quota| (*load, *quota)))
    }
}
