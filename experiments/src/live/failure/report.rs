//! Results of all faults, as one table and as JSON, with the bounds that were not kept.

use std::fmt;
use std::time::Duration;

use comfy_table::Cell;
use serde::Serialize;
use tollgate_core::rules::DEADLINE_MS_DEFAULT;

use super::fleet::FaultedFleet;
use super::history::{History, Measured};
use super::load::{self, BURST_RATE};
use super::{FAULT_LENGTH, QUOTA, WIDTH_MS};
use crate::figures::{count, plain_table, wrapped};

/// Time of a signal from its call, which bounds what a caller gets from lost counters; generous for a busy machine.
const SIGNAL_LAG: Duration = Duration::from_millis(250);
/// Maximum recovery.
const RECOVERY_MAX: Duration = Duration::from_secs(1);
/// Denied calls of honest callers under `strict` for each opening of a breaker.
const DENIED_PER_OPENING: u64 = 10;

/// Results of all faults.
#[derive(Clone, Debug, Serialize)]
pub struct FailureReport {
    /// Results by fault and fleet.
    pub rows: Vec<FailureRow>,
    /// Calls per second of both fleets.
    pub rate: u32,
    /// Greatest lateness of a bare timer in this run, in ms.
    pub timer_late_ms: f64,
    /// Greatest delay of a call after its due instant, which is not part of its latency, in ms.
    pub sent_late_ms: f64,
    /// Largest latency of a call, in ms: its deadline and the lateness of the timer.
    pub latency_bound_ms: f64,
    /// Bounds that were not kept; none if all is well.
    pub broken: Vec<String>,
}

/// Result of one fault at one fleet.
#[derive(Clone, Debug, Serialize)]
pub struct FailureRow {
    /// Name of the fault.
    pub fault: &'static str,
    /// True for the fleet with Kafka.
    pub kafka: bool,
    /// Calls from the beginning of the fault until a second after its end.
    pub calls: u64,
    /// Longest latency, in ms.
    pub worst_ms: f64,
    /// 99th percentile of the latency, in ms.
    pub p99_ms: f64,
    /// Units in the fullest window of a caller under `strict`, until the next fault.
    pub strict: u64,
    /// Bound of `strict`.
    pub strict_bound: u64,
    /// Units under `bounded`.
    pub bounded: u64,
    /// Bound of `bounded`.
    pub bounded_bound: u64,
    /// Denied calls of honest callers under `strict`.
    pub strict_denied: u64,
    /// Denied calls of honest callers under `bounded`.
    pub bounded_denied: u64,
    /// Denied retries of honest callers.
    pub retries_denied: u64,
    /// Openings of the breakers.
    pub openings: u64,
    /// Seconds from the return of Redis until all agents use it; from that of Kafka or an aggregator until all agents have
    /// signals of all partitions, without a bound.
    pub recovery_s: f64,
    /// Names of the columns whose bound was not kept.
    broken: Vec<&'static str>,
}

