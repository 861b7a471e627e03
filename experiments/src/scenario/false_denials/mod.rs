//! False denials and excess of each algorithm under Poisson arrivals, judged by an exact list of its own admissions.
//!
//! One store, no agents: what is wrong here is the algorithm's own error. A cell is one load and one quota; all algorithms see its
//! calls. Cells are independent, so that all processors share them. The draws of a caller are the same under each load.

mod contenders;
mod settings;
mod tally;
mod cell;
mod pictures;

use fastrand::Rng;
use indexmap::IndexMap;
use indicatif::ProgressBar;
use tollgate_core::clock::Timestamp;
use tollgate_core::rules::Quota;
use tollgate_core::window::Window;

use super::arrivals::{BEGIN, MINUTE_MS, after_begin, gap_ms};
use super::experiment::Experiment;
use super::parallel::run_all;
use super::result::{ResultTable, ScenarioFindings};
use super::setting_error::SettingError;
use cell::Cell;
use contenders::{Contender, contenders};
pub(super) use settings::FalseDenialSettings;
use tally::Tally;

/// Largest number of calls of one caller, which are in memory at once, and of all callers.
const CALLER_CALLS_MAX: f64 = 1e7;
const CALLS_MAX: f64 = 1e10;
/// Explanation of the first table.
const COLUMNS: &str = "deny: calls denied although the last minute had room, in percent of the calls, by quota per minute. most: \
    units of the fullest minute in percent of the quota. The number after an estimate is that of sub-windows. The time after a \
    bucket is that in which its burst is refilled. Callers begin idle.";

impl Experiment for FalseDenialSettings {
    fn check(&self) -> Result<(), SettingError> {
        let ascends =
            |key, is_sorted| if is_sorted { Ok(()) } else { Err(SettingError::new(key, "is not in ascending order")) };
        SettingError::unless_in("keys", self.keys, 1..=1_000_000)?;
        SettingError::unless_in("warm_up_minutes", self.warm_up_minutes, 0..=1_000)?;
        SettingError::unless_in("minutes", self.minutes, 1..=1_000)?;
        for quota in &self.quotas {
            SettingError::unless_in("quotas", *quota, 1..=10_000)?;
        }
        ascends("quotas", self.quotas.is_sorted_by(|a, b| a < b))?;
        for load in &self.loads {
            SettingError::unless_in("loads", *load, 0.01..=100.0)?;
        }
        ascends("loads", self.loads.is_sorted_by(|a, b| a < b))?;
        if let Some(parts) = self.sub_windows.iter().find(|parts| Window::new(MINUTE_MS, **parts).is_err()) {
            return Err(SettingError::new("sub_windows", format!("has {parts}, which does not divide the minute")));
        }
        ascends("sub_windows", self.sub_windows.is_sorted_by(|a, b| a < b))?;
        for (key, len) in
            [("quotas", self.quotas.len()), ("loads", self.loads.len()), ("sub_windows", self.sub_windows.len())]
        {
            SettingError::unless_in(key, len, 1..=20).map_err(|_| SettingError::new(key, "needs 1 to 20 values"))?;
        }
        let [of_caller, of_all] = self.calls();
        if of_caller > CALLER_CALLS_MAX || of_all > CALLS_MAX {
            let sizes = format!("gives a caller up to {of_caller:.0} calls, and all of them {of_all:.0}");
            return Err(SettingError::new("minutes", format!("{sizes}; at most 10 million and 10 billion")));
        }
        Ok(())
    }

    fn names(&self) -> Vec<String> {
        let contenders = contenders(&self.sub_windows);
        let empty = |(load, quota)| Cell { load, quota, tallies: vec![Tally::default(); contenders.len()] };
        let cells: Vec<Cell> = self.cells().map(empty).collect();
        numbers(&contenders, &cells).into_keys().collect()
    }

    fn run(&self, seed: u64, bar: &ProgressBar) -> ScenarioFindings {
        let contenders = contenders(&self.sub_windows);
        let places: Vec<(f64, u64)> = self.cells().collect();
        bar.set_length(u64::try_from(places.len()).unwrap_or(u64::MAX) * self.keys);
        let cells = run_all(&places, |(load, quota)| {
            let tallies = tallies(self, &contenders, *load, *quota, seed, bar);
            Cell { load: *load, quota: *quota, tallies }
        });
        let numbers = numbers(&contenders, &cells);
        ScenarioFindings {
            finding: finding(self, &numbers),
            tables: self.loads.iter().map(|load| table(self, &contenders, &cells, *load)).collect(),
            plots: pictures::plots(self, &contenders, &cells),
            numbers,
        }
    }
}

/// Makes and judges the calls of all callers of a cell.
fn tallies(
    settings: &FalseDenialSettings,
    contenders: &[Contender],
    load: f64,
    quota: u64,
    seed: u64,
    bar: &ProgressBar,
) -> Vec<Tally> {
    let per_minute = Quota::new(quota, MINUTE_MS).expect("a quota in range");
    let limits: Vec<_> = contenders.iter().map(|contender| contender.limit(per_minute)).collect();
    let measured_from = BEGIN.plus_ms((1 + settings.warm_up_minutes) * MINUTE_MS);
    let mut tallies = vec![Tally::default(); contenders.len()];
    let mut seeds = Rng::with_seed(seed.wrapping_add(quota));
    for _ in 0..settings.keys {
        let calls: Vec<Timestamp> = calls(settings, load, quota, seeds.fork()).collect();
        for (limit, tally) in limits.iter().zip(&mut tallies) {
            tally.add(Tally::of(&calls, limit, per_minute, measured_from));
        }
        bar.inc(1);
    }
    tallies
}

