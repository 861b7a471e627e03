//! Results, as text and as JSON: each number beside its prediction.

use std::fmt;

use serde::Serialize;
use tollgate_sim::figures::{count, plain_table, wrapped};

use super::measured::MeasuredCalls;
use super::plan::{AccuracyPlan, CONSISTENCIES, QUOTA, TENANT_QUOTA, WIDTH_MS};
use super::tally::AccuracyTally;
use super::waits::Waits;
use crate::live::result;
use crate::live::simulated::{ALL_SEEDS, BUS_MS_MAX, SEEDS, STORE_MS_MAX};

/// Result of a run.
#[derive(Clone, Debug, Serialize)]
pub struct AccuracyReport {
    /// Number of agents.
    pub agents: u32,
    /// Duration of the measurement, in seconds.
    pub seconds: u32,
    /// True if each call counted under a rule of its tenant, too.
    pub has_tenant: bool,
    /// Numbers by consistency and kind.
    pub rows: Vec<AccuracyRow>,
    /// 99th percentile of the time from the due instant of a call to its sending, in ms.
    pub sent_late_p99_ms: f64,
    /// 99th percentile and maximum of the time from the sending of a call to its answer, in ms.
    pub answered_p99_ms: f64,
    /// Maximum of that time, in ms.
    pub answered_max_ms: f64,
    /// Waits of the calls of each consistency that the simulation does not have.
    waits: [Waits; CONSISTENCIES.len()],
}

/// A number and its prediction.
#[derive(Clone, Debug, Serialize)]
pub struct AccuracyRow {
    /// Consistency of the callers.
    pub consistency: &'static str,
    /// Name of the number.
    pub name: &'static str,
    /// Smallest and largest number of the simulation.
    pub predicted: [f64; 2],
    /// Number at real servers.
    pub measured: f64,
    /// Largest distance from the prediction that counts as noise.
    pub noise: f64,
}

/// Delay of the calls themselves that counts as noise, in ms: that of a timer.
const SENT_LATE_MS: f64 = 1.0;

