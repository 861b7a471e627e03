//! Results of the runs, as text and as JSON.

use std::fmt;
use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;
use tollgate::Source;

use super::LagPlan;
use super::calls::{Calls, LEGS};
use super::load::SentCalls;
use crate::figures::{count, histogram, plain_table};

/// Largest 99th percentile of the lag that meets the aim for [`AIM_AGENTS`], in ms.
const AIM_P99_MS: f64 = 20.0;
const AIM_AGENTS: u32 = 2;

/// Results of all runs.
#[derive(Clone, Debug, Serialize)]
pub struct LagReport {
    /// Results by number of agents.
    pub runs: Vec<LagRun>,
    aim: Aim,
}

/// Result of one run.
#[derive(Clone, Debug, Serialize)]
pub struct LagRun {
    /// Number of agents.
    pub agents: u32,
    /// Number of keys.
    pub keys: u32,
    /// Requested calls per second.
    pub rate: u32,
    /// Achieved calls per second.
    pub achieved_rate: f64,
    /// Calls that were measured.
    pub calls: u64,
    /// Time from a call to its signal at another agent, always the next one.
    pub another: Lag,
    /// Time from a call to its signal at the last of all other agents.
    pub slowest: Lag,
    /// Parts of the path to another agent, in order. Parts between Kafka's clock and this machine's are exact to 1 ms.
    pub legs: Vec<LegReport>,
    /// 99th percentile of the delay of calls after their due instant, in ms.
    pub sent_late_p99_ms: f64,
    /// Largest such delay, in ms.
    pub sent_late_max_ms: f64,
    /// Calls by source of the decision.
    pub decided: Vec<SourceCalls>,
    /// Denied calls; none is expected.
    pub denied: u64,
    /// Processor seconds of this process: agents, aggregator and load together.
    pub cpu_seconds: Option<f64>,
}

/// Distribution of a lag.
#[derive(Clone, Debug, Serialize)]
pub struct Lag {
    /// Calls that were never signalled. They rank last in the quantiles and have no time.
    pub never: u64,
    /// The quantiles.
    #[serde(flatten)]
    pub quantiles: Quantiles,
}

/// Quantiles in ms; `None` for a call that was never signalled.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Quantiles {
    /// Median.
    pub p50_ms: Option<f64>,
    /// 90th percentile.
    pub p90_ms: Option<f64>,
    /// 99th percentile.
    pub p99_ms: Option<f64>,
    /// 99.9th percentile.
    pub p999_ms: Option<f64>,
    /// Maximum.
    pub max_ms: Option<f64>,
}

/// Quantiles of one part of the path.
#[derive(Clone, Debug, Serialize)]
pub struct LegReport {
    name: &'static str,
    #[serde(flatten)]
    quantiles: Quantiles,
}

/// Number of calls that one source decided.
#[derive(Clone, Debug, Serialize)]
pub struct SourceCalls {
    source: String,
    calls: u64,
}

#[derive(Clone, Debug, Serialize)]
struct Aim {
    agents: u32,
    p99_ms: f64,
    /// `None` if no run had that number of agents.
    met: Option<bool>,
}

pub(super) fn of(plan: &LagPlan, calls: &Calls, sent: &SentCalls, cpu: Option<Duration>) -> LagRun {
    let measured = plan.warm_up_calls()..calls.len();
    let measured_calls = measured.end - measured.start;
    let legs = LEGS.into_iter().zip(calls.legs());
    let legs = legs.map(|(name, leg)| LegReport { name, quantiles: quantiles(&leg, 0) });
    let seconds = ms(sent.last_us.saturating_sub(sent.first_us)) / 1_000.0;
    let decided =
        Source::ALL.map(|source| SourceCalls { source: source.to_string(), calls: sent.by_source[source as usize] });
    LagRun {
        agents: plan.agents.get(),
        keys: calls.keys,
        rate: plan.rate.get(),
        // The last call marks the end of the interval and is not part of it.
        achieved_rate: if seconds > 0.0 { ms(measured_calls.saturating_sub(1)) * 1_000.0 / seconds } else { 0.0 },
        calls: measured_calls,
        another: lag(measured.clone().map(|call| calls.lag_us(call))),
        slowest: lag(measured.map(|call| calls.slowest_lag_us(call))),
        legs: legs.collect(),
        sent_late_p99_ms: ms(sent.late_us.value_at_quantile(0.99)),
        sent_late_max_ms: ms(sent.late_us.max()),
        decided: decided.into(),
        denied: sent.denied,
        cpu_seconds: cpu.map(|cpu| cpu.as_secs_f64()),
    }
}

