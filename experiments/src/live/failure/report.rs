//! Results of all faults, as one table and as JSON, with the bounds that were not kept.

use std::fmt;
use std::time::Duration;

use comfy_table::Cell;
use serde::Serialize;
use tollgate_sim::figures::{count, plain_table, wrapped};

use super::comparison::{NOISE, SimulatedFailure, is_as_simulated, shown};
use super::deployment::RedisDeployment;
use super::faults::ServerFault;
use super::history::{History, Measured};
use super::judgement::{FaultBounds, latency_bound, ms};
use super::limiting::CallMix;
use super::load;
use super::settings::{AGENTS, FAULT_LENGTH, QUOTA, WIDTH_MS};
use crate::live::result;
use crate::live::simulated::{ALL_SEEDS, BUS_MS_MAX, SEEDS, STORE_MS_MAX};

/// Results of all faults.
#[derive(Clone, Debug, Serialize)]
pub struct FailureReport {
    /// Results by fault and fleet.
    pub rows: Vec<FailureRow>,
    /// Calls per second of both fleets.
    pub rate: u32,
    /// True if each call counted under a rule of its tenant, too.
    pub has_tenant: bool,
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
    /// Bound of `strict`, which is that of an outage once a breaker has opened.
    pub strict_bound: u64,
    /// Bound of `strict` in an outage, as `rules validate` prints it.
    pub strict_printed: Option<u64>,
    /// Units under `bounded`.
    pub bounded: u64,
    /// Bound of `bounded`, likewise.
    pub bounded_bound: u64,
    /// Bound of `bounded` in an outage, as `rules validate` prints it.
    pub bounded_printed: Option<u64>,
    /// Denied calls of honest callers under `strict`.
    pub strict_denied: u64,
    /// Denied calls of honest callers under `bounded`.
    pub bounded_denied: u64,
    /// Denied calls of honest callers after a retry at each agent.
    pub retries_denied: u64,
    /// Openings of the breakers.
    pub openings: u64,
    /// Seconds from the return of Redis until all agents use it, or of Kafka or an aggregator until all have signals again.
    pub recovery_s: f64,
    /// Numbers of the simulation; none if it does not have the fault.
    pub simulated: Option<SimulatedFailure>,
    /// Names of the columns whose bound was not kept.
    broken: Vec<&'static str>,
}

impl FailureRow {
    fn new(
        fault: ServerFault,
        kafka: bool,
        measured: &Measured,
        bounds: &FaultBounds,
        broken: Vec<&'static str>,
    ) -> Self {
        let admitted = bounds.callers.admitted(measured.openings);
        Self {
            fault: fault.name(),
            kafka,
            calls: measured.calls,
            worst_ms: ms(measured.worst),
            p99_ms: ms(measured.p99),
            strict: measured.strict,
            strict_bound: admitted.strict,
            strict_printed: bounds.callers.printed.map(|printed| printed.strict),
            bounded: measured.bounded,
            bounded_bound: admitted.bounded,
            bounded_printed: bounds.callers.printed.map(|printed| printed.bounded),
            strict_denied: measured.strict_denied,
            bounded_denied: measured.bounded_denied,
            retries_denied: measured.retries_denied,
            openings: measured.openings,
            recovery_s: measured.recovery.as_secs_f64(),
            simulated: None,
            broken,
        }
    }
}

impl FailureReport {
    /// Returns the report as JSON, with the version and the seeds of its simulation.
    #[must_use]
    pub fn json(&self) -> String {
        result::json("live-failure", &ALL_SEEDS, self)
    }

    /// Judges a run whose bare timer was so late. Each fleet has simulated histories.
    pub(super) fn of(history: &History<'_>, simulated: &[Vec<History<'_>>], timer_late: Duration) -> Self {
        let (mut rows, mut broken) = (Vec::new(), Vec::new());
        for strike in &history.strikes {
            let fault = strike.fault;
            let fleets = history.has_kafka.iter().copied().enumerate();
            for (number, has_kafka) in fleets.filter(|(_, has_kafka)| *has_kafka || !fault.is_of_bus()) {
                let bounds = FaultBounds::of(fault, RedisDeployment::Single, has_kafka, timer_late);
                let measured = history.measure(strike, number);
                let of_row = bounds.broken_by(&measured);
                let fleet = if has_kafka { "with Kafka" } else { "without Kafka" };
                broken.extend(of_row.iter().map(|of_row| format!("{}, {fleet}: {}", fault.name(), of_row.text)));
                let of_row = of_row.into_iter().map(|of_row| of_row.column).collect();
                let runs = simulated.get(number).into_iter().flatten().filter(|_| fault.is_simulated());
                let runs: Vec<_> = runs.map(|run| run.measure(strike, number)).collect();
                let row = FailureRow::new(fault, has_kafka, &measured, &bounds, of_row);
                rows.push(FailureRow { simulated: SimulatedFailure::of(&runs), ..row });
            }
        }
        Self {
            rows,
            rate: load::rate(history.callers),
            has_tenant: history.callers.iter().any(|caller| caller.mix == CallMix::WithTenant),
            timer_late_ms: ms(timer_late),
            sent_late_ms: ms(history.answers.iter().map(|answer| answer.late).max().unwrap_or_default()),
            latency_bound_ms: ms(latency_bound(timer_late)),
            broken,
        }
    }

    /// Shows the units and denials beside the simulation's and the bounds.
    fn show_simulated(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.rows.iter().all(|row| row.simulated.is_none()) {
            return Ok(());
        }
        let header = ["fault", "Kafka", "units", "sim.", "bound", "denied", "sim."];
        let (mut table, mut apart) = (plain_table(&header, 2), 0);
        for row in &self.rows {
            let Some(simulated) = &row.simulated else { continue };
            let mut real = |number: u64, range| {
                let is_apart = !is_as_simulated(number, range);
                apart += u64::from(is_apart);
                if is_apart { format!("*{number}") } else { number.to_string() }
            };
            table.add_row([
                row.fault.to_owned(),
                if row.kafka { "yes".to_owned() } else { "no".to_owned() },
                format!("{}/{}", real(row.strict, simulated.strict), real(row.bounded, simulated.bounded)),
                format!("{}/{}", shown(simulated.strict), shown(simulated.bounded)),
                format!("{}/{}", row.strict_bound, row.bounded_bound),
                format!(
                    "{}/{}",
                    real(row.strict_denied, simulated.strict_denied),
                    real(row.bounded_denied, simulated.bounded_denied)
                ),
                format!("{}/{}", shown(simulated.strict_denied), shown(simulated.bounded_denied)),
            ]);
        }
        writeln!(f, "As simulated: the same callers, and servers that fail at the same instants\n\n{table}\n")?;
        let legend = format!(
            "units: strict/bounded, in the fullest window of a caller. denied: calls of honest callers. sim.: range of {SEEDS} simulated \
             runs, with up to {STORE_MS_MAX} ms to Redis and {BUS_MS_MAX} ms to Kafka each way. *: {apart} numbers that are more than {NOISE} \
             beside it. No simulated call waits for a processor, and no simulated Redis is silent before it refuses, as one that begins to \
             load is. The simulation has no network that loses data, and no Redis that is busy.",
        );
        writeln!(f, "{}\n", wrapped(&legend))
    }
}

