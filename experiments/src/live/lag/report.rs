//! Results of the runs, as text and as JSON.

use std::fmt;
use std::time::Duration;

use serde::Serialize;
use tollgate::Source;
use tollgate_sim::figures::{count, plain_table, wrapped};

use super::call_lags::{CallLags, Quantiles, ms};
use super::calls::Calls;
use super::load::SentCalls;
use super::plan::LagPlan;
use super::predicted::{NETWORK_MS_MAX, SEED};
use crate::live::result;

/// Largest 99th percentile of the lag that meets the aim for [`AIM_AGENTS`], in ms.
const AIM_P99_MS: f64 = 20.0;
const AIM_AGENTS: u32 = 2;

/// Largest difference from the simulation that counts as noise, in ms: the clocks of the parts are exact to 1 ms.
const NOISE_MS: f64 = 2.0;

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
    /// Lags of the calls.
    #[serde(flatten)]
    pub lags: CallLags,
    /// Lags of simulated calls.
    pub simulated: CallLags,
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

pub(super) fn of(
    plan: &LagPlan,
    calls: &Calls,
    simulated: CallLags,
    sent: &SentCalls,
    cpu: Option<Duration>,
) -> LagRun {
    let measured_calls = calls.len() - plan.warm_up_calls();
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
        lags: CallLags::of(calls),
        simulated,
        sent_late_p99_ms: ms(sent.late_us.value_at_quantile(0.99)),
        sent_late_max_ms: ms(sent.late_us.max()),
        decided: decided.into(),
        denied: sent.denied,
        cpu_seconds: cpu.map(|cpu| cpu.as_secs_f64()),
    }
}

impl LagReport {
    /// Creates the report of these runs.
    #[must_use]
    pub fn new(runs: Vec<LagRun>) -> Self {
        let of_aim = runs.iter().find(|run| run.agents == AIM_AGENTS);
        let met = of_aim.map(|run| run.lags.another.quantiles.p99_ms.is_some_and(|p99_ms| p99_ms < AIM_P99_MS));
        Self { runs, aim: Aim { agents: AIM_AGENTS, p99_ms: AIM_P99_MS, met } }
    }

    /// Returns the report as JSON, with the version and the seed of its simulation.
    #[must_use]
    pub fn json(&self) -> String {
        result::json("live-lag", &[SEED], self)
    }
}

impl fmt::Display for LagReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "Time from a call at one agent to its signal at another, in ms\n")?;
        let mut table = plain_table(&["agents", "known to", "p50", "p90", "p99", "p99.9", "max", "never"], 2);
        for run in &self.runs {
            let mut rows = vec![("another", &run.lags.another), ("as simulated", &run.simulated.another)];
            if run.agents > 2 {
                rows.extend([("all others", &run.lags.slowest), ("as simulated", &run.simulated.slowest)]);
            }
            for (who, lag) in rows {
                let head = [run.agents.to_string(), who.to_owned()];
                let tail = count(lag.never);
                table.add_row(head.into_iter().chain(lag.quantiles.shown()).chain([tail]));
            }
        }
        writeln!(f, "{table}\n")?;
        let mut legs = plain_table(&["agents", "on the way, ms", "p50", "p90", "p99", "p99.9", "max"], 2);
        for run in &self.runs {
            for (leg, simulated) in run.lags.legs.iter().zip(&run.simulated.legs) {
                for (name, leg) in [(leg.name, leg), ("as simulated", simulated)] {
                    let head = [run.agents.to_string(), name.to_owned()];
                    legs.add_row(head.into_iter().chain(leg.quantiles.shown()));
                }
            }
        }
        writeln!(f, "{legs}\n")?;
        for run in &self.runs {
            writeln!(f, "{}", wrapped(&run.to_string()))?;
            for sentence in run.differences() {
                writeln!(f, "{}", wrapped(&sentence))?;
            }
        }
        let simulated = format!(
            "Simulated nodes never wait for a processor, and their servers are up to {NETWORK_MS_MAX} ms away."
        );
        writeln!(f, "{}", wrapped(&simulated))?;
        write!(f, "\naim: p99 < {AIM_P99_MS:.0} ms for {AIM_AGENTS} agents: ")?;
        match self.aim.met {
            Some(true) => write!(f, "met"),
            Some(false) => write!(f, "MISSED"),
            None => write!(f, "not measured"),
        }
    }
}

impl LagRun {
    /// Returns a sentence for the median and the 99th percentile that differ from the simulated ones by more than noise, with the
    /// part of the path that differs most.
    #[must_use]
    pub fn differences(&self) -> Vec<String> {
        type Quantile = (&'static str, fn(&Quantiles) -> Option<f64>);
        let kinds: [Quantile; 2] = [("p50", |of| of.p50_ms), ("p99", |of| of.p99_ms)];
        let sentence = |(name, quantile): Quantile| {
            let of = |lags: &CallLags| quantile(&lags.another.quantiles);
            let (real, simulated) = of(&self.lags).zip(of(&self.simulated))?;
            let legs = self.lags.legs.iter().zip(&self.simulated.legs);
            let legs = legs.filter_map(|(real, simulated)| {
                Some((real.name, quantile(&real.quantiles)?, quantile(&simulated.quantiles)?))
            });
            let apart = |(_, real, simulated): &(_, f64, f64)| (real - simulated).abs();
            let (leg, leg_real, leg_simulated) = legs.max_by(|a, b| apart(a).total_cmp(&apart(b)))?;
            ((real - simulated).abs() > NOISE_MS).then(|| {
                format!(
                    "{} agents: the {name} is {real:.1} ms, simulated {simulated:.1}. The part that differs most is \"{leg}\": \
                     {leg_real:.1} ms, simulated {leg_simulated:.1}. 1% of the calls themselves came more than {:.1} ms late.",
                    self.agents, self.sent_late_p99_ms
                )
            })
        };
        kinds.into_iter().filter_map(sentence).collect()
    }
}

impl fmt::Display for LagRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let calls = count(self.calls);
        let Self { agents, keys, rate, achieved_rate, sent_late_p99_ms, sent_late_max_ms, .. } = self;
        write!(
            f,
            "{agents} agents, {keys} keys, {calls} calls: {achieved_rate:.0} calls/s of {rate}, sent {sent_late_p99_ms:.2} ms late (p99; max {sent_late_max_ms:.1}); decided by"
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
