//! Several rules on each call: the calls that leases deny beyond one store without leases, and the requests to the store that they save.
//!
//! Each row has rules that count together on each call of one tenant. Its calls come in a burst, and as a Poisson process at parts of
//! the quota. The reference decides the same calls at the same instants.

use fastrand::Rng;
use indexmap::IndexMap;
use indicatif::ProgressBar;
use serde::Deserialize;
use tollgate::{Call, RuleSet};
use tollgate_core::clock::Timestamp;
use tollgate_sim::figures::ratio;
use tollgate_sim::reference::ReferenceStore;
use tollgate_sim::{Faults, Observation, SimSettings, Simulation};

use super::arrivals::{BEGIN, after_begin};
use super::experiment::Experiment;
use super::parallel::run_all;
use super::result::{Axis, Plot, ResultTable, ScenarioFindings, Series, SeriesRole};
use super::setting_error::SettingError;

/// Time after which all agents of a fleet know each other, in ms.
const KNOWN_MS: u64 = 3_500;
/// Time in which every call is answered, in ms.
const ANSWERED_MS: u64 = 100;
/// Length of a burst, in ms, and its calls in quotas.
const BURST_MS: u64 = 1_500;
const BURST_QUOTAS: u64 = 3;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct MixedRulesSettings {
    /// Sizes of the fleet.
    agents: Vec<usize>,
    /// Steady demand, as a part of the quota.
    loads: Vec<f64>,
    /// Calls of each run under steady demand.
    calls: u64,
    store_ms_max: u64,
    rows: Vec<MixedRow>,
}

/// Rules that count together on each call.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct MixedRow {
    name: String,
    /// Items of a list of rules.
    rules: String,
    /// Quota of the tenant that a burst wants three times, and its window.
    quota: u64,
    window_ms: u64,
    /// Number of users among whom the calls are drawn.
    users: usize,
}

#[derive(Clone, Copy, Debug, Default)]
struct MixedTally {
    calls: u64,
    admitted: u64,
    /// Admissions by the reference.
    expected: u64,
    requests: u64,
}

/// Tallies of one row with one size of the fleet: of a burst, and of each load.
struct MixedOutcome {
    burst: MixedTally,
    steady: Vec<MixedTally>,
}

impl MixedTally {
    /// Returns the calls that are denied beyond the reference, in percent of all.
    fn more_denied(&self) -> f64 {
        (ratio(self.expected, self.calls) - ratio(self.admitted, self.calls)) * 100.0
    }

    fn requests(&self) -> f64 {
        ratio(self.requests, self.calls)
    }

    /// Returns the admissions in percent of those of the reference.
    fn of_expected(&self) -> f64 {
        100.0 * ratio(self.admitted, self.expected)
    }
}

impl MixedRow {
    fn set(&self) -> Result<RuleSet, String> {
        let text = format!("version: 1\nrules: [{}]", self.rules);
        tollgate_rules::from_yaml("rules", &text, 1).map_err(|error| error.to_string())
    }

    fn call(&self, rng: &mut Rng) -> Call<'static> {
        let user = format!("user-{}", rng.usize(0..self.users));
        Call::new().with("tenant", "tenant").with("user", user)
    }
}

impl Experiment for MixedRulesSettings {
    fn check(&self) -> Result<(), SettingError> {
        for agents in &self.agents {
            SettingError::unless_in("agents", *agents, 1..=100)?;
        }
        SettingError::unless_in("calls", self.calls, 100..=1_000_000)?;
        SettingError::unless_in("store_ms_max", self.store_ms_max, 0..=5)?;
        for row in &self.rows {
            SettingError::unless_in("quota", row.quota, 1..=100_000)?;
            SettingError::unless_in("users", row.users, 1..=10_000)?;
            row.set().map_err(|error| SettingError::new("rules", error))?;
        }
        Ok(())
    }

