//! Distribution of the lags of a run's calls, measured or simulated, and of the parts of their path.

use hdrhistogram::Histogram;
use serde::Serialize;
use tollgate_sim::figures::histogram;

use super::calls::{Calls, LEGS};

/// Lags of the calls of a run, measured or simulated.
#[derive(Clone, Debug, Serialize)]
pub struct CallLags {
    /// Time from a call to its signal at another agent, always the next one.
    pub another: Lag,
    /// Time from a call to its signal at the last of all other agents.
    pub slowest: Lag,
    /// Parts of the path to another agent, in order. Parts between Kafka's clock and this machine's are exact to 1 ms.
    pub legs: Vec<LegReport>,
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
    /// Name of the part.
    pub name: &'static str,
    /// The quantiles.
    #[serde(flatten)]
    pub quantiles: Quantiles,
}

impl CallLags {
    /// Returns the lags of the calls after the warm-up.
    pub(super) fn of(calls: &Calls) -> Self {
        let measured = || (0..calls.len()).filter(|call| calls.is_measured(*call));
        let legs = LEGS.into_iter().zip(calls.legs());
        let legs = legs.map(|(name, leg)| LegReport { name, quantiles: quantiles(&leg, 0) });
        Self {
            another: lag(measured().map(|call| calls.lag_us(call))),
            slowest: lag(measured().map(|call| calls.slowest_lag_us(call))),
            legs: legs.collect(),
        }
    }
}

impl Quantiles {
    pub(super) fn shown(&self) -> [String; 5] {
        let shown = |ms: Option<f64>| ms.map_or_else(|| "never".to_owned(), |ms| format!("{ms:.2}"));
        [self.p50_ms, self.p90_ms, self.p99_ms, self.p999_ms, self.max_ms].map(shown)
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

#[expect(clippy::cast_precision_loss, reason = "times are far below 2^52 microseconds")]
pub(super) fn ms(us: u64) -> f64 {
    us as f64 / 1_000.0
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