impl fmt::Display for FailureReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rate, has_tenant, timer_late_ms, sent_late_ms, latency_bound_ms, .. } = self;
        let (rate, seconds) = (count((*rate).into()), FAULT_LENGTH.as_secs());
        let rules = if *has_tenant { ", two rules on each call" } else { "" };
        writeln!(f, "{rate} calls/s at two fleets of {AGENTS} agents{rules}; each fault lasts {seconds} s\n")?;
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
        self.show_simulated(f)?;
        if self.broken.is_empty() {
            return write!(f, "all bounds are kept");
        }
        writeln!(f, "{} bounds are BROKEN:", self.broken.len())?;
        self.broken.iter().try_for_each(|broken| writeln!(f, "  {broken}"))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tollgate_core::clock::SystemClock;

    use super::super::history::Strike;
    use super::super::limiting::Limiting;
    use super::super::load::Answered;
    use super::super::signal_receipts::SignalReceipts;
    use super::*;

    /// Judges a run in which a caller under `strict` was admitted at these instants while Redis was 20 ms late.
    fn report(admitted_ms: impl IntoIterator<Item = u64>) -> FailureReport {
        let callers = load::callers(1, CallMix::OneRule, 300);
        let caller = callers.iter().position(|caller| caller.limiting == Limiting::Strict).expect("a caller");
        let admitted = |at_ms| Answered::at(caller, at_ms);
        let history = History {
            callers: &callers,
            has_kafka: vec![true],
            answers: admitted_ms.into_iter().map(admitted).collect(),
            states: Vec::new(),
            receipts: SignalReceipts::new(Arc::new(SystemClock::start())),
            strikes: vec![Strike { fault: ServerFault::Late20, begin_ms: 10_000, end_ms: 13_000, next_ms: 18_500 }],
        };
        FailureReport::of(&history, &[], Duration::from_millis(1))
    }

    /// never-over: one unit past the quota in any window (t-W, t] is told, wherever the window begins.
    #[test]
    fn a_run_in_which_strict_is_exceeded_is_rejected() {
        for first_ms in [6_000, 12_345, 13_499] {
            let hundred = (0..100).map(|nth| first_ms + 50 * nth);
            // The window of the last one does not contain the first one any more.
            let kept = report(hundred.clone().chain([first_ms + WIDTH_MS]));
            assert_eq!((kept.rows[0].strict, &*kept.broken), (100, &[][..]), "{first_ms}");
            let over = report(hundred.chain([first_ms + WIDTH_MS - 1]));
            assert_eq!(over.broken, ["late-20ms, with Kafka: `strict` admitted 101 in a window; at most 100"]);
            assert!(over.to_string().contains(" !101 "), "{over}");
        }
    }

    #[test]
    fn the_table_fits_a_terminal_of_80_columns() {
        let mut report = report((0..150).map(|nth| 10_000 + nth));
        let widest = FailureRow {
            kafka: true,
            worst_ms: 1_234.5,
            p99_ms: 1_234.5,
            strict_denied: 1_234,
            simulated: Some(SimulatedFailure {
                strict: [100, 104],
                bounded: [100, 105],
                strict_denied: [10, 12],
                bounded_denied: [0, 1],
            }),
            ..report.rows[0].clone()
        };
        report.rows.push(FailureRow {
            fault: "aggregator-pause",
            bounded_denied: 99,
            recovery_s: 10.0,
            broken: vec!["worst", "strict", "bounded", "denied", "back"],
            ..widest
        });
        for line in report.to_string().lines().take_while(|line| !line.contains("BROKEN")) {
            assert!(line.chars().count() <= 80, "{line}");
        }
    }
}