fn lag(calls: impl Iterator<Item = Option<u64>>) -> Lag {
    let (mut known, mut never) = (histogram(), 0);
    for call in calls {
        match call {
            Some(us) => known.saturating_record(us),
            None => never += 1,
        }
    }
    Lag { never, quantiles: quantiles(&known, never) }
}

fn quantiles(known: &Histogram<u64>, never: u64) -> Quantiles {
    let all = known.len() + never;
    let at = |per_thousand: u64| {
        let rank = (u128::from(all) * u128::from(per_thousand)).div_ceil(1_000);
        (rank > 0 && rank <= u128::from(known.len())).then(|| ms(known.value_at_quantile(share(rank, known.len()))))
    };
    Quantiles { p50_ms: at(500), p90_ms: at(900), p99_ms: at(990), p999_ms: at(999), max_ms: at(1_000) }
}

/// Returns a rank as a fraction. The histogram rounds up, so the middle of the rank selects exactly that rank.
#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
fn share(rank: u128, of: u64) -> f64 {
    (rank as f64 - 0.5) / of as f64
}

/// Converts microseconds to ms.
#[expect(clippy::cast_precision_loss, reason = "times are far below 2^52 microseconds")]
fn ms(us: u64) -> f64 {
    us as f64 / 1_000.0
}

impl LagReport {
    /// Creates the report of these runs.
    #[must_use]
    pub fn new(runs: Vec<LagRun>) -> Self {
        let of_aim = runs.iter().find(|run| run.agents == AIM_AGENTS);
        let met = of_aim.map(|run| run.another.quantiles.p99_ms.is_some_and(|p99_ms| p99_ms < AIM_P99_MS));
        Self { runs, aim: Aim { agents: AIM_AGENTS, p99_ms: AIM_P99_MS, met } }
    }
}

impl fmt::Display for LagReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "Time from a call at one agent to its signal at another, in ms\n")?;
        let mut table = plain_table(&["agents", "known to", "calls", "p50", "p90", "p99", "p99.9", "max", "never"], 2);
        for run in &self.runs {
            let mut rows = vec![("another", &run.another)];
            if run.agents > 2 {
                rows.push(("all others", &run.slowest));
            }
            for (who, lag) in rows {
                let head = [run.agents.to_string(), who.to_owned(), count(run.calls)];
                let tail = count(lag.never);
                table.add_row(head.into_iter().chain(lag.quantiles.shown()).chain([tail]));
            }
        }
        writeln!(f, "{table}\n")?;
        let mut legs = plain_table(&["agents", "on the way, ms", "p50", "p90", "p99", "p99.9", "max"], 2);
        for run in &self.runs {
            for leg in &run.legs {
                let head = [run.agents.to_string(), leg.name.to_owned()];
                legs.add_row(head.into_iter().chain(leg.quantiles.shown()));
            }
        }
        writeln!(f, "{legs}\n")?;
        self.runs.iter().try_for_each(|run| writeln!(f, "{run}"))?;
        write!(f, "\naim: p99 < {AIM_P99_MS:.0} ms for {AIM_AGENTS} agents: ")?;
        match self.aim.met {
            Some(true) => write!(f, "met"),
            Some(false) => write!(f, "MISSED"),
            None => write!(f, "not measured"),
        }
    }
}

impl fmt::Display for LagRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { agents, keys, rate, achieved_rate, sent_late_p99_ms, sent_late_max_ms, .. } = self;
        write!(
            f,
            "{agents} agents, {keys} keys: {achieved_rate:.0} calls/s of {rate}, sent {sent_late_p99_ms:.2} ms late (p99; max {sent_late_max_ms:.1}); decided by"
        )?;
        for decided in self.decided.iter().filter(|decided| decided.calls > 0) {
            write!(f, " {} {}", decided.source, count(decided.calls))?;
        }
        if self.denied > 0 {
            write!(f, ", of which {} were DENIED", count(self.denied))?;
        }
        self.cpu_seconds.map_or(Ok(()), |seconds| write!(f, "; {seconds:.1} CPU s"))
    }
}

impl Quantiles {
    fn shown(&self) -> [String; 5] {
        let shown = |ms: Option<f64>| ms.map_or_else(|| "never".to_owned(), |ms| format!("{ms:.2}"));
        [self.p50_ms, self.p90_ms, self.p99_ms, self.p999_ms, self.max_ms].map(shown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_that_is_never_signalled_ranks_last() {
        let of = lag((1..=990).map(|ms| Some(ms * 1_000)).chain([None; 10]));
        let Quantiles { p50_ms, p99_ms, p999_ms, max_ms, .. } = of.quantiles;
        assert_eq!(of.never, 10);
        assert!((499.0..501.0).contains(&p50_ms.unwrap()) && (989.0..992.0).contains(&p99_ms.unwrap()));
        assert_eq!((p999_ms, max_ms), (None, None));
    }
}
