//! Results of the faults of a cluster or of Sentinels, as a table and as JSON, with the bounds that were not kept.

use std::fmt;
use std::time::Duration;

use comfy_table::Cell;
use serde::Serialize;
use tollgate_sim::figures::{count, plain_table, wrapped};

use super::deployment::RedisDeployment;
use super::faults::AdmittedBounds;
use super::history::{History, Measured, Strike};
use super::judgement::{FaultBounds, QuotaBounds, latency_bound, ms};
use super::load;
use super::settings::{AGENTS, QUOTA, SHARED_QUOTA, WIDTH_MS};

/// Results of all faults of a cluster, or of Sentinels.
#[derive(Clone, Debug, Serialize)]
pub struct FailOverReport {
    /// Name of the deployment.
    pub redis: &'static str,
    /// Results by fault and fleet.
    pub rows: Vec<FailOverRow>,
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
pub struct FailOverRow {
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
    /// Units of one caller under `strict`.
    pub strict: WindowUnits,
    /// Units of one caller under `bounded`.
    pub bounded: WindowUnits,
    /// Units of two callers that share a quota under `strict`.
    pub strict_shared: WindowUnits,
    /// Units of two callers that share a quota under `bounded`.
    pub bounded_shared: WindowUnits,
    /// Denied calls of honest callers under `strict`.
    pub strict_denied: u64,
    /// Denied calls of honest callers under `bounded`.
    pub bounded_denied: u64,
    /// Denied calls of honest callers after a retry at each agent.
    pub retries_denied: u64,
    /// Openings of the breakers.
    pub openings: u64,
    /// Seconds from the beginning of the fault until a replica had taken over; none if none does.
    pub elected_s: Option<f64>,
    /// Seconds from the election, or the return of the server, until all agents use Redis, and all callers get its decisions.
    pub recovery_s: f64,
    /// Names of the columns whose bound was not kept.
    broken: Vec<&'static str>,
}

/// Units in the fullest window of a quota, until the next fault.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct WindowUnits {
    /// Units that were admitted.
    pub units: u64,
    /// Largest number of units by all bounds.
    pub bound: u64,
    /// Quota of the window.
    pub quota: u64,
}

impl WindowUnits {
    fn of(quota: u64, units: u64, bounds: &QuotaBounds, openings: u64, rule: fn(&AdmittedBounds) -> u64) -> Self {
        let printed = bounds.printed.as_ref().map_or(u64::MAX, rule);
        Self { units, bound: rule(&bounds.admitted(openings)).min(printed), quota }
    }
}

/// Excess over the quota, of the largest one.
impl fmt::Display for WindowUnits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.units.saturating_sub(self.quota), self.bound - self.quota)
    }
}

impl FailOverRow {
    fn new(
        strike: &Strike,
        deployment: RedisDeployment,
        kafka: bool,
        measured: &Measured,
        bounds: &FaultBounds,
    ) -> Self {
        let (fault, openings) = (strike.fault, measured.openings);
        let of_caller = |units, rule| WindowUnits::of(QUOTA, units, &bounds.callers, openings, rule);
        let of_shared = |units, rule| WindowUnits::of(SHARED_QUOTA, units, &bounds.shared, openings, rule);
        let elected = Duration::from_millis(strike.end_ms - strike.begin_ms);
        Self {
            fault: fault.name(),
            kafka,
            calls: measured.calls,
            worst_ms: ms(measured.worst),
            p99_ms: ms(measured.p99),
            strict: of_caller(measured.strict, |bounds| bounds.strict),
            bounded: of_caller(measured.bounded, |bounds| bounds.bounded),
            strict_shared: of_shared(measured.strict_shared, |bounds| bounds.strict),
            bounded_shared: of_shared(measured.bounded_shared, |bounds| bounds.bounded),
            strict_denied: measured.strict_denied,
            bounded_denied: measured.bounded_denied,
            retries_denied: measured.retries_denied,
            openings,
            elected_s: fault.fails_over(deployment).then_some(elected.as_secs_f64()),
            recovery_s: bounds.recovery_of(measured).as_secs_f64(),
            broken: Vec::new(),
        }
    }
}

