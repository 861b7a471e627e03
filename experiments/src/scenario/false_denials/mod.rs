//! False denials and excess of each algorithm under Poisson arrivals, judged by an exact list of its own admissions.
//!
//! One store, no agents: what is wrong here is the algorithm's own error. A cell is one load and one quota; all algorithms see its
//! calls. Cells are independent, so that all processors share them.

mod pictures;

use std::num::NonZeroUsize;
use std::sync::Mutex;
use std::thread;

use fastrand::Rng;
use indexmap::IndexMap;
use indicatif::ProgressBar;
use serde::Deserialize;
use tollgate_core::algorithm::{Algorithm, CounterState, Limit};
use tollgate_core::clock::Timestamp;
use tollgate_core::rules::Quota;
use tollgate_core::window::{Estimate, Window};

use super::result::{ResultTable, ScenarioFindings};
use crate::oracle::Oracle;

const MINUTE_MS: u64 = 60_000;
/// Minutes before the measured ones.
const WARM_UP_MINUTES: u64 = 1;
/// Beginning of all calls; each caller begins at a phase of its own.
const BEGIN: Timestamp = Timestamp::from_ms(1_000 * MINUTE_MS);
/// Explanation of the first table.
const COLUMNS: &str = "false: false denials in percent of the calls, by quota per minute. over: admissions beyond the quota in \
    percent of all admissions. The number after an estimate is that of sub-windows. A call that leaky_bucket delays counts at its \
    arrival.";

/// Parameters of the experiment.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::scenario) struct FalseDenialSettings {
    /// Number of callers in each cell.
    keys: u64,
    /// Quotas, in calls per minute.
    quotas: Vec<u64>,
    /// Demands, in quotas.
    loads: Vec<f64>,
    /// Numbers of sub-windows.
    sub_windows: Vec<u32>,
    /// Measured minutes.
    minutes: u64,
}

/// An algorithm with its parameters.
struct Contender {
    name: String,
    algorithm: Algorithm,
    parts: u32,
}

/// Calls of a contender in a cell.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    calls: u64,
    admitted: u64,
    falsely_denied: u64,
    excess: u64,
}

/// Tallies of all contenders in a cell.
struct Cell {
    load: f64,
    quota: u64,
    tallies: Vec<Tally>,
}

impl FalseDenialSettings {
    pub(in crate::scenario) fn check(&self) -> Result<(), &'static str> {
        if !(1..=1_000_000).contains(&self.keys) {
            return Err("`keys` is 1 to 1000000");
        }
        if self.quotas.is_empty() || self.quotas.iter().any(|quota| !(1..=10_000).contains(quota)) {
            return Err("`quotas` are 1 to 10000 calls");
        }
        if self.loads.is_empty() || self.loads.iter().any(|load| !(0.01..=100.0).contains(load)) {
            return Err("`loads` are 0.01 to 100 quotas");
        }
        if self.sub_windows.iter().any(|parts| Window::new(MINUTE_MS, *parts).is_err()) {
            return Err("`sub_windows` divide the minute into whole milliseconds");
        }
        if !(1..=1_000).contains(&self.minutes) {
            return Err("`minutes` is 1 to 1000");
        }
        Ok(())
    }

    fn contenders(&self) -> Vec<Contender> {
        let sliding = |(name, estimate)| {
            self.sub_windows.iter().map(move |parts| Contender {
                name: format!("{name} {parts}"),
                algorithm: Algorithm::SlidingWindow(estimate),
                parts: *parts,
            })
        };
        let single = |(name, algorithm): (&str, Algorithm)| Contender { name: name.to_owned(), algorithm, parts: 1 };
        let others = [
            ("sliding_log", Algorithm::SlidingLog),
            ("fixed_window", Algorithm::FixedWindow),
            ("token_bucket", Algorithm::TokenBucket),
            ("leaky_bucket", Algorithm::LeakyBucket),
        ];
        let estimates = [("interpolated", Estimate::Interpolated), ("conservative", Estimate::Conservative)];
        estimates.into_iter().flat_map(sliding).chain(others.into_iter().map(single)).collect()
    }
}

