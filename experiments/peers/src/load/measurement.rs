//! Latencies and answers of the measured time, and the CPU time of the server's processes in it.

use std::fs;

use anyhow::Context;
use serde_json::{Value, json};

use crate::rls::Answer;

#[derive(Default)]
pub struct Measurement {
    latencies_ns: Vec<u64>,
    allowed: u64,
    denied: u64,
    failed: u64,
}

impl Measurement {
    pub fn record(&mut self, latency_ns: u64, answer: Answer) {
        self.latencies_ns.push(latency_ns);
        match answer {
            Answer::Allowed => self.allowed += 1,
            Answer::Denied => self.denied += 1,
            Answer::Failed => self.failed += 1,
        }
    }

    /// Returns the figures as JSON: CPU time is that of each process and check.
    #[expect(clippy::cast_precision_loss, reason = "numbers of calls and times below an hour")]
    pub fn json(mut self, seconds: f64, cpu_us: &[u64]) -> Value {
        self.latencies_ns.sort_unstable();
        let checks = self.latencies_ns.len();
        let quantile_us = |permille: usize| {
            let rank = (checks * permille / 1_000).min(checks.saturating_sub(1));
            self.latencies_ns.get(rank).map(|latency| *latency as f64 / 1_000.0)
        };
        let each = |us: &u64| *us as f64 / checks.max(1) as f64;
        json!({
            "checks": checks,
            "per_second": checks as f64 / seconds,
            "allowed": self.allowed,
            "denied": self.denied,
            "failed": self.failed,
            "cpu_us": cpu_us.iter().map(each).collect::<Vec<_>>(),
            "p50_us": quantile_us(500),
            "p99_us": quantile_us(990),
            "p999_us": quantile_us(999),
        })
    }
}

/// Returns the CPU time that a process has used, in us.
pub fn cpu_us(process: u32) -> anyhow::Result<u64> {
    let path = format!("/proc/{process}/stat");
    let stat = fs::read_to_string(&path).with_context(|| path.clone())?;
    // The name of the program stands in parentheses, and may contain spaces. User and system time are the fields 14 and 15.
    let (_, fields) = stat.rsplit_once(')').context(path)?;
    let ticks = fields.split_whitespace().skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum::<u64>();
    Ok(ticks * 1_000_000 / rustix::param::clock_ticks_per_second())
}
