//! Real traffic: the access log of the repository runs through simulated fleets, under each algorithm and consistency.
//!
//! It is the log of `tollgate replay`, and the fleets are those of its `--agents`. Cells are independent, so that all processors share
//! them.

mod cell;
mod settings;
mod pictures;

use std::num::NonZeroU32;

use indicatif::ProgressBar;
use tollgate::RuleSet;
use tollgate_core::rules::Quota;

use super::experiment::Experiment;
use super::parallel::run_all;
use super::result::{ResultTable, ScenarioFindings};
use super::setting_error::SettingError;
use cell::TrafficCell;
pub(super) use settings::RealTrafficSettings;
use tollgate_sim::figures::{self, count, ratio};
use tollgate_sim::replay::{self, AGENTS_MAX, ReplayFleet, ReplayInput, SIGNAL_DELAY_MS_MAX, STORE_DELAY_MS_MAX};

/// Access log of the repository: 10,000 calls of a web server.
const LOG: &[u8] = include_bytes!("../../../traces/apache_combined_10k.log.gz");
const LOG_NAME: &str = "apache_combined_10k.log.gz";
/// Explanation of the first table.
const COLUMNS: &str = "over: calls admitted with the quota used up in the true last window. under: calls denied although it had \
    room. worst: units of the fullest true window of a caller. A call counts at the instant of its answer.";

impl Experiment for RealTrafficSettings {
    fn check(&self) -> Result<(), SettingError> {
        self.quota.parse::<Quota>().map_err(|error| SettingError::new("quota", format!("is refused: {error}")))?;
        SettingError::unless_in("burst", self.burst, 1..=1_000_000)?;
        SettingError::unless_in("rules", self.rules.len(), 1..=20)
            .map_err(|_| SettingError::new("rules", "needs 1 to 20 values"))?;
        for rule in &self.rules {
            self.rule_set(rule).map_err(|reason| SettingError::new("rules", format!("has \"{rule}\": {reason}")))?;
        }
        SettingError::unless_in("agents", self.agents.len(), 1..=10)
            .map_err(|_| SettingError::new("agents", "needs 1 to 10 values"))?;
        for agents in &self.agents {
            SettingError::unless_in("agents", *agents, 1..=AGENTS_MAX as usize)?;
        }
        if !self.agents.is_sorted_by(|a, b| a < b) {
            return Err(SettingError::new("agents", "is not in ascending order"));
        }
        SettingError::unless_in("store_delay_ms", self.store_delay_ms, 0..=STORE_DELAY_MS_MAX)?;
        SettingError::unless_in("signal_delay_ms", self.signal_delay_ms, 0..=SIGNAL_DELAY_MS_MAX)
    }

    fn names(&self) -> Vec<String> {
        let cells = vec![TrafficCell::default(); self.rules.len() * self.agents.len()];
        self.numbers(&cells).into_keys().collect()
    }

    fn run(&self, seed: u64, bar: &ProgressBar) -> ScenarioFindings {
        let input = ReplayInput::of_bytes(LOG_NAME, LOG, &RuleSet::default());
        let mut places: Vec<(usize, (&str, usize))> = self.places().enumerate().collect();
        // The largest fleets begin, so that the processors end together.
        places.sort_by_key(|(_, (_, agents))| std::cmp::Reverse(*agents));
        bar.set_length(places.len() as u64);
        let mut cells = run_all(&places, |(index, (rule, agents))| {
            let rules = self.rule_set(rule).expect("the parameters are checked");
            let fleet = ReplayFleet {
                agents: u32::try_from(*agents).ok().and_then(NonZeroU32::new).expect("the parameters are checked"),
                signal_delay_ms: self.signal_delay_ms,
                store_delay_ms: self.store_delay_ms,
                seed,
            };
            let report = replay::run(&input, &rules, Some(fleet), None, &ProgressBar::hidden());
            let report = report.expect("no decision is written");
            bar.inc(1);
            let of_rule = &report.rules[0];
            let cell = TrafficCell {
                calls: of_rule.calls,
                admitted: of_rule.admitted,
                denied: of_rule.denied,
                over_admitted: of_rule.over_admitted,
                under_admitted: of_rule.under_admitted,
                worst_window: of_rule.worst_window,
            };
            (*index, cell)
        });
        cells.sort_by_key(|(index, _)| *index);
        let cells: Vec<TrafficCell> = cells.into_iter().map(|(_, cell)| cell).collect();
        ScenarioFindings {
            finding: finding(self, &cells),
            numbers: self.numbers(&cells),
            tables: self.agents.iter().map(|agents| table(self, &cells, *agents)).collect(),
            plots: pictures::plots(self, &cells),
        }
    }
}

