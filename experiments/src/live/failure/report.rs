//! Results of all faults, as one table and as JSON, with the bounds that were not kept.

use std::fmt;
use std::time::Duration;

use comfy_table::Cell;
use serde::Serialize;
use tollgate_sim::figures::{count, plain_table, wrapped};

use super::comparison::{NOISE, SimulatedFailure, is_as_simulated, shown};
use super::deployment::RedisDeployment;
use super::history::History;
use super::judged::{FaultFigures, JudgedFault, RunFigures};
use super::limiting::CallMix;
use super::settings::{AGENTS, FAULT_LENGTH, QUOTA, WIDTH_MS};
use crate::live::result;
use crate::live::simulated::{ALL_SEEDS, BUS_MS_MAX, SEEDS, STORE_MS_MAX};

/// Results of all faults.
#[derive(Clone, Debug, Serialize)]
pub struct FailureReport {
    /// Results by fault and fleet.
    pub rows: Vec<FailureRow>,
    /// True if each call counted under a rule of its tenant, too.
    pub has_tenant: bool,
    /// Figures of the run.
    #[serde(flatten)]
    pub run: RunFigures,
}

/// Result of one fault at one fleet.
#[derive(Clone, Debug, Serialize)]
pub struct FailureRow {
    /// Figures that all deployments have.
    #[serde(flatten)]
    pub figures: FaultFigures,
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
    /// Numbers of the simulation; none if it does not have the fault.
    pub simulated: Option<SimulatedFailure>,
}

impl FailureRow {
    fn new(judged: JudgedFault<'_>, simulated: &[Vec<History<'_>>]) -> Self {
        let JudgedFault { strike, fleet, measured, bounds, figures } = judged;
        let admitted = bounds.callers.admitted(measured.openings);
        let runs = simulated.get(fleet).into_iter().flatten().filter(|_| strike.fault.is_simulated());
        let runs: Vec<_> = runs.map(|run| run.measure(strike, fleet)).collect();
        Self {
            figures,
            strict: measured.strict,
            strict_bound: admitted.strict,
            strict_printed: bounds.callers.printed.map(|printed| printed.strict),
            bounded: measured.bounded,
            bounded_bound: admitted.bounded,
            bounded_printed: bounds.callers.printed.map(|printed| printed.bounded),
            simulated: SimulatedFailure::of(&runs),
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
        let (run, judged) = RunFigures::of(history, RedisDeployment::Single, timer_late);
        Self {
            rows: judged.into_iter().map(|judged| FailureRow::new(judged, simulated)).collect(),
            has_tenant: history.callers.iter().any(|caller| caller.mix == CallMix::WithTenant),
            run,
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
                row.figures.fault.to_owned(),
                row.figures.fleet().to_owned(),
                format!("{}/{}", real(row.strict, simulated.strict), real(row.bounded, simulated.bounded)),
                format!("{}/{}", shown(simulated.strict), shown(simulated.bounded)),
                format!("{}/{}", row.strict_bound, row.bounded_bound),
                format!(
                    "{}/{}",
                    real(row.figures.strict_denied, simulated.strict_denied),
                    real(row.figures.bounded_denied, simulated.bounded_denied)
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
        let (rate, seconds) = (count(self.run.rate.into()), FAULT_LENGTH.as_secs());
        let rules = if self.has_tenant { ", two rules on each call" } else { "" };
        writeln!(f, "{rate} calls/s at two fleets of {AGENTS} agents{rules}; each fault lasts {seconds} s\n")?;
        let mut table = plain_table(&["fault", "Kafka", "worst", "p99", "strict", "bounded", "denied", "back"], 2);
        for row in &self.rows {
            let figures = &row.figures;
            table.add_row([
                Cell::new(figures.fault),
                Cell::new(figures.fleet()),
                figures.cell("worst", format_args!("{:.1}", figures.worst_ms)),
                figures.cell("p99", format_args!("{:.1}", figures.p99_ms)),
                figures.cell("strict", row.strict),
                figures.cell("bounded", row.bounded),
                figures.cell("denied", format_args!("{}/{}", figures.strict_denied, figures.bounded_denied)),
                figures.cell("back", format_args!("{:.2}", figures.recovery_s)),
            ]);
        }
        writeln!(f, "{table}\n")?;
        let legend = format!(
            "worst, p99: latency of a call in ms, from the fault until a second after it. strict, bounded: units of one caller in the fullest window of {} s, of a quota of {QUOTA}. denied: calls of honest callers under strict/bounded. back: seconds from the return of Redis until all agents use it, or of Kafka and aggregators until they have signals of all partitions. !: out of bounds.",
            WIDTH_MS / 1_000
        );
        writeln!(f, "{}\n", wrapped(&legend))?;
        self.run.write_lateness(f)?;
        self.show_simulated(f)?;
        self.run.write_judgement(f, "")
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tollgate_core::clock::SystemClock;

    use super::super::faults::ServerFault;
    use super::super::history::Strike;
    use super::super::limiting::Limiting;
    use super::super::load::{self, Answered};
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
            assert_eq!((kept.rows[0].strict, &*kept.run.broken), (100, &[][..]), "{first_ms}");
            let over = report(hundred.chain([first_ms + WIDTH_MS - 1]));
            assert_eq!(over.run.broken, ["late-20ms, with Kafka: `strict` admitted 101 in a window; at most 100"]);
            assert!(over.to_string().contains(" !101 "), "{over}");
        }
    }

    #[test]
    fn the_table_fits_a_terminal_of_80_columns() {
        let mut report = report((0..150).map(|nth| 10_000 + nth));
        let figures = FaultFigures {
            kafka: true,
            worst_ms: 1_234.5,
            p99_ms: 1_234.5,
            strict_denied: 1_234,
            ..report.rows[0].figures.clone()
        };
        let widest = FailureRow {
            figures: figures.clone(),
            simulated: Some(SimulatedFailure {
                strict: [100, 104],
                bounded: [100, 105],
                strict_denied: [10, 12],
                bounded_denied: [0, 1],
            }),
            ..report.rows[0].clone()
        };
        report.rows.push(FailureRow {
            figures: FaultFigures {
                fault: "aggregator-pause",
                bounded_denied: 99,
                recovery_s: 10.0,
                broken: vec!["worst", "strict", "bounded", "denied", "back"],
                ..figures
            },
            ..widest
        });
        for line in report.to_string().lines().take_while(|line| !line.contains("BROKEN")) {
            assert!(line.chars().count() <= 80, "{line}");
        }
    }
}
