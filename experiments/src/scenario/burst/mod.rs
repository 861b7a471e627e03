//! A burst against a quota: a trading bot sends 500 calls in a second to a fleet under 100 a minute.
//!
//! Its calls come at equal distances, each at an agent that a load balancer draws. Each rule sees many bursts, each of a caller
//! that was idle before, at random instants of a sub-window.

mod settings;
mod outcomes;
mod pictures;

use fastrand::Rng;
use indexmap::IndexMap;
use indicatif::ProgressBar;
use tollgate_core::rules::Quota;

use super::arrivals::{BEGIN, MINUTE_MS};
use super::experiment::Experiment;
use super::fleet::{Fleet, rules_per_caller};
use super::parallel::run_all;
use super::result::{ResultTable, ScenarioFindings};
use super::setting_error::SettingError;
use super::timeline::Timeline;
use outcomes::{BurstOutcome, RuleBursts};
pub(super) use settings::BurstSettings;
use settings::INTERVAL_MS;
use tollgate_sim::figures::ratio;
use tollgate_sim::{Faults, SimSettings};

/// Time between the end of a burst and the next one, in ms.
const PAUSE_MS: std::ops::RangeInclusive<u64> = 1_000..=6_000;
/// Time in which all calls of a burst are answered, in ms.
const ANSWERED_MS: u64 = 100;
const DEFAULT: &str = "default";

impl Experiment for BurstSettings {
    fn check(&self) -> Result<(), SettingError> {
        SettingError::unless_in("agents", self.agents, 1..=100)?;
        SettingError::unless_in("quota", self.quota, 1..=10_000)?;
        SettingError::unless_in("calls", self.calls, 1..=100_000)?;
        SettingError::unless_in("burst_ms", self.burst_ms, 100..=10_000)?;
        SettingError::unless_in("bursts", self.bursts, 1..=1_000)?;
        SettingError::unless_in("store_ms_max", self.store_ms_max, 0..=5)
    }

    fn names(&self) -> Vec<String> {
        let empty = |(name, _)| RuleBursts {
            name,
            bursts: Vec::new(),
            requests: 0,
            longest_ms: 0,
            timeline: Timeline::new(BEGIN, INTERVAL_MS, 0),
        };
        numbers(&rules(self.quota).map(empty)).into_keys().collect()
    }

    fn run(&self, seed: u64, bar: &ProgressBar) -> ScenarioFindings {
        let rules = rules(self.quota);
        bar.set_length(self.bursts * rules.len() as u64);
        let outcomes = run_all(&rules, |(name, rules)| bursts(self, name, rules, seed, bar));
        let [default, strict, ..] = &outcomes[..] else { unreachable!("there are several rules") };
        let numbers = numbers(&outcomes);
        let (calls, seconds) = (self.calls, ratio(self.burst_ms, 1_000));
        ScenarioFindings {
            finding: format!(
                "Of {calls} calls in {seconds} s to {} agents under {}/min, the default admits {} in each of {} bursts, and `strict` {}. The \
                 last one passes after {} ms. A burst costs {:.0} requests to the store.",
                self.agents,
                self.quota,
                range(default.fewest(), default.most()),
                self.bursts,
                range(strict.fewest(), strict.most()),
                default.last_ms().max(strict.last_ms()),
                default.requests_per_burst(),
            ),
            tables: vec![table(self, &outcomes)],
            plots: vec![pictures::plot(self, default)],
            numbers,
        }
    }
}