/// A kind of number: its name, its value, and the distance that counts as noise.
type Kind = (&'static str, fn(&AccuracyTally) -> f64, f64);

/// All kinds. A change of the order of two calls at the limit moves one percent of the fullest window.
const KINDS: [Kind; 4] = [
    ("admitted, % of calls", |tally| percent(tally.admitted, tally.calls), 1.0),
    ("over-admitted, % of admissions", |tally| percent(tally.over_admitted, tally.admitted), 0.5),
    ("under-admitted, % of calls", |tally| percent(tally.under_admitted, tally.calls), 1.0),
    ("fullest window, % of quota", |tally| percent(tally.worst_window, QUOTA), 2.0),
];

#[expect(clippy::cast_precision_loss, reason = "numbers of calls")]
fn percent(part: u64, whole: u64) -> f64 {
    part as f64 * 100.0 / whole.max(1) as f64
}

impl AccuracyRow {
    /// Returns true if the number is within the prediction and its noise.
    #[must_use]
    pub fn is_as_predicted(&self) -> bool {
        let [least, most] = self.predicted;
        (least - self.noise..=most + self.noise).contains(&self.measured)
    }
}

impl AccuracyReport {
    pub(super) fn new(
        plan: AccuracyPlan,
        predicted: &[[AccuracyTally; CONSISTENCIES.len()]],
        measured: &MeasuredCalls,
    ) -> Self {
        let mut rows = Vec::new();
        for (index, consistency) in CONSISTENCIES.into_iter().enumerate() {
            for (name, value, noise) in KINDS {
                let values = || predicted.iter().map(|tallies| value(&tallies[index]));
                let predicted = [values().fold(f64::INFINITY, f64::min), values().fold(0.0, f64::max)];
                rows.push(AccuracyRow {
                    consistency,
                    name,
                    predicted,
                    measured: value(&measured.tallies[index]),
                    noise,
                });
            }
        }
        #[expect(clippy::cast_precision_loss, reason = "times are far below 2^52 microseconds")]
        let ms = |us: u64| us as f64 / 1_000.0;
        Self {
            agents: plan.agents.get(),
            seconds: plan.seconds,
            has_tenant: plan.has_tenant,
            rows,
            sent_late_p99_ms: ms(measured.sent_late_us.value_at_quantile(0.99)),
            answered_p99_ms: ms(measured.answered_us.value_at_quantile(0.99)),
            answered_max_ms: ms(measured.answered_us.max()),
            waits: measured.waits,
        }
    }

    /// Returns the report as JSON, with the version and the seeds of its simulation.
    #[must_use]
    pub fn json(&self) -> String {
        result::json("live-accuracy", &ALL_SEEDS, self)
    }

    /// Returns the conditions of both runs, in a sentence or two.
    #[must_use]
    pub fn conditions(&self) -> String {
        let tenant = if self.has_tenant {
            format!(" Each call counts under a rule of its tenant, too, of {} calls.", count(TENANT_QUOTA))
        } else {
            String::new()
        };
        format!(
            "{} agents, {} s, callers at 0.5 to 10 times {QUOTA} calls in {} s, estimate conservative.{tenant} The prediction is the range of {SEEDS} \
             seeds, with up to {STORE_MS_MAX} ms to Redis and {BUS_MS_MAX} ms to Kafka each way. Of the real calls, 99% were sent less than \
             {:.1} ms late and answered within {:.1} ms (longest {:.1} ms).",
            self.agents,
            self.seconds,
            WIDTH_MS / 1_000,
            self.sent_late_p99_ms,
            self.answered_p99_ms,
            self.answered_max_ms
        )
    }

    /// Returns a sentence for each number that differs from its prediction, with the waits that the simulation does not have.
    #[must_use]
    pub fn differences(&self) -> Vec<String> {
        let sentence = |row: &AccuracyRow| {
            let [least, most] = row.predicted;
            let place = CONSISTENCIES.iter().position(|consistency| *consistency == row.consistency);
            let mut reasons = self.waits[place.unwrap_or_default()].reasons();
            if self.sent_late_p99_ms > SENT_LATE_MS {
                reasons.push(format!("1% of all calls came more than {:.1} ms late", self.sent_late_p99_ms));
            }
            let reason = if reasons.is_empty() {
                "No wait explains it: all answers were as fast as the simulated ones, and the calls came in time"
                    .to_owned()
            } else {
                format!("The simulation has no such waits: {}", reasons.join("; "))
            };
            let (consistency, name, measured) = (row.consistency, row.name, row.measured);
            format!("{consistency}: {name} is {measured:.1}, predicted {least:.1} to {most:.1}. {reason}")
        };
        self.rows.iter().filter(|row| !row.is_as_predicted()).map(sentence).collect()
    }
}

impl fmt::Display for AccuracyReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "Accuracy at real servers, and as simulated\n\n{}\n", wrapped(&self.conditions()))?;
        let mut table = plain_table(&["consistency", "number", "simulated", "real", "as simulated"], 2);
        for row in &self.rows {
            let [least, most] = row.predicted;
            let as_predicted = if row.is_as_predicted() { "yes" } else { "NO" };
            table.add_row([
                row.consistency.to_owned(),
                row.name.to_owned(),
                if least < most { format!("{least:.1} to {most:.1}") } else { format!("{least:.1}") },
                format!("{:.1}", row.measured),
                as_predicted.to_owned(),
            ]);
        }
        writeln!(f, "{}\n", table.trim_fmt())?;
        let differences = self.differences();
        for sentence in &differences {
            writeln!(f, "{}", wrapped(sentence))?;
        }
        let all = self.rows.len() as u64;
        write!(f, "{} of {} numbers are as simulated", count(all - differences.len() as u64), count(all))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tollgate::Source;

    use super::*;

    #[test]
    fn a_number_beyond_the_noise_differs() {
        // Measured number, whether it is as predicted.
        for (measured, expected) in [(9.0, true), (8.9, false), (10.5, true), (12.0, true), (12.1, false)] {
            let (consistency, name) = ("strict", "n");
            let row = AccuracyRow { consistency, name, predicted: [10.0, 11.0], measured, noise: 1.0 };
            assert_eq!(row.is_as_predicted(), expected, "{measured}");
        }
    }

    #[test]
    fn a_difference_names_the_waits_of_its_callers() {
        let row = |consistency, measured| {
            let (name, predicted) = ("fullest window, % of quota", [100.0, 100.0]);
            AccuracyRow { consistency, name, predicted, measured, noise: 2.0 }
        };
        let mut report = AccuracyReport {
            agents: 3,
            seconds: 1,
            has_tenant: false,
            rows: vec![row("strict", 100.0), row("bounded", 110.0)],
            sent_late_p99_ms: 0.2,
            answered_p99_ms: 1.0,
            answered_max_ms: 1.0,
            waits: Default::default(),
        };
        let only = |report: &AccuracyReport| {
            let [sentence] = &report.differences()[..] else { panic!("one number differs") };
            sentence.clone()
        };
        assert!(
            only(&report).contains("bounded: fullest window, % of quota is 110.0, predicted 100.0 to 100.0. No wait")
        );
        report.waits[0].enter(Source::Fallback, Duration::from_millis(15));
        assert!(only(&report).contains("No wait"), "the waits of other callers are no reason");
        report.waits[1].enter(Source::Fallback, Duration::from_millis(15));
        report.sent_late_p99_ms = 4.25;
        let sentence = only(&report);
        for expected in ["1 of 1 calls was decided without Redis", "took up to 15.0 ms", "more than 4.2 ms late"] {
            assert!(sentence.contains(expected), "{expected}: {sentence}");
        }
    }
}
