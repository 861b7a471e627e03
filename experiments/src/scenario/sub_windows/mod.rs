//! Number of sub-windows: calls denied falsely, cost of a step at the store, and requests to the store per call with leases.
//!
//! More sub-windows make the count finer. They also make leases shorter, so a call makes more requests, and a step at the store costs
//! more. The fleets and the requests are simulated with the engines of production. The cost of a step is measured, and a parameter.

mod settings;

use fastrand::Rng;
use indexmap::IndexMap;
use indicatif::ProgressBar;
use tollgate::RuleSet;
use tollgate_core::rules::Quota;
use tollgate_sim::figures::ratio;
use tollgate_sim::{Faults, SimSettings};

use super::arrivals::{BEGIN, MINUTE_MS, after_begin, gap_ms};
use super::experiment::Experiment;
use super::fleet::{CALLER, Fleet, FleetTally};
use super::parallel::run_all;
use super::result::{Axis, Plot, ResultTable, ScenarioFindings, Series, SeriesRole};
use super::setting_error::SettingError;
pub(super) use settings::SubWindowsSettings;
use settings::{ESTIMATES, SubWindowsCase};

/// Interval at which the agents read the bus, which is down once they know each other, in ms.
const READ_MS: u64 = 500;
const COUNTERS_MAX: usize = 100_000;
/// Load of the picture, as near to it as there is one.
const SHOWN_LOAD: f64 = 0.9;

/// A cell, and its tally.
type TalliedCase = (SubWindowsCase, FleetTally);

impl Experiment for SubWindowsSettings {
    fn check(&self) -> Result<(), SettingError> {
        self.checked()
    }

    fn names(&self) -> Vec<String> {
        let empty = |case| (case, FleetTally::default());
        numbers(&self.cases().into_iter().map(empty).collect::<Vec<_>>()).into_keys().collect()
    }

    fn run(&self, seed: u64, bar: &ProgressBar) -> ScenarioFindings {
        let cases = self.cases();
        bar.set_length(cases.len() as u64);
        let tallies = run_all(&cases, |case| {
            let tally = tally(self, *case, seed);
            bar.inc(1);
            tally
        });
        let cells: Vec<TalliedCase> = cases.into_iter().zip(tallies).collect();
        ScenarioFindings {
            finding: finding(self, &cells),
            tables: self.agents.iter().map(|agents| table(self, &cells, *agents)).collect(),
            plots: self.agents.iter().map(|agents| plot(self, &cells, *agents)).collect(),
            numbers: numbers(&cells),
        }
    }
}

/// Returns the numbers of the measured minutes. The calls of a caller are a Poisson process, and go to any agent.
#[expect(clippy::cast_precision_loss, reason = "small numbers")]
fn tally(settings: &SubWindowsSettings, case: SubWindowsCase, seed: u64) -> FleetTally {
    let SubWindowsCase { estimate, parts, quota, agents, load } = case;
    let rule = format!(
        "version: 1\nrules: [{{ name: key, per: [{CALLER}], quota: {quota}/min, estimate: {estimate}, sub_windows: {parts} }}]"
    );
    let rules: RuleSet = tollgate_rules::from_yaml("rule", &rule, 1).expect("a valid rule");
    let sim = SimSettings {
        seed,
        faults: Faults { store_ms_max: 1, ..Faults::default() },
        counters_max: COUNTERS_MAX,
        read_ms: READ_MS,
        ..SimSettings::fleet(BEGIN, agents)
    };
    let mut fleet = Fleet::new(sim, &rules, Quota::new(quota, MINUTE_MS).expect("a quota in range"));
    // Signals decide nothing while the store answers.
    fleet.sim.set_bus_up(false);
    // The calls are the same for each number of sub-windows.
    let (mut rng, callers) = (Rng::with_seed(seed), settings.callers(quota));
    let per_minute = load * (quota * callers) as f64;
    let ends_ms = [settings.warm_up_minutes, settings.warm_up_minutes + settings.minutes];
    let (mut at_ms, mut tally) = (0.0, FleetTally::default());
    for end_ms in ends_ms.map(|minutes| (minutes * MINUTE_MS) as f64) {
        loop {
            at_ms += gap_ms(&mut rng, per_minute);
            if at_ms >= end_ms {
                break;
            }
            fleet.call(after_begin(at_ms), rng.usize(0..agents), &format!("k{}", rng.u64(0..callers)));
        }
        at_ms = end_ms;
        fleet.run_until(after_begin(end_ms));
        tally = fleet.take();
    }
    tally
}

fn denied_percent(tally: &FleetTally) -> f64 {
    100.0 * ratio(tally.under_admitted, tally.calls)
}

fn numbers(cells: &[TalliedCase]) -> IndexMap<String, f64> {
    let mut numbers = IndexMap::new();
    for (case, tally) in cells {
        numbers.insert(format!("{}: denied falsely, %", case.name()), denied_percent(tally));
        numbers.insert(format!("{}: requests per call", case.name()), ratio(tally.requests, tally.calls));
    }
    numbers
}

/// Returns the most false denials under an estimate with so many sub-windows.
fn most_denied(cells: &[TalliedCase], estimate: &str, parts: u32) -> f64 {
    let of = cells.iter().filter(|(case, _)| case.estimate == estimate && case.parts == parts);
    of.map(|(_, tally)| denied_percent(tally)).fold(0.0, f64::max)
}

