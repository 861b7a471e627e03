//! A retry storm: 200 jobs of one organization poll at ten times its quota, and call again when they are denied.
//!
//! The clients differ in the time that they wait after a denial. Measured are the calls and the requests to the store that each
//! admitted unit costs, and the units that the clients get: with Tollgate, and with penalties of the gateways in front of it.

mod settings;
mod client;
mod penalty;
mod cases;
mod storm;
mod pictures;

use indexmap::IndexMap;
use indicatif::ProgressBar;

use super::experiment::Experiment;
use super::parallel::run_all;
use super::result::{ResultTable, ScenarioFindings};
use super::setting_error::SettingError;
use cases::{AT_ONCE, CASES, HALF, HALF_PENALIZED, RETRY_AFTER, StormCase};
pub(super) use settings::RetryStormSettings;
use storm::{StormOutcome, StormSecond};
use tollgate_sim::figures::ratio;

const CALLS_MAX: u64 = 100_000_000;
/// Names of numbers.
const CALLS_PER_UNIT: &str = "calls per admitted unit";
const DECIDED_PER_UNIT: &str = "calls that agents decide per admitted unit";
const REQUESTS_PER_UNIT: &str = "requests to the store per admitted unit";
const BUSIEST: &str = "calls in the busiest second";
const WAITING: &str = "units of the jobs that wait, %";

impl Experiment for RetryStormSettings {
    fn check(&self) -> Result<(), SettingError> {
        SettingError::unless_in("agents", self.agents, 1..=100)?;
        SettingError::unless_in("jobs", self.jobs, 1..=10_000)?;
        SettingError::unless_in("quota", self.quota, 1..=1_000_000)?;
        SettingError::unless_in("poll_ms", self.poll_ms, 1..=60_000)?;
        SettingError::unless_in("round_trip_ms", self.round_trip_ms, 1..=1_000)?;
        SettingError::unless_in("seconds", self.seconds, 1..=3_600)?;
        let calls = self.seconds * 1_000 / self.round_trip_ms * self.jobs as u64;
        if calls > CALLS_MAX {
            return Err(SettingError::new("seconds", format!("gives up to {calls} calls; at most {CALLS_MAX}")));
        }
        Ok(())
    }

    fn names(&self) -> Vec<String> {
        numbers(&CASES.map(|_| StormOutcome::default())).into_keys().collect()
    }

    fn run(&self, seed: u64, bar: &ProgressBar) -> ScenarioFindings {
        bar.set_length(CASES.len() as u64);
        let outcomes = run_all(&CASES, |case| {
            let outcome = StormOutcome::of(self, case, seed);
            bar.inc(1);
            outcome
        });
        let numbers = numbers(&outcomes);
        let of = |case: &str, number: &str| numbers[&format!("{case}: {number}")];
        ScenarioFindings {
            finding: format!(
                "{} jobs that call again at once make {:.0} calls for each admitted unit, and up to {:.0} in a second. Agents repeat denials \
                 alone: the store gets {:.2} requests for each unit, and {:.2} if all jobs wait for `Retry-After`. Jobs that wait make {:.1} \
                 calls for each unit. If half of the jobs wait, these get {:.0}% of the units. Tollgate has no penalties for early retries. \
                 Penalties of the gateways give the jobs that wait {:.0}%, and let {:.1} calls for each unit reach the agents instead of \
                 {:.0}. The gateways get as many calls as without penalties.",
                self.jobs,
                of(AT_ONCE, CALLS_PER_UNIT),
                of(AT_ONCE, BUSIEST),
                of(AT_ONCE, REQUESTS_PER_UNIT),
                of(RETRY_AFTER, REQUESTS_PER_UNIT),
                of(RETRY_AFTER, CALLS_PER_UNIT),
                of(HALF, WAITING),
                of(HALF_PENALIZED, WAITING),
                of(HALF_PENALIZED, DECIDED_PER_UNIT),
                of(HALF, DECIDED_PER_UNIT),
            ),
            tables: vec![table(self, &outcomes)],
            plots: pictures::plots(self, &outcomes),
            numbers,
        }
    }
}

