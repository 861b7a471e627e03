//! Faults of a run as judged, and the figures that the reports of all deployments have.

use std::fmt;
use std::time::Duration;

use comfy_table::Cell;
use serde::Serialize;
use tollgate_sim::figures::wrapped;

use super::deployment::RedisDeployment;
use super::history::{History, Measured, Strike};
use super::judgement::{FaultBounds, latency_bound, ms};
use super::load;

/// One fault at one fleet, as measured and judged.
pub(super) struct JudgedFault<'a> {
    pub(super) strike: &'a Strike,
    /// Number of the fleet.
    pub(super) fleet: usize,
    pub(super) measured: Measured,
    pub(super) bounds: FaultBounds,
    pub(super) figures: FaultFigures,
}

/// Figures of a run.
#[derive(Clone, Debug, Serialize)]
pub struct RunFigures {
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

/// Figures of one fault at one fleet.
#[derive(Clone, Debug, Serialize)]
pub struct FaultFigures {
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
    /// Denied calls of honest callers under `strict`.
    pub strict_denied: u64,
    /// Denied calls of honest callers under `bounded`.
    pub bounded_denied: u64,
    /// Largest number of denied calls of honest callers under each of them.
    pub denied_bound: u64,
    /// Denied calls of honest callers after a retry at each agent.
    pub retries_denied: u64,
    /// Openings of the breakers.
    pub openings: u64,
    /// Seconds from the return of Redis, or the election of a replica, until all agents use Redis; behind a replica, until all callers
    /// have its decisions, too. Of Kafka or an aggregator: until all agents have signals again.
    pub recovery_s: f64,
    /// Names of the columns whose bound was not kept.
    pub(super) broken: Vec<&'static str>,
}

impl FaultFigures {
    /// Returns the cell of a column, which is marked if its bound was not kept.
    pub(super) fn cell(&self, column: &str, text: impl fmt::Display) -> Cell {
        Cell::new(if self.broken.contains(&column) { format!("!{text}") } else { text.to_string() })
    }

    pub(super) fn fleet(&self) -> &'static str {
        if self.kafka { "yes" } else { "no" }
    }
}

impl RunFigures {
    /// Judges a run whose bare timer was so late. Faults of the bus concern fleets with Kafka only.
    pub(super) fn of<'a>(
        history: &'a History<'_>,
        deployment: RedisDeployment,
        timer_late: Duration,
    ) -> (Self, Vec<JudgedFault<'a>>) {
        let (mut judged, mut broken) = (Vec::new(), Vec::new());
        let honest_rate = load::honest_rate(history.callers);
        for strike in &history.strikes {
            let fault = strike.fault;
            let fleets = history.has_kafka.iter().copied().enumerate();
            for (fleet, kafka) in fleets.filter(|(_, has_kafka)| *has_kafka || !fault.is_of_bus()) {
                let bounds = FaultBounds::of((fault, deployment), kafka, timer_late, honest_rate);
                let measured = history.measure(strike, fleet);
                let of_fault = bounds.broken_by(&measured);
                let name = if kafka { "with Kafka" } else { "without Kafka" };
                broken.extend(of_fault.iter().map(|of_fault| format!("{}, {name}: {}", fault.name(), of_fault.text)));
                let figures = FaultFigures {
                    fault: fault.name(),
                    kafka,
                    calls: measured.calls,
                    worst_ms: ms(measured.worst),
                    p99_ms: ms(measured.p99),
                    strict_denied: measured.strict_denied,
                    bounded_denied: measured.bounded_denied,
                    denied_bound: bounds.denied(measured.openings),
                    retries_denied: measured.retries_denied,
                    openings: measured.openings,
                    recovery_s: bounds.recovery_of(&measured).as_secs_f64(),
                    broken: of_fault.into_iter().map(|of_fault| of_fault.column).collect(),
                };
                judged.push(JudgedFault { strike, fleet, measured, bounds, figures });
            }
        }
        let of_run = Self {
            rate: load::rate(history.callers),
            timer_late_ms: ms(timer_late),
            sent_late_ms: ms(history.answers.iter().map(|answer| answer.late).max().unwrap_or_default()),
            latency_bound_ms: ms(latency_bound(timer_late)),
            broken,
        };
        (of_run, judged)
    }

    /// Writes how late timers and calls were.
    pub(super) fn write_lateness(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { timer_late_ms, sent_late_ms, latency_bound_ms, .. } = self;
        let text = format!(
            "A bare timer was up to {timer_late_ms:.1} ms late, so a call may take {latency_bound_ms:.1} ms. Calls were made up to {sent_late_ms:.1} ms after their due instants."
        );
        writeln!(f, "{}\n", wrapped(&text))
    }

    /// Writes the bounds that were not kept. `subject` begins the sentence.
    pub(super) fn write_judgement(&self, f: &mut fmt::Formatter<'_>, subject: &str) -> fmt::Result {
        if self.broken.is_empty() {
            return write!(f, "{subject}all bounds are kept");
        }
        writeln!(f, "{subject}{} bounds are BROKEN:", self.broken.len())?;
        self.broken.iter().try_for_each(|broken| writeln!(f, "  {broken}"))
    }
}