/// States the false denials and the fullest window of the first rule of each consistency in the largest fleet.
fn finding(settings: &RealTrafficSettings, cells: &[TrafficCell]) -> String {
    let most = settings.agents[settings.agents.len() - 1];
    let mut seen = Vec::new();
    let mut sentences = Vec::new();
    for ((rule, _), cell) in settings.places().zip(cells).filter(|((_, agents), _)| *agents == most) {
        let consistency = rule.split(' ').next_back().unwrap_or_default();
        if seen.contains(&consistency) {
            continue;
        }
        seen.push(consistency);
        sentences.push(format!(
            "{rule} denies {:.2}% of the calls falsely and admits up to {:.0}% of the quota in a window",
            100.0 * ratio(cell.under_admitted, cell.calls),
            settings.worst_percent(cell)
        ));
    }
    format!("{} by address, with {}: {}.", settings.quota, figures::agents(most), sentences.join("; "))
}

fn table(settings: &RealTrafficSettings, cells: &[TrafficCell], agents: usize) -> ResultTable {
    let row = |((rule, _), cell): ((&str, usize), &TrafficCell)| {
        let figures = [cell.admitted, cell.denied, cell.over_admitted, cell.under_admitted, cell.worst_window];
        std::iter::once(rule.to_owned()).chain(figures.map(count)).collect()
    };
    let is_first = agents == settings.agents[0];
    let explained = format!(
        ", {} by address, store delay {} ms, signal delay {} ms. {COLUMNS}",
        settings.quota, settings.store_delay_ms, settings.signal_delay_ms
    );
    ResultTable {
        caption: format!("{}{}", figures::agents(agents), if is_first { explained } else { String::new() }),
        header: ["rule", "admitted", "denied", "over", "under", "worst"].map(str::to_owned).to_vec(),
        rows: settings.places().zip(cells).filter(|((_, of), _)| *of == agents).map(row).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::experiment::tests::findings_of;

    fn small() -> RealTrafficSettings {
        RealTrafficSettings {
            quota: "30/min".to_owned(),
            rules: vec!["sliding_log strict".to_owned(), "fixed_window eventual".to_owned()],
            burst: 5,
            agents: vec![2],
            store_delay_ms: 1,
            signal_delay_ms: 500,
        }
    }

    #[test]
    fn each_finding_has_its_numbers() {
        let settings = small();
        let findings = findings_of(&settings);
        assert!(findings.finding.starts_with("30/min by address, with 2 agents: sliding_log strict denies 0.00%"));
        let worst = findings.numbers["sliding_log strict, 2 agents: worst window, % of quota"];
        assert!((99.9..100.1).contains(&worst), "{worst}");
        assert!(findings.numbers["fixed_window eventual, 2 agents: over-admitted, % of admissions"] > 0.0);
        assert_eq!(findings.plots.len(), 1);
    }

    #[test]
    fn a_bad_rule_is_refused_with_its_reason() {
        for (rule, expected) in [
            ("sliding_log", "write an algorithm and a consistency"),
            ("sliding_log eventual", "consistency: eventual"),
            ("slidng_log strict", "slidng_log"),
        ] {
            let refused = RealTrafficSettings { rules: vec![rule.to_owned()], ..small() }.check();
            let text = format!("{:?}", refused.expect_err("it is refused"));
            assert!(text.contains(expected), "{text}");
        }
    }
}