impl FailOverReport {
    /// Judges a run whose bare timer was so late.
    pub(super) fn of(history: &History<'_>, deployment: RedisDeployment, timer_late: Duration) -> Self {
        let (mut rows, mut broken) = (Vec::new(), Vec::new());
        for strike in &history.strikes {
            for (number, has_kafka) in history.has_kafka.iter().copied().enumerate() {
                let bounds = FaultBounds::of(strike.fault, deployment, has_kafka, timer_late);
                let measured = history.measure(strike, number);
                let of_row = bounds.broken_by(&measured);
                let fleet = if has_kafka { "with Kafka" } else { "without Kafka" };
                broken.extend(of_row.iter().map(|of_row| format!("{}, {fleet}: {}", strike.fault.name(), of_row.text)));
                let row = FailOverRow::new(strike, deployment, has_kafka, &measured, &bounds);
                rows.push(FailOverRow { broken: of_row.into_iter().map(|of_row| of_row.column).collect(), ..row });
            }
        }
        Self {
            redis: deployment.name(),
            rows,
            rate: load::rate(history.callers),
            timer_late_ms: ms(timer_late),
            sent_late_ms: ms(history.answers.iter().map(|answer| answer.late).max().unwrap_or_default()),
            latency_bound_ms: ms(latency_bound(timer_late)),
            broken,
        }
    }
}

impl fmt::Display for FailOverReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { redis, rate, timer_late_ms, sent_late_ms, latency_bound_ms, .. } = self;
        writeln!(f, "{redis}, TLS: {} calls/s at two fleets of {AGENTS} agents\n", count((*rate).into()))?;
        let header = ["fault", "Kafka", "worst", "strict", "bounded", "strict+", "bounded+", "denied", "back"];
        let mut table = plain_table(&header, 2);
        for row in &self.rows {
            let mark = |column: &str, text: String| {
                Cell::new(if row.broken.contains(&column) { format!("!{text}") } else { text })
            };
            table.add_row([
                Cell::new(row.fault),
                Cell::new(if row.kafka { "yes" } else { "no" }),
                mark("worst", format!("{:.0}", row.worst_ms)),
                mark("strict", row.strict.to_string()),
                mark("bounded", row.bounded.to_string()),
                mark("strict_shared", row.strict_shared.to_string()),
                mark("bounded_shared", row.bounded_shared.to_string()),
                mark("denied", format!("{}/{}", row.strict_denied, row.bounded_denied)),
                mark("back", format!("{:.2}", row.recovery_s)),
            ]);
        }
        writeln!(f, "{table}\n")?;
        let elections: Vec<String> = self
            .rows
            .iter()
            .filter(|row| row.kafka)
            .filter_map(|row| Some(format!("{:.1} s", row.elected_s?)))
            .collect();
        let elections = if elections.is_empty() {
            String::new()
        } else {
            format!(" A replica had taken over {} after the beginning of the fault.", elections.join(" and "))
        };
        let legend = format!(
            "worst: longest latency of a call in ms, until a second after the election or the end of the fault. strict, bounded: units over the quota in the fullest window of {} s, and their bound, of one caller with a quota of {QUOTA}; with +, of two callers that share {SHARED_QUOTA}. Each call counts under two rules and one in shadow, and one of four has an id. denied: calls of honest callers under strict/bounded. back: seconds from the election, or the return of the server, until all agents use Redis and all callers have its decisions. !: out of bounds.{elections}",
            WIDTH_MS / 1_000
        );
        writeln!(f, "{}\n", wrapped(&legend))?;
        let timers = format!(
            "A bare timer was up to {timer_late_ms:.1} ms late, so a call may take {latency_bound_ms:.1} ms. Calls were made up to {sent_late_ms:.1} ms after their due instants."
        );
        writeln!(f, "{}\n", wrapped(&timers))?;
        if self.broken.is_empty() {
            return write!(f, "{redis}: all bounds are kept");
        }
        writeln!(f, "{redis}: {} bounds are BROKEN:", self.broken.len())?;
        self.broken.iter().try_for_each(|broken| writeln!(f, "  {broken}"))
    }
}