impl Contender {
    fn limit(&self, quota: u64) -> Limit {
        let window = Window::new(MINUTE_MS, self.parts).expect("the number of sub-windows is checked");
        let is_bucket = matches!(self.algorithm, Algorithm::TokenBucket | Algorithm::LeakyBucket);
        Limit { algorithm: self.algorithm, units: quota, window, burst: if is_bucket { quota } else { 0 } }
    }
}

impl Tally {
    fn add(&mut self, other: Self) {
        self.calls += other.calls;
        self.admitted += other.admitted;
        self.falsely_denied += other.falsely_denied;
        self.excess += other.excess;
    }

    /// Returns the false denials in percent of the calls.
    fn denied_percent(&self) -> f64 {
        percent(self.falsely_denied, self.calls)
    }

    /// Returns the excess in percent of the admissions.
    fn excess_percent(&self) -> f64 {
        percent(self.excess, self.admitted)
    }
}

/// Runs the experiment.
pub(in crate::scenario) fn run(settings: &FalseDenialSettings, seed: u64, bar: &ProgressBar) -> ScenarioFindings {
    let contenders = settings.contenders();
    let cells: Vec<(f64, u64)> =
        settings.loads.iter().flat_map(|load| settings.quotas.iter().map(|quota| (*load, *quota))).collect();
    bar.set_length(u64::try_from(cells.len()).unwrap_or(u64::MAX) * settings.keys);
    let (waiting, done) = (Mutex::new(cells.iter().enumerate()), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, NonZeroUsize::get) {
            scope.spawn(|| {
                // The lock must not be held while a cell runs.
                while let Some((index, (load, quota))) = { waiting.lock().expect("no thread panics").next() } {
                    let tallies = tallies(settings, &contenders, *load, *quota, seed, bar);
                    done.lock().expect("no thread panics").push((index, Cell { load: *load, quota: *quota, tallies }));
                }
            });
        }
    });
    let mut cells = done.into_inner().expect("no thread panics");
    cells.sort_by_key(|(index, _)| *index);
    let cells: Vec<Cell> = cells.into_iter().map(|(_, cell)| cell).collect();
    let numbers = numbers(settings, &contenders, &cells);
    ScenarioFindings {
        finding: finding(&numbers),
        tables: settings.loads.iter().map(|load| table(settings, &contenders, &cells, *load)).collect(),
        plots: pictures::plots(settings, &contenders, &cells),
        numbers,
    }
}

/// Makes the calls of all callers of a cell.
fn tallies(
    settings: &FalseDenialSettings,
    contenders: &[Contender],
    load: f64,
    quota: u64,
    seed: u64,
    bar: &ProgressBar,
) -> Vec<Tally> {
    let limits: Vec<Limit> = contenders.iter().map(|contender| contender.limit(quota)).collect();
    let measured_from = BEGIN.plus_ms((WARM_UP_MINUTES + 1) * MINUTE_MS);
    let exact = Quota::new(quota, MINUTE_MS).expect("a quota in range");
    let mut tallies = vec![Tally::default(); contenders.len()];
    for key in 0..settings.keys {
        let calls: Vec<Timestamp> = calls(settings, load, quota, Rng::with_seed(seed ^ (key << 32) ^ quota)).collect();
        for (limit, tally) in limits.iter().zip(&mut tallies) {
            let (mut state, mut oracle, mut of_key) = (CounterState::new(limit), Oracle::new(exact), Tally::default());
            for at in &calls {
                let is_admitted = state.step(limit, *at, 1).admitted;
                let is_wrong = if is_admitted { oracle.admit(*at, 1) } else { oracle.has_room(*at, 1) };
                if *at < measured_from {
                    continue;
                }
                of_key.calls += 1;
                of_key.admitted += u64::from(is_admitted);
                of_key.excess += u64::from(is_admitted && is_wrong);
                of_key.falsely_denied += u64::from(!is_admitted && is_wrong);
            }
            tally.add(of_key);
        }
        bar.inc(1);
    }
    tallies
}