fn finding(settings: &SubWindowsSettings, cells: &[TalliedCase]) -> String {
    let sentence = |parts: &u32| {
        let [interpolated, conservative] = ESTIMATES.map(|estimate| most_denied(cells, estimate, *parts));
        format!(
            "With {parts} sub-windows, at most {interpolated:.2}% of the calls are denied falsely, {conservative:.2}% conservatively."
        )
    };
    settings.sub_windows.iter().map(sentence).collect::<Vec<_>>().join(" ")
}

fn table(settings: &SubWindowsSettings, cells: &[TalliedCase], agents: usize) -> ResultTable {
    let mut rows = Vec::new();
    for quota in &settings.quotas {
        for (parts, cost) in settings.sub_windows.iter().zip(&settings.step_costs) {
            let of_row = |case: &SubWindowsCase| (case.quota, case.agents, case.parts) == (*quota, agents, *parts);
            let of_row: Vec<_> = cells.iter().filter(|(case, _)| of_row(case)).collect();
            let denied = of_row.iter().map(|(_, tally)| format!("{:.2}", denied_percent(tally)));
            let interpolated = of_row.iter().filter(|(case, _)| case.estimate == ESTIMATES[0]);
            let requests = interpolated.map(|(_, tally)| format!("{:.2}", ratio(tally.requests, tally.calls)));
            let first = [quota.to_string(), parts.to_string(), format!("{cost:.2}")];
            rows.push(first.into_iter().chain(denied).chain(requests).collect());
        }
    }
    let denied = settings.loads.iter().flat_map(|load| ["int.", "con."].map(|name| format!("{name} {load}")));
    let requests = settings.loads.iter().map(|load| format!("req. {load}"));
    ResultTable {
        caption: format!(
            "{agents} agents. quota: calls a minute. n: sub-windows. step: CPU time of a step in Redis beside that of the first row, given by the scenario's file. int., con.: calls denied although the \
             last minute had room, in percent, under each estimate and demand in quotas. req.: requests to the store per call, with leases, \
             interpolated."
        ),
        header: ["quota", "n", "step"].map(str::to_owned).into_iter().chain(denied).chain(requests).collect(),
        rows,
    }
}

/// Draws false denials over the number of sub-windows, for each quota and estimate.
fn plot(settings: &SubWindowsSettings, cells: &[TalliedCase], agents: usize) -> Plot {
    let distance = |load: &f64| (load - SHOWN_LOAD).abs();
    let load = settings.loads.iter().copied().min_by(|a, b| distance(a).total_cmp(&distance(b))).unwrap_or_default();
    let is_shown = |case: &SubWindowsCase| case.agents == agents && case.load.total_cmp(&load).is_eq();
    let mut series = Vec::new();
    for estimate in ESTIMATES {
        for quota in &settings.quotas {
            let of_line = cells.iter().filter(|(case, _)| (case.estimate, case.quota) == (estimate, *quota));
            let of_line = of_line.filter(|(case, _)| is_shown(case));
            let points = of_line.map(|(case, tally)| (f64::from(case.parts), denied_percent(tally))).collect();
            series.push(Series { name: format!("{estimate}, {quota}/min"), role: SeriesRole::Measured, points });
        }
    }
    let most = series.iter().flat_map(|line| &line.points).map(|(_, value)| *value).fold(0.1, f64::max);
    let last = settings.sub_windows.iter().max().copied().unwrap_or(1);
    Plot {
        name: format!("false-denials-{agents}"),
        title: format!("Calls denied falsely at {load} of the quota, {agents} agents"),
        x: Axis::new("sub-windows of a minute", [0.0, f64::from(last)]),
        y: Axis::new("calls denied falsely, %", [0.0, most]),
        series,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::experiment::tests::findings_of;

    /// Parameters other than those of the program's file.
    fn small() -> SubWindowsSettings {
        SubWindowsSettings {
            sub_windows: vec![6, 30],
            step_costs: vec![1.0, 1.1],
            agents: vec![2],
            quotas: vec![60],
            loads: vec![0.9],
            units_per_minute: 600,
            warm_up_minutes: 1,
            minutes: 3,
        }
    }

    /// N4: finer sub-windows deny fewer calls falsely under the conservative estimate.
    #[test]
    fn each_finding_has_its_numbers() {
        let findings = findings_of(&small());
        let denied =
            |parts| findings.numbers[&format!("conservative {parts}, 2 agents, 0.9 of 60/min: denied falsely, %")];
        assert!(denied(30) < denied(6), "{:?}", findings.numbers);
        assert!(findings.finding.starts_with("With 6 sub-windows, at most "), "{}", findings.finding);
    }

    #[test]
    fn bad_parameters_are_refused() {
        let refused = |settings: SubWindowsSettings| format!("{:?}", settings.check().expect_err("it is refused"));
        assert!(refused(SubWindowsSettings { sub_windows: vec![7], ..small() }).contains("does not divide the minute"));
        assert!(refused(SubWindowsSettings { step_costs: vec![1.0], ..small() }).contains("a value for each"));
    }
}