/// Returns the calls of a caller: a Poisson process that begins at any instant of the first minute.
#[expect(clippy::cast_precision_loss, reason = "small times")]
fn calls(settings: &FalseDenialSettings, load: f64, quota: u64, mut rng: Rng) -> impl Iterator<Item = Timestamp> {
    let end_ms = ((1 + settings.warm_up_minutes + settings.minutes) * MINUTE_MS) as f64;
    let mut at_ms = rng.f64() * MINUTE_MS as f64;
    std::iter::from_fn(move || {
        at_ms += gap_ms(&mut rng, load * quota as f64);
        (at_ms < end_ms).then(|| after_begin(at_ms))
    })
}

/// Returns the numbers of each contender, load and quota.
fn numbers(contenders: &[Contender], cells: &[Cell]) -> IndexMap<String, f64> {
    let mut numbers = IndexMap::new();
    for (position, Contender { name, .. }) in contenders.iter().enumerate() {
        for Cell { load, quota, tallies } in cells {
            let (tally, name) = (tallies[position], format!("{name} at {load} of {quota}/min"));
            numbers.insert(format!("{name}: false denials, %"), tally.denied_percent());
            numbers.insert(format!("{name}: excess, % of admissions"), tally.excess_percent());
            numbers.insert(format!("{name}: worst minute, % of quota"), tally.worst_percent());
        }
    }
    numbers
}

/// States the false denials at the load nearest to 0.7, and the worst minute at the largest load.
fn finding(settings: &FalseDenialSettings, numbers: &IndexMap<String, f64>) -> String {
    let (parts, load) = (settings.shown_parts(), settings.load_nearest_to(0.7));
    let (small, large) = (settings.quotas[0], settings.quotas[settings.quotas.len() - 1]);
    let most = settings.loads[settings.loads.len() - 1];
    let denied =
        |name: &str, quota| format!("{:.2}%", numbers[&format!("{name} at {load} of {quota}/min: false denials, %")]);
    let both =
        |name: &str| format!("{} at {small}/min and {} at {large}/min", denied(name, small), denied(name, large));
    format!(
        "At {load} of the quota, sliding_window with the interpolated estimate and {parts} sub-windows denies {} of the calls falsely; \
         with the conservative estimate {}; sliding_log {}. At a demand of {most} quotas of {large}/min, the fullest minute of the \
         interpolated estimate holds {:.0}% of the quota.",
        both(&format!("interpolated {parts}")),
        both(&format!("conservative {parts}")),
        both("sliding_log"),
        numbers[&format!("interpolated {parts} at {most} of {large}/min: worst minute, % of quota")]
    )
}

fn table(settings: &FalseDenialSettings, contenders: &[Contender], cells: &[Cell], load: f64) -> ResultTable {
    let of_quota = |quota: &u64| cells.iter().find(|cell| cell.load.total_cmp(&load).is_eq() && cell.quota == *quota);
    let row = |(position, contender): (usize, &Contender)| {
        let tallies = || settings.quotas.iter().filter_map(of_quota).map(move |cell| cell.tallies[position]);
        let denied = tallies().map(|tally| format!("{:.2}%", tally.denied_percent()));
        let worst = tallies().map(|tally| format!("{:.0}%", tally.worst_percent()));
        std::iter::once(contender.name.clone()).chain(denied).chain(worst).collect()
    };
    let columns = |kind: &'static str| settings.quotas.iter().map(move |quota| format!("{kind} {quota}"));
    let is_first = settings.loads[0].total_cmp(&load).is_eq();
    ResultTable {
        caption: format!("Demand of {load} quotas{}", if is_first { format!(". {COLUMNS}") } else { String::new() }),
        header: std::iter::once("algorithm".to_owned()).chain(columns("deny")).chain(columns("most")).collect(),
        rows: contenders.iter().enumerate().map(row).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::experiment::tests::findings_of;

    /// Parameters other than those of the program's file.
    fn small() -> FalseDenialSettings {
        let (quotas, loads, sub_windows) = (vec![5], vec![1.5], vec![6]);
        FalseDenialSettings { keys: 2, quotas, loads, sub_windows, warm_up_minutes: 0, minutes: 1 }
    }

    #[test]
    fn calls_come_at_the_rate_of_the_load() {
        let settings = FalseDenialSettings { minutes: 999, ..small() };
        let calls: Vec<Timestamp> = calls(&settings, 0.7, 100, Rng::with_seed(1)).collect();
        assert!(calls.is_sorted());
        let mean = calls.len() / 1_000;
        assert!((68..=72).contains(&mean), "{mean} calls a minute");
    }

    /// No sentence depends on a cell that is missing.
    #[test]
    fn each_finding_has_its_numbers() {
        let settings = small();
        let findings = findings_of(&settings);
        assert!(findings.finding.starts_with("At 1.5 of the quota,"), "{}", findings.finding);
        let [denials, _] = &findings.plots[..] else { panic!("two plots") };
        assert!(denials.title.starts_with("Demand of 1.5 times 5/min: interpolated 6 denies "), "{}", denials.title);
    }
}
