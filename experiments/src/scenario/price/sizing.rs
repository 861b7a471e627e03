//! Sizes of a deployment, computed from measured figures.

use serde::Deserialize;

/// Measured figures, from the benches.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MeasuredFigures {
    /// CPU time of Redis for an admitted call whose script is shared by many, in us.
    pub(super) redis_step_us: f64,
    /// CPU time of Redis for an admitted call with a script and a request of its own, in us.
    pub(super) redis_script_us: f64,
    /// CPU time of an agent for a cached denial, in ns.
    pub(super) cached_denial_ns: f64,
    /// CPU time of an agent for a leased call, in cached denials.
    pub(super) leased_call_ratio: f64,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Load {
    pub(super) calls_per_second: u64,
    pub(super) agents: u64,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sizing {
    pub(super) requests_per_second: f64,
    /// Cores of Redis, if requests share their work, and if each stands alone.
    pub(super) redis_cores: [f64; 2],
    pub(super) kafka_mb_per_second: f64,
    pub(super) agent_cores: f64,
}

impl Load {
    /// Returns the calls per second of an agent.
    pub(super) fn of_agent(&self) -> u64 {
        self.calls_per_second / self.agents
    }
}

impl MeasuredFigures {
    pub(super) fn by_key(&self) -> [(&'static str, f64); 4] {
        [
            ("redis_step_us", self.redis_step_us),
            ("redis_script_us", self.redis_script_us),
            ("cached_denial_ns", self.cached_denial_ns),
            ("leased_call_ratio", self.leased_call_ratio),
        ]
    }

    /// Computes the sizes for a load whose calls make so many requests to the store and bytes on the bus.
    #[expect(clippy::cast_precision_loss, reason = "rates of a few digits")]
    pub(super) fn sizing(&self, load: Load, requests_per_call: f64, bytes_per_call: f64) -> Sizing {
        let calls = load.calls_per_second as f64;
        let requests = calls * requests_per_call;
        Sizing {
            requests_per_second: requests,
            redis_cores: [self.redis_step_us, self.redis_script_us].map(|us| requests * us / 1e6),
            kafka_mb_per_second: calls * bytes_per_call / 1e6,
            agent_cores: calls * self.cached_denial_ns * self.leased_call_ratio / 1e9,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_follow_from_the_figures() {
        let figures = MeasuredFigures {
            redis_step_us: 5.0,
            redis_script_us: 20.0,
            cached_denial_ns: 200.0,
            leased_call_ratio: 1.5,
        };
        let sizing = figures.sizing(Load { calls_per_second: 1_000_000, agents: 10 }, 0.5, 12.0);
        let computed = [
            (sizing.requests_per_second, 500_000.0),
            (sizing.redis_cores[0], 2.5),
            (sizing.redis_cores[1], 10.0),
            (sizing.kafka_mb_per_second, 12.0),
            (sizing.agent_cores, 0.3),
        ];
        for (value, expected) in computed {
            assert!((value - expected).abs() < 1e-9, "{value} {expected}");
        }
    }
}