pub(super) fn of(history: &History<'_>, fleets: &[FaultedFleet], timer_late: Duration) -> FailureReport {
    let latency_bound = Duration::from_millis(DEADLINE_MS_DEFAULT) + timer_late;
    let (mut rows, mut broken) = (Vec::new(), Vec::new());
    for strike in &history.strikes {
        for (number, fleet) in
            fleets.iter().enumerate().filter(|(_, fleet)| fleet.has_kafka || !strike.fault.is_of_bus())
        {
            let measured = history.measure(strike, number);
            let lag_units = SIGNAL_LAG.as_millis() * u128::from(BURST_RATE) / 1_000;
            let bounds = strike.fault.bounds(fleet.has_kafka, u64::try_from(lag_units).unwrap_or(u64::MAX));
            let Measured { worst, p99, strict, bounded, strict_denied, bounded_denied, retries_denied, .. } = measured;
            let denied_max = DENIED_PER_OPENING * measured.openings.max(1);
            let is_late = !strike.fault.is_of_bus() && measured.recovery > RECOVERY_MAX;
            let checks = [
                (
                    "worst",
                    worst > latency_bound,
                    format!("a call took {} ms; at most {}", ms(worst), ms(latency_bound)),
                ),
                (
                    "strict",
                    strict > bounds.strict,
                    format!("`strict` admitted {strict} in a window; at most {}", bounds.strict),
                ),
                (
                    "bounded",
                    bounded > bounds.bounded,
                    format!("`bounded` admitted {bounded} in a window; at most {}", bounds.bounded),
                ),
                (
                    "denied",
                    strict_denied > denied_max,
                    format!("`strict` denied {strict_denied} honest calls; at most {denied_max}"),
                ),
                ("denied", bounded_denied > 0, format!("`bounded` denied {bounded_denied} honest calls; at most 0")),
                (
                    "denied",
                    retries_denied > 0,
                    format!("{retries_denied} retries after `retry_after_ms` were denied; at most 0"),
                ),
                (
                    "back",
                    is_late,
                    format!(
                        "the store was used again after {} ms; at most {}",
                        ms(measured.recovery),
                        ms(RECOVERY_MAX)
                    ),
                ),
            ];
            let name = strike.fault.name();
            let fleet_name = if fleet.has_kafka { "with Kafka" } else { "without Kafka" };
            let mut row_broken = Vec::new();
            for (column, _, text) in checks.into_iter().filter(|(_, is_broken, _)| *is_broken) {
                row_broken.push(column);
                broken.push(format!("{name}, {fleet_name}: {text}"));
            }
            rows.push(FailureRow {
                fault: name,
                kafka: fleet.has_kafka,
                calls: measured.calls,
                worst_ms: ms(worst),
                p99_ms: ms(p99),
                strict,
                strict_bound: bounds.strict,
                bounded,
                bounded_bound: bounds.bounded,
                strict_denied,
                bounded_denied,
                retries_denied,
                openings: measured.openings,
                recovery_s: measured.recovery.as_secs_f64(),
                broken: row_broken,
            });
        }
    }
    let sent_late = history.answers.iter().map(|answer| answer.late).max().unwrap_or_default();
    FailureReport {
        rows,
        rate: load::rate(history.callers),
        timer_late_ms: ms(timer_late),
        sent_late_ms: ms(sent_late),
        latency_bound_ms: ms(latency_bound),
        broken,
    }
}

/// Returns ms, rounded to a tenth.
fn ms(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 10_000.0).round() / 10.0
}

impl fmt::Display for FailureReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rate, timer_late_ms, sent_late_ms, latency_bound_ms, .. } = self;
        let seconds = FAULT_LENGTH.as_secs();
        writeln!(f, "{} calls/s at two fleets of two agents; each fault lasts {seconds} s\n", count((*rate).into()))?;
        let mut table = plain_table(&["fault", "Kafka", "worst", "p99", "strict", "bounded", "denied", "back"], 2);
        for row in &self.rows {
            let mark = |column: &str, text: String| {
                Cell::new(if row.broken.contains(&column) { format!("!{text}") } else { text })
            };
            table.add_row([
                Cell::new(row.fault),
                Cell::new(if row.kafka { "yes" } else { "no" }),
                mark("worst", format!("{:.1}", row.worst_ms)),
                mark("p99", format!("{:.1}", row.p99_ms)),
                mark("strict", row.strict.to_string()),
                mark("bounded", row.bounded.to_string()),
                mark("denied", format!("{}/{}", row.strict_denied, row.bounded_denied)),
                mark("back", format!("{:.2}", row.recovery_s)),
            ]);
        }
        writeln!(f, "{table}\n")?;
        let legend = format!(
            "worst, p99: latency of a call in ms, from the fault until a second after it. strict, bounded: units of one caller in the fullest window of {} s, of a quota of {QUOTA}. denied: calls of honest callers under strict/bounded. back: seconds from the return of Redis until all agents use it, or of Kafka and aggregators until they have signals of all partitions. !: out of bounds.",
            WIDTH_MS / 1_000
        );
        writeln!(f, "{}\n", wrapped(&legend))?;
        let timers = format!(
            "A bare timer was up to {timer_late_ms:.1} ms late, so a call may take {latency_bound_ms:.1} ms. Calls were made up to {sent_late_ms:.1} ms after their due instants."
        );
        writeln!(f, "{}\n", wrapped(&timers))?;
        if self.broken.is_empty() {
            return write!(f, "all bounds are kept");
        }
        writeln!(f, "{} bounds are BROKEN:", self.broken.len())?;
        self.broken.iter().try_for_each(|broken| writeln!(f, "  {broken}"))
    }
}
