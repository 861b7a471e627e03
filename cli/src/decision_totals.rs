//! Totals of an agent's decisions, for its last log line.

/// Sums the decisions in the text of the metrics and logs the totals.
pub(crate) fn log(metrics: &str) {
    let decisions = || metrics.lines().filter(|line| line.starts_with("tollgate_decisions_total{"));
    let sum = |outcome: &str| -> u64 {
        let lines = decisions().filter(|line| line.contains(outcome));
        lines.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum()
    };
    let (allowed, denied) = (sum(r#",outcome="allowed","#), sum(r#",outcome="denied","#));
    tracing::info!("stopped; calls allowed: {allowed}, denied: {denied}");
}
