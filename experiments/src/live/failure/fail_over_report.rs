//! Results of the faults of a cluster or of Sentinels, as a table and as JSON, with the bounds that were not kept.

use std::fmt;
use std::time::Duration;

use comfy_table::Cell;
use serde::Serialize;
use tollgate_sim::figures::{count, plain_table, wrapped};

use super::deployment::RedisDeployment;
use super::faults::AdmittedBounds;
use super::history::History;
use super::judged::{FaultFigures, JudgedFault, RunFigures};
use super::quota_bounds::QuotaBounds;
use super::settings::{AGENTS, QUOTA, SHARED_QUOTA, WIDTH_MS};

/// Results of all faults of a cluster, or of Sentinels.
#[derive(Clone, Debug, Serialize)]
pub struct FailOverReport {
    /// Name of the deployment.
    pub redis: &'static str,
    /// Results by fault and fleet.
    pub rows: Vec<FailOverRow>,
    /// Figures of the run.
    #[serde(flatten)]
    pub run: RunFigures,
}

/// Result of one fault at one fleet.
#[derive(Clone, Debug, Serialize)]
pub struct FailOverRow {
    /// Figures that all deployments have.
    #[serde(flatten)]
    pub figures: FaultFigures,
    /// Units of one caller under `strict`.
    pub strict: WindowUnits,
    /// Units of one caller under `bounded`.
    pub bounded: WindowUnits,
    /// Units of two callers that share a quota under `strict`.
    pub strict_shared: WindowUnits,
    /// Units of two callers that share a quota under `bounded`.
    pub bounded_shared: WindowUnits,
    /// Seconds from the beginning of the fault until a replica had taken over; none if none does.
    pub elected_s: Option<f64>,
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
    fn new(judged: JudgedFault<'_>, deployment: RedisDeployment) -> Self {
        let JudgedFault { strike, measured, bounds, figures, .. } = judged;
        let openings = measured.openings;
        let of_caller = |units, rule| WindowUnits::of(QUOTA, units, &bounds.callers, openings, rule);
        let of_shared = |units, rule| WindowUnits::of(SHARED_QUOTA, units, &bounds.shared, openings, rule);
        let elected = Duration::from_millis(strike.end_ms - strike.begin_ms);
        Self {
            figures,
            strict: of_caller(measured.strict, |bounds| bounds.strict),
            bounded: of_caller(measured.bounded, |bounds| bounds.bounded),
            strict_shared: of_shared(measured.strict_shared, |bounds| bounds.strict),
            bounded_shared: of_shared(measured.bounded_shared, |bounds| bounds.bounded),
            elected_s: strike.fault.fails_over(deployment).then_some(elected.as_secs_f64()),
        }
    }
}

impl FailOverReport {
    /// Judges a run whose bare timer was so late.
    pub(super) fn of(history: &History<'_>, deployment: RedisDeployment, timer_late: Duration) -> Self {
        let (run, judged) = RunFigures::of(history, deployment, timer_late);
        let rows = judged.into_iter().map(|judged| FailOverRow::new(judged, deployment)).collect();
        Self { redis: deployment.name(), rows, run }
    }
}

impl fmt::Display for FailOverReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { redis, run, .. } = self;
        writeln!(f, "{redis}, TLS: {} calls/s at two fleets of {AGENTS} agents\n", count(run.rate.into()))?;
        let header = ["fault", "Kafka", "worst", "strict", "bounded", "strict+", "bounded+", "denied", "back"];
        let mut table = plain_table(&header, 2);
        for row in &self.rows {
            let figures = &row.figures;
            table.add_row([
                Cell::new(figures.fault),
                Cell::new(figures.fleet()),
                figures.cell("worst", format_args!("{:.0}", figures.worst_ms)),
                figures.cell("strict", row.strict),
                figures.cell("bounded", row.bounded),
                figures.cell("strict_shared", row.strict_shared),
                figures.cell("bounded_shared", row.bounded_shared),
                figures.cell("denied", format_args!("{}/{}", figures.strict_denied, figures.bounded_denied)),
                figures.cell("back", format_args!("{:.2}", figures.recovery_s)),
            ]);
        }
        writeln!(f, "{table}\n")?;
        let elections: Vec<String> = self
            .rows
            .iter()
            .filter(|row| row.figures.kafka)
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
        run.write_lateness(f)?;
        run.write_judgement(f, &format!("{redis}: "))
    }
}