    fn names(&self) -> Vec<String> {
        let empty =
            || MixedOutcome { burst: MixedTally::default(), steady: vec![MixedTally::default(); self.loads.len()] };
        let outcomes: Vec<_> = self.cases().map(|_| empty()).collect();
        numbers(self, &outcomes).into_keys().collect()
    }

    fn run(&self, seed: u64, bar: &ProgressBar) -> ScenarioFindings {
        let cases: Vec<_> = self.cases().collect();
        bar.set_length(cases.len() as u64);
        let outcomes = run_all(&cases, |(row, agents)| {
            let outcome = MixedOutcome {
                burst: run(self, row, *agents, None, seed),
                steady: self.loads.iter().map(|load| run(self, row, *agents, Some(*load), seed)).collect(),
            };
            bar.inc(1);
            outcome
        });
        let least = outcomes.iter().map(|outcome| outcome.burst.of_expected()).fold(f64::INFINITY, f64::min);
        let steady = outcomes.iter().flat_map(|outcome| &outcome.steady);
        let most = steady.map(MixedTally::more_denied).fold(0.0, f64::max);
        ScenarioFindings {
            finding: format!(
                "Whatever rules count on a call, a burst gets at least {least:.1}% of what one store without leases admits, and steady demand is \
                 denied at most {most:.2} points more."
            ),
            tables: vec![table(self, &outcomes)],
            plots: vec![plot(self, &outcomes)],
            numbers: numbers(self, &outcomes),
        }
    }
}

impl MixedRulesSettings {
    /// Returns each row with each size of the fleet.
    fn cases(&self) -> impl Iterator<Item = (&MixedRow, usize)> {
        self.rows.iter().flat_map(|row| self.agents.iter().map(move |agents| (row, *agents)))
    }
}

/// Runs a burst, or calls at a part of the quota.
#[expect(clippy::cast_precision_loss, reason = "numbers of calls and short times")]
fn run(settings: &MixedRulesSettings, row: &MixedRow, agents: usize, load: Option<f64>, seed: u64) -> MixedTally {
    let rules = row.set().expect("the rules are checked");
    let faults = Faults { store_ms_max: settings.store_ms_max, ..Faults::default() };
    let start = BEGIN.minus_ms(KNOWN_MS);
    let sim = SimSettings { seed, faults, counters_max: 100_000, ..SimSettings::fleet(start, agents) };
    let mut sim = Simulation::new(sim, &rules);
    sim.run_until(BEGIN);
    sim.observations();
    // The log of the calls is not needed.
    sim.set_bus_up(false);
    let (mut reference, mut rng) = (ReferenceStore::new(rules), Rng::with_seed(seed));
    let mut tally = MixedTally::default();
    let (calls, mut at_ms) = (if load.is_some() { settings.calls } else { BURST_QUOTAS * row.quota }, 0.0);
    let gap_ms = match load {
        Some(load) => row.window_ms as f64 / (row.quota as f64 * load),
        None => BURST_MS as f64 / calls as f64,
    };
    for _ in 0..calls {
        at_ms += if load.is_some() { -(1.0 - rng.f64()).ln() * gap_ms } else { gap_ms };
        let at = after_begin(at_ms);
        pass_until(&mut sim, at, &mut tally);
        let (agent, call) = (rng.usize(0..agents), row.call(&mut rng));
        tally.expected += u64::from(reference.admits(&call, at));
        sim.check(agent, vec![call]);
    }
    let end = sim.now().plus_ms(ANSWERED_MS);
    pass_until(&mut sim, end, &mut tally);
    tally
}

fn pass_until(sim: &mut Simulation<'static>, until: Timestamp, tally: &mut MixedTally) {
    sim.run_until(until.max(sim.now()));
    for observation in sim.observations() {
        match observation {
            Observation::Executed { is_part, .. } => tally.requests += u64::from(!is_part),
            Observation::Answered(answered) => {
                tally.calls += 1;
                tally.admitted += u64::from(answered.is_admitted);
            }
            _ => {}
        }
    }
}

