//! The store is lost in mid-burst: a trading bot sends 500 calls a second under 100 a minute, and the shard that holds its counter
//! does not answer for 4.2 s, until a replica takes over.
//!
//! The store of the simulation is that shard. It is silent, as after a partition of the network, or refuses all requests, or cannot
//! be reached. It returns with all its data. Each rule sees the loss at several instants of the burst, in a fleet with signals and
//! in one without.

mod settings;
mod outage;
mod pictures;

use indexmap::IndexMap;
use indicatif::ProgressBar;

use super::arrivals::BEGIN;
use super::experiment::Experiment;
use super::fleet::rule_per_caller;
use super::parallel::run_all;
use super::result::{ResultTable, ScenarioFindings};
use super::setting_error::SettingError;
use super::timeline::Timeline;
use outage::{INTERVAL_MS, LostShardOutcome, OutageCase};
pub(super) use settings::LostShardSettings;
use settings::seconds;
use tollgate_sim::StoreState;

/// Rules by name, with their settings.
const RULES: [(&str, &str); 5] = [
    ("default", ""),
    ("strict", ", consistency: strict"),
    ("leases off", ", leases: off"),
    ("closed", ", on_failure: closed"),
    ("open", ", on_failure: open"),
];
/// Ways in which the store is lost.
const STATES: [StoreState; 3] = [StoreState::Silent, StoreState::Refusing, StoreState::Unreachable];
const OUTAGES_MAX: usize = 20;

impl Experiment for LostShardSettings {
    fn check(&self) -> Result<(), SettingError> {
        SettingError::unless_in("agents", self.agents, 1..=100)?;
        SettingError::unless_in("quota", self.quota, 1..=10_000)?;
        SettingError::unless_in("calls_per_s", self.calls_per_s, 1..=10_000)?;
        SettingError::unless_in("seconds", self.seconds, 1..=60)?;
        SettingError::unless_in("runs", self.runs, 1..=100)?;
        SettingError::unless_in("lost_ms", self.lost_ms, 1..=60_000)?;
        SettingError::unless_in("lost_after_ms", self.lost_after_ms.len(), 1..=OUTAGES_MAX)
            .map_err(|_| SettingError::new("lost_after_ms", format!("needs 1 to {OUTAGES_MAX} values")))?;
        let latest = self.lost_after_ms.iter().max().copied().unwrap_or_default();
        if latest + self.lost_ms >= self.seconds * 1_000 {
            let ends = format!("is {latest}, and the store is back {} ms later", self.lost_ms);
            return Err(SettingError::new(
                "lost_after_ms",
                format!("{ends}: after the last call; write more `seconds`"),
            ));
        }
        Ok(())
    }

    fn names(&self) -> Vec<String> {
        let empty = LostShardOutcome::new(Timeline::new(BEGIN, INTERVAL_MS, 0));
        let cases = self.cases();
        let outcomes: Vec<_> = cases.into_iter().map(|case| (case, empty.clone())).collect();
        numbers(self, &outcomes).into_keys().collect()
    }

    fn run(&self, seed: u64, bar: &ProgressBar) -> ScenarioFindings {
        let cases = self.cases();
        bar.set_length((cases.len() * self.lost_after_ms.len()) as u64);
        let outcomes = run_all(&cases, |case| worst(self, case, seed, bar));
        let outcomes: Vec<_> = cases.into_iter().zip(outcomes).collect();
        let numbers = numbers(self, &outcomes);
        let extra = |name: &str| numbers[&format!("{name}: extra admissions")];
        ScenarioFindings {
            finding: format!(
                "A bot sends {} calls a second under {}/min, and the store is lost for {} s in mid-burst. At {} agents, the default admits at \
                 most {} calls beyond the quota, and {} without signals. `on_failure: open`, as in the story, admits {} without signals.",
                self.calls_per_s,
                self.quota,
                seconds(self.lost_ms),
                self.agents,
                extra("default"),
                extra("default, no signals"),
                extra("open, no signals"),
            ),
            tables: vec![table(self, &outcomes)],
            plots: pictures::plots(self, &outcomes),
            numbers,
        }
    }
}