/// Returns the names of the cases, and the settings of their rules.
fn rules(quota: u64) -> [(&'static str, Vec<String>); 5] {
    let with = |settings: &str| format!("quota: {quota}/min{settings}");
    [
        (DEFAULT, vec![with("")]),
        ("strict", vec![with(", consistency: strict")]),
        ("leases off", vec![with(", leases: off")]),
        ("token_bucket", vec![with(&format!(", algorithm: token_bucket, burst: {quota}"))]),
        ("minute and day", vec![with(""), format!("quota: {}/d", 10 * quota)]),
    ]
}

fn bursts(settings: &BurstSettings, name: &'static str, rules: &[String], seed: u64, bar: &ProgressBar) -> RuleBursts {
    let quota = Quota::new(settings.quota, MINUTE_MS).expect("a quota in range");
    let faults = Faults { store_ms_max: settings.store_ms_max, ..Faults::default() };
    let sim = SimSettings { seed, faults, ..SimSettings::fleet(BEGIN, settings.agents) };
    let (mut fleet, mut rng) = (Fleet::new(sim, &rules_per_caller(rules), quota), Rng::with_seed(seed));
    let intervals = usize::try_from(settings.burst_ms.div_ceil(INTERVAL_MS)).expect("a short time");
    let mut timeline = None;
    let mut outcomes = Vec::new();
    for burst in 0..settings.bursts {
        let begin = fleet.sim.now().plus_ms(rng.u64(PAUSE_MS));
        let mut answers = fleet.run_until(begin);
        for call in 0..settings.calls {
            let at = begin.plus_ms(call * settings.burst_ms / settings.calls);
            answers.extend(fleet.call(at, rng.usize(0..settings.agents), &format!("bot-{burst}")));
        }
        answers.extend(fleet.run_until(begin.plus_ms(settings.burst_ms + ANSWERED_MS)));
        let mut outcome = BurstOutcome::default();
        let timeline = timeline.get_or_insert_with(|| Timeline::new(begin, INTERVAL_MS, intervals));
        for answered in answers {
            timeline.enter(answered.arrived, answered.is_admitted);
            if answered.is_admitted {
                outcome.admitted += 1;
                outcome.last_ms = outcome.last_ms.max(answered.answered.ms_since(begin));
            }
        }
        outcomes.push(outcome);
        bar.inc(1);
    }
    let tally = fleet.take();
    assert_eq!(tally.calls, settings.bursts * settings.calls, "each call is answered");
    RuleBursts {
        name,
        bursts: outcomes,
        requests: tally.requests,
        longest_ms: tally.longest_ms,
        timeline: timeline.expect("there is a burst"),
    }
}

#[expect(clippy::cast_precision_loss, reason = "numbers of calls and short times")]
fn numbers(outcomes: &[RuleBursts]) -> IndexMap<String, f64> {
    let mut numbers = IndexMap::new();
    for rule in outcomes {
        let mut enter = |number: &str, value| numbers.insert(format!("{}: {number}", rule.name), value);
        enter("fewest admitted", rule.fewest() as f64);
        enter("most admitted", rule.most() as f64);
        enter("last admission after, ms", rule.last_ms() as f64);
        enter("requests to the store per burst", rule.requests_per_burst());
        enter("longest wait, ms", rule.longest_ms as f64);
    }
    numbers
}

fn range(least: u64, most: u64) -> String {
    if least == most { format!("exactly {most}") } else { format!("{least} to {most}") }
}

fn table(settings: &BurstSettings, outcomes: &[RuleBursts]) -> ResultTable {
    let row = |rule: &RuleBursts| {
        let calls = settings.calls;
        vec![
            rule.name.to_owned(),
            range(rule.fewest(), rule.most()),
            range(calls - rule.most(), calls - rule.fewest()),
            rule.last_ms().to_string(),
            format!("{:.1}", rule.requests_per_burst()),
            rule.longest_ms.to_string(),
        ]
    };
    ResultTable {
        caption: format!(
            "{} bursts of {} calls in {} ms under each rule of {}/min. last: time from the first call of a burst to its last admission, \
             at most. requests: to the store, per burst. wait: longest time between a call and its answer. token_bucket has a burst \
             of the whole quota. minute and day: two rules, the second of ten quotas a day.",
            settings.bursts, settings.calls, settings.burst_ms, settings.quota
        ),
        header: ["rule", "admitted", "denied", "last, ms", "requests", "wait, ms"].map(str::to_owned).to_vec(),
        rows: outcomes.iter().map(row).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::experiment::tests::findings_of;

    /// O8.
    #[test]
    fn each_finding_has_its_numbers() {
        let settings = BurstSettings { agents: 2, quota: 20, calls: 60, burst_ms: 300, bursts: 3, store_ms_max: 1 };
        let findings = findings_of(&settings);
        assert!(findings.finding.contains("`strict` exactly 20."), "{}", findings.finding);
    }
}