fn numbers(settings: &MixedRulesSettings, outcomes: &[MixedOutcome]) -> IndexMap<String, f64> {
    let mut numbers = IndexMap::new();
    for ((row, agents), outcome) in settings.cases().zip(outcomes) {
        let mut enter = |number: String, value| numbers.insert(format!("{} at {agents}: {number}", row.name), value);
        enter("burst, % of one store".to_owned(), outcome.burst.of_expected());
        for (load, tally) in settings.loads.iter().zip(&outcome.steady) {
            enter(format!("denied more at {load}, points"), tally.more_denied());
            enter(format!("requests a call at {load}"), tally.requests());
        }
    }
    numbers
}

fn table(settings: &MixedRulesSettings, outcomes: &[MixedOutcome]) -> ResultTable {
    let cells = |((row, agents), outcome): ((&MixedRow, usize), &MixedOutcome)| {
        let steady = outcome
            .steady
            .iter()
            .flat_map(|tally| [format!("{:.2}", tally.more_denied().max(0.0)), format!("{:.2}", tally.requests())]);
        let burst = [agents.to_string(), outcome.burst.expected.to_string(), outcome.burst.admitted.to_string()];
        std::iter::once(row.name.clone()).chain(burst).chain(steady).collect()
    };
    let loads = settings.loads.iter().flat_map(|load| [format!("more at {load}"), format!("requests at {load}")]);
    let header = ["rules", "agents", "one store", "burst"].map(str::to_owned).into_iter().chain(loads).collect();
    ResultTable {
        caption: format!(
            "Calls of one tenant on which these rules count. one store, burst: admissions of {BURST_QUOTAS} quotas in {BURST_MS} ms by one \
             store without leases, and by the fleet. more: denials beyond those of one store under steady demand of a part of the \
             quota, in percent of the calls. requests: to the store, per call."
        ),
        header,
        rows: settings.cases().zip(outcomes).map(cells).collect(),
    }
}

/// Draws the requests of a call over the size of the fleet, at the first load.
#[expect(clippy::cast_precision_loss, reason = "small numbers of agents")]
fn plot(settings: &MixedRulesSettings, outcomes: &[MixedOutcome]) -> Plot {
    let most = settings.agents.iter().max().copied().unwrap_or(1) as f64;
    let line = |row: &MixedRow| {
        let of_row = settings.cases().zip(outcomes).filter(|((other, _), _)| other.name == row.name);
        let point = |((_, agents), outcome): ((&MixedRow, usize), &MixedOutcome)| {
            (agents as f64, outcome.steady.first().map_or(0.0, MixedTally::requests))
        };
        Series { name: row.name.clone(), role: SeriesRole::Measured, points: of_row.map(point).collect() }
    };
    let load = settings.loads.first().copied().unwrap_or_default();
    Plot {
        name: "requests".to_owned(),
        title: format!("At {load} of the quota, leases save requests where all rules of a call have leases"),
        x: Axis::logarithmic("number of agents", [1.0, 1.1 * most]),
        y: Axis::new("requests to the store a call", [0.0, 1.1]),
        series: settings.rows.iter().map(line).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::experiment::tests::findings_of;

    /// N4: a burst under two rules gets the quota.
    #[test]
    fn each_finding_has_its_numbers() {
        let row = MixedRow {
            name: "tenant and user".to_owned(),
            rules: "{ name: tenant, per: [tenant], quota: 60/min }, { name: user, per: [user], quota: 30/min }"
                .to_owned(),
            quota: 60,
            window_ms: 60_000,
            users: 5,
        };
        let settings =
            MixedRulesSettings { agents: vec![1, 3], loads: vec![0.7], calls: 200, store_ms_max: 1, rows: vec![row] };
        let findings = findings_of(&settings);
        assert!(findings.numbers["tenant and user at 3: burst, % of one store"] >= 97.0, "{:?}", findings.numbers);
    }
}
