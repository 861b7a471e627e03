//! What an agent says in the end.

/// How many calls passed and did not.
pub(crate) struct Tally {
    allowed: u64,
    denied: u64,
}

impl Tally {
    /// Adds up the decisions in a text of metrics.
    pub(crate) fn of(metrics: &str) -> Self {
        let sum = |outcome: &str| {
            let decisions =
                metrics.lines().filter(|line| line.starts_with("tollgate_decisions_total{") && line.contains(outcome));
            decisions.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum()
        };
        Self { allowed: sum(r#",outcome="allowed","#), denied: sum(r#",outcome="denied","#) }
    }

    /// Tells it in the log.
    pub(crate) fn tell(&self) {
        tracing::info!("stopped; calls allowed: {}, denied: {}", self.allowed, self.denied);
    }
}