/// Returns the calls of a caller: a Poisson process that begins at any instant of a minute.
#[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small times")]
fn calls(settings: &FalseDenialSettings, load: f64, quota: u64, mut rng: Rng) -> impl Iterator<Item = Timestamp> {
    let end_ms = ((WARM_UP_MINUTES + 1 + settings.minutes) * MINUTE_MS) as f64;
    let (gap_ms, mut at_ms) = (MINUTE_MS as f64 / (load * quota as f64), rng.f64() * MINUTE_MS as f64);
    std::iter::from_fn(move || {
        at_ms -= (1.0 - rng.f64()).ln() * gap_ms;
        (at_ms < end_ms).then(|| BEGIN.plus_ms(at_ms as u64))
    })
}

/// Returns false denials and excess by contender and load: of all calls, and by quota.
fn numbers(settings: &FalseDenialSettings, contenders: &[Contender], cells: &[Cell]) -> IndexMap<String, f64> {
    let mut numbers = IndexMap::new();
    let mut enter = |name: String, tally: &Tally| {
        numbers.insert(format!("{name}: false denials, %"), tally.denied_percent());
        numbers.insert(format!("{name}: excess, %"), tally.excess_percent());
    };
    for (position, Contender { name, .. }) in contenders.iter().enumerate() {
        for load in &settings.loads {
            let mut all = Tally::default();
            let of_load = cells.iter().filter(|cell| cell.load.total_cmp(load).is_eq());
            for Cell { quota, tallies, .. } in of_load {
                all.add(tallies[position]);
                enter(format!("{name} at {load}, {quota}/min"), &tallies[position]);
            }
            enter(format!("{name} at {load}"), &all);
        }
    }
    numbers
}

fn finding(numbers: &IndexMap<String, f64>) -> String {
    let percent = |name: &str, kind| {
        numbers.get(&format!("{name}: {kind}, %")).map_or("?".to_owned(), |percent| format!("{percent:.2}%"))
    };
    let denied = |name| percent(name, "false denials");
    format!(
        "At 0.7 of the quota, the default denies {} of all calls falsely, and the conservative estimate {}. Small quotas are the \
         worst: of 10 a minute the default denies {}. sliding_log denies none, and suits quotas that small. At twice the quota, {} of \
         the admissions of the default are beyond the quota.",
        denied("interpolated 12 at 0.7"),
        denied("conservative 12 at 0.7"),
        denied("interpolated 12 at 0.7, 10/min"),
        percent("interpolated 12 at 2", "excess")
    )
}

fn table(settings: &FalseDenialSettings, contenders: &[Contender], cells: &[Cell], load: f64) -> ResultTable {
    let of_quota = |quota: &u64| cells.iter().find(|cell| cell.load.total_cmp(&load).is_eq() && cell.quota == *quota);
    let row = |(position, contender): (usize, &Contender)| {
        let values = |value: fn(&Tally) -> f64| {
            let tallies = settings.quotas.iter().filter_map(of_quota).map(move |cell| cell.tallies[position]);
            tallies.map(move |tally| format!("{:.2}%", value(&tally)))
        };
        let cells = values(Tally::denied_percent).chain(values(Tally::excess_percent));
        std::iter::once(contender.name.clone()).chain(cells).collect()
    };
    let columns = |kind: &'static str| settings.quotas.iter().map(move |quota| format!("{kind} {quota}"));
    let is_first = settings.loads[0].total_cmp(&load).is_eq();
    ResultTable {
        caption: if is_first {
            format!("Demand of {load} quotas. {COLUMNS}")
        } else {
            format!("Demand of {load} quotas")
        },
        header: std::iter::once("algorithm".to_owned()).chain(columns("false")).chain(columns("over")).collect(),
        rows: contenders.iter().enumerate().map(row).collect(),
    }
}

#[expect(clippy::cast_precision_loss, reason = "numbers of calls")]
fn percent(part: u64, whole: u64) -> f64 {
    100.0 * part as f64 / whole.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_come_at_the_rate_of_the_load() {
        let settings =
            FalseDenialSettings { keys: 1, quotas: vec![100], loads: vec![0.7], sub_windows: vec![12], minutes: 998 };
        let calls: Vec<Timestamp> = calls(&settings, 0.7, 100, Rng::with_seed(1)).collect();
        assert!(calls.is_sorted());
        let mean = calls.len() / 1_000;
        assert!((68..=72).contains(&mean), "{mean} calls a minute");
    }
}
