//! Totals of an agent's decisions, for its last log line.

/// Numbers of admitted and denied calls.
pub(crate) struct DecisionTotals {
    allowed: u64,
    denied: u64,
}

impl DecisionTotals {
    /// Sums the decisions in the text of the metrics.
    pub(crate) fn of(metrics: &str) -> Self {
        let sum = |outcome: &str| {
            let decisions =
                metrics.lines().filter(|line| line.starts_with("tollgate_decisions_total{") && line.contains(outcome));
            decisions.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum()
        };
        Self { allowed: sum(r#",outcome="allowed","#), denied: sum(r#",outcome="denied","#) }
    }

    /// Logs the totals.
    pub(crate) fn log(&self) {
        tracing::info!("stopped; calls allowed: {}, denied: {}", self.allowed, self.denied);
    }
}
