//! Alerts and dashboard of `deploy`, by promtool and by a real Prometheus that reads a running fleet.
//!
//! The tests do not show that Grafana draws the dashboard, nor that its image starts: they ask Prometheus each query.

mod watched_fleet;
mod alerts;
mod dashboard;
mod outages;

use std::path::{Path, PathBuf};

/// Page of the metrics, with the table of the alerts.
const DOCUMENT: &str = include_str!("../../../../docs/metrics.md");
const RULES: &str = include_str!("../../../../deploy/prometheus/rules.yaml");

/// Returns the folder of the files that are deployed.
fn deployed() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace is above").join("deploy")
}

/// Returns the values of a key of the alerts, in their order.
fn values<'t>(text: &'t str, key: &str) -> Vec<&'t str> {
    text.lines().filter_map(|line| line.trim().trim_start_matches("- ").strip_prefix(key)?.strip_prefix(": ")).collect()
}