impl LostShardSettings {
    /// Returns all rules, with signals and without.
    fn cases(&self) -> Vec<OutageCase> {
        let mut cases = Vec::new();
        for (has_signals, beside) in [(true, ""), (false, ", no signals")] {
            cases.extend(RULES.map(|(name, rule)| OutageCase {
                name: format!("{name}{beside}"),
                rule: name,
                rules: rule_per_caller(&format!("quota: {}/min{rule}", self.quota)),
                has_signals,
            }));
        }
        cases
    }

    /// Returns the loss that is drawn.
    fn shown_after_ms(&self) -> u64 {
        self.lost_after_ms[self.lost_after_ms.len() / 2]
    }
}

/// Returns the worst numbers of all losses, with the pictures of one.
fn worst(settings: &LostShardSettings, case: &OutageCase, seed: u64, bar: &ProgressBar) -> LostShardOutcome {
    let mut worst = case.lose(settings, StoreState::Silent, settings.shown_after_ms(), seed);
    for lost_after_ms in &settings.lost_after_ms {
        for state in STATES {
            for run in 0..settings.runs {
                worst.worsen(&case.lose(settings, state, *lost_after_ms, seed.wrapping_add(run)));
            }
        }
        bar.inc(1);
    }
    worst
}

#[expect(clippy::cast_precision_loss, reason = "numbers of calls and short times")]
fn numbers(settings: &LostShardSettings, outcomes: &[(OutageCase, LostShardOutcome)]) -> IndexMap<String, f64> {
    let mut numbers = IndexMap::new();
    for (case, outcome) in outcomes {
        let mut enter = |number: &str, value: u64| numbers.insert(format!("{}: {number}", case.name), value as f64);
        enter("extra admissions", outcome.fullest.saturating_sub(settings.quota));
        enter("admitted while the store is lost", outcome.meanwhile);
        enter("last answer without the store, ms after its return", outcome.back_ms);
        enter("longest wait, ms", outcome.longest_ms);
    }
    numbers
}

fn table(settings: &LostShardSettings, outcomes: &[(OutageCase, LostShardOutcome)]) -> ResultTable {
    let row = |(case, outcome): &(OutageCase, LostShardOutcome)| {
        vec![
            case.rule.to_owned(),
            if case.has_signals { "yes" } else { "no" }.to_owned(),
            outcome.fullest.to_string(),
            case.bound(settings.agents),
            outcome.fullest.saturating_sub(settings.quota).to_string(),
            outcome.meanwhile.to_string(),
            outcome.back_ms.to_string(),
            outcome.longest_ms.to_string(),
        ]
    };
    ResultTable {
        caption: format!(
            "Worst of {} losses of the store, at {} instants of the burst; the store is silent, or refuses, or is unreachable. fullest: units of the fullest minute. bound: as \
             `rules validate` prints it, in some rows with the calls of 3 s in addition. extra: fullest less the quota. meanwhile: \
             admissions while the store is lost. back: time from its return to the last answer without it. wait: longest time between \
             a call and its answer.",
            (settings.lost_after_ms.len() * STATES.len()) as u64 * settings.runs,
            settings.lost_after_ms.len()
        ),
        header: ["rule", "signals", "fullest", "bound", "extra", "meanwhile", "back, ms", "wait, ms"]
            .map(str::to_owned)
            .to_vec(),
        rows: outcomes.iter().map(row).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::experiment::tests::findings_of;

    /// O9.
    #[test]
    fn each_finding_has_its_numbers() {
        let settings = LostShardSettings {
            agents: 2,
            quota: 20,
            calls_per_s: 100,
            seconds: 2,
            lost_after_ms: vec![100],
            lost_ms: 1_000,
            runs: 1,
        };
        let findings = findings_of(&settings);
        assert!(findings.finding.contains("the store is lost for 1 s"), "{}", findings.finding);
        assert!(findings.numbers["open, no signals: extra admissions"] > 50.0, "{:?}", findings.numbers);
        assert!(findings.numbers["default: extra admissions"] <= 20.0, "{:?}", findings.numbers);
    }
}
