//! Latencies by the state of Redis, as text and as JSON.

use std::fmt;

use hdrhistogram::Histogram;
use serde::Serialize;
use tollgate_sim::figures::{count, plain_table, wrapped};

use super::load::RlsLatencies;
use super::plan::{DEADLINE, RedisState, RlsPlan};
use crate::live::result;

/// Time by which the slowest calls may exceed the echo and the deadline: the greatest lateness of a timer, in ms.
const LATENESS_MS: f64 = 2.0;

/// Results of the measurement.
#[derive(Clone, Debug, Serialize)]
pub struct RlsReport {
    /// Calls per second to each target.
    pub rate: u32,
    /// Seconds in each state.
    pub seconds: u32,
    /// Time for which a rule waits for Redis, in ms.
    pub deadline_ms: u64,
    /// Latencies by the state of Redis.
    pub states: Vec<StateLatency>,
}

/// Latencies in one state of Redis.
#[derive(Clone, Debug, Serialize)]
pub struct StateLatency {
    /// State of Redis.
    pub redis: &'static str,
    /// Latency of the agent.
    pub agent: TargetLatency,
    /// Latency of the echo.
    pub echo: TargetLatency,
    /// Bound of the agent's 99.9th percentile, in ms.
    pub bound_ms: f64,
}

/// Latencies of one target, in ms.
#[derive(Clone, Debug, Serialize)]
pub struct TargetLatency {
    /// Number of calls.
    pub calls: u64,
    /// Calls without an answer.
    pub failed: u64,
    /// Median.
    pub p50_ms: f64,
    /// 99th percentile.
    pub p99_ms: f64,
    /// 99.9th percentile.
    pub p999_ms: f64,
    /// Longest.
    pub max_ms: f64,
}

impl StateLatency {
    #[expect(clippy::cast_precision_loss, reason = "a few ms")]
    pub(super) fn of(state: RedisState, [agent, echo]: &[RlsLatencies; 2]) -> Self {
        let (agent, echo) = (TargetLatency::of(agent), TargetLatency::of(echo));
        let bound_ms = echo.p999_ms + DEADLINE.as_millis() as f64 + LATENESS_MS;
        Self { redis: state.name(), agent, echo, bound_ms }
    }

    fn is_kept(&self) -> bool {
        self.agent.failed == 0 && self.agent.p999_ms <= self.bound_ms
    }
}

impl TargetLatency {
    fn of(RlsLatencies { took_us, failed }: &RlsLatencies) -> Self {
        let at = |took_us: &Histogram<u64>, quantile| ms(took_us.value_at_quantile(quantile));
        Self {
            calls: took_us.len(),
            failed: *failed,
            p50_ms: at(took_us, 0.5),
            p99_ms: at(took_us, 0.99),
            p999_ms: at(took_us, 0.999),
            max_ms: ms(took_us.max()),
        }
    }
}

impl RlsReport {
    pub(super) fn new(plan: RlsPlan, states: Vec<StateLatency>) -> Self {
        let deadline_ms = u64::try_from(DEADLINE.as_millis()).unwrap_or(u64::MAX);
        Self { rate: plan.rate.get(), seconds: plan.seconds.get(), deadline_ms, states }
    }

    /// Returns true if each call was answered, and the slowest ones in time.
    #[must_use]
    pub fn is_kept(&self) -> bool {
        self.states.iter().all(StateLatency::is_kept)
    }

    /// Returns the report as JSON, with the version.
    #[must_use]
    pub fn json(&self) -> String {
        result::json("live-rls", &[], self)
    }
}

impl fmt::Display for RlsReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let about = format!(
            "{} calls/s to an agent and to an echo each, {} s in each state of Redis, one and two descriptors in turn. Rules wait for Redis for up to {} ms. Times are in ms, from the instant at which a call was due.",
            count(self.rate.into()),
            self.seconds,
            self.deadline_ms
        );
        writeln!(f, "Latency of the rate limit service\n\n{}\n", wrapped(&about))?;
        let mut table = plain_table(&["Redis", "", "calls", "failed", "p50", "p99", "p99.9", "max", "bound"], 2);
        for state in &self.states {
            for (name, of) in [("echo", &state.echo), ("agent", &state.agent)] {
                let times = [of.p50_ms, of.p99_ms, of.p999_ms, of.max_ms].map(|ms| format!("{ms:.1}"));
                let bound = if name == "agent" { format!("{:.1}", state.bound_ms) } else { String::new() };
                let head = [state.redis.to_owned(), name.to_owned(), count(of.calls), count(of.failed)];
                table.add_row(head.into_iter().chain(times).chain([bound]));
            }
        }
        writeln!(f, "{}\n", table.trim_fmt())?;
        let verdict = if self.is_kept() { "kept" } else { "NOT KEPT" };
        let bound = format!(
            "Bound of p99.9: that of the echo, the deadline, and {LATENESS_MS} ms for a late timer. It is {verdict}."
        );
        write!(f, "{}", wrapped(&bound))
    }
}

#[expect(clippy::cast_precision_loss, reason = "a latency")]
fn ms(us: u64) -> f64 {
    us as f64 / 1_000.0
}