impl StormOutcome {
    fn calls_per_unit(&self) -> f64 {
        ratio(self.calls, self.admitted)
    }

    fn decided_per_unit(&self) -> f64 {
        ratio(self.decided, self.admitted)
    }

    fn requests_per_unit(&self) -> f64 {
        ratio(self.requests, self.admitted)
    }

    /// Returns the largest value of all seconds.
    fn most(&self, value: fn(&StormSecond) -> u64) -> u64 {
        self.seconds.iter().map(value).max().unwrap_or_default()
    }

    /// Returns the requests to the store in a second without admissions.
    fn requests_of_denials(&self) -> f64 {
        let without = || self.seconds.iter().filter(|second| second.admitted == 0);
        ratio(without().map(|second| second.requests).sum(), without().count() as u64)
    }
}

#[expect(clippy::cast_precision_loss, reason = "numbers of calls")]
fn numbers(outcomes: &[StormOutcome]) -> IndexMap<String, f64> {
    let mut numbers = IndexMap::new();
    for (case, outcome) in CASES.iter().zip(outcomes) {
        let mut enter = |number: &str, value| numbers.insert(format!("{}: {number}", case.name), value);
        enter(CALLS_PER_UNIT, outcome.calls_per_unit());
        enter(DECIDED_PER_UNIT, outcome.decided_per_unit());
        enter(BUSIEST, outcome.most(|second| second.calls) as f64);
        enter(REQUESTS_PER_UNIT, outcome.requests_per_unit());
        enter("requests to the store in a second of denials", outcome.requests_of_denials());
        enter("admitted units", outcome.admitted as f64);
        enter("units of the fullest minute", outcome.fullest as f64);
        if case.clients.len() > 1 {
            enter(WAITING, 100.0 * ratio(outcome.admitted_waiting, outcome.admitted));
        }
    }
    numbers
}

fn table(settings: &RetryStormSettings, outcomes: &[StormOutcome]) -> ResultTable {
    let row = |(case, outcome): (&StormCase, &StormOutcome)| {
        vec![
            case.name.to_owned(),
            format!("{:.1}", outcome.calls_per_unit()),
            format!("{:.1}", outcome.decided_per_unit()),
            format!("{:.2}", outcome.requests_per_unit()),
            format!("{:.1}", outcome.requests_of_denials()),
            outcome.admitted.to_string(),
        ]
    };
    ResultTable {
        caption: format!(
            "{} jobs share {}/min for {} s; each polls {} ms after an admission. clients: behaviour after a denial. calls, decided, \
             requests: calls, calls that agents decide, and requests to the store, each per admitted unit. req/s: requests to the store \
             in a second without admissions. penalties: each gateway denies a job until the time of `Retry-After` and a cool-down are \
             over; each earlier retry of the job doubles the cool-down, from 1 s up to 30 s, and it halves in 30 s without one.",
            settings.jobs, settings.quota, settings.seconds, settings.poll_ms
        ),
        header: ["clients", "calls", "decided", "requests", "req/s", "admitted"].map(str::to_owned).to_vec(),
        rows: CASES.iter().zip(outcomes).map(row).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::experiment::tests::findings_of;

    /// K1, K2.
    #[test]
    fn each_finding_has_its_numbers() {
        let settings =
            RetryStormSettings { agents: 2, jobs: 10, quota: 100, poll_ms: 100, round_trip_ms: 20, seconds: 5 };
        let findings = findings_of(&settings);
        assert!(findings.finding.starts_with("10 jobs that call again at once make "), "{}", findings.finding);
        let calls = |clients| findings.numbers[&format!("{clients}: {CALLS_PER_UNIT}")];
        assert!(calls(AT_ONCE) > 2.0 * calls("backoff") && calls("backoff") > calls(RETRY_AFTER), "{findings:?}");
        let waiting = |case| findings.numbers[&format!("{case}: {WAITING}")];
        assert!(waiting(HALF_PENALIZED) >= waiting(HALF), "{findings:?}");
    }
}
