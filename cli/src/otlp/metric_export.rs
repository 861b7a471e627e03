//! Export of metrics at a fixed interval, and once more at the end. A reading that the collector does not take is not sent again: the
//! next one contains it.

use std::env;
use std::time::Duration;

use anyhow::bail;
use prost::Message;
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval};
use tollgate_command::exit::Usage;
use tollgate_core::clock::unix_time;

use super::collector::{Collector, Delivery, Telemetry};
use super::collector_url::CollectorUrl;
use super::messages::whole_ns;
use super::metric_messages::{ReadingTimes, metric_requests};
use super::proto::opentelemetry::proto::resource::v1::Resource;

/// Variable of OpenTelemetry with the interval in ms.
const INTERVAL_VARIABLE: &str = "OTEL_METRIC_EXPORT_INTERVAL";
const INTERVAL_DEFAULT: Duration = Duration::from_secs(15);

/// Export of metrics.
pub(super) struct MetricExport {
    /// Returns the metrics as OpenMetrics text.
    metrics: Box<dyn Fn() -> String + Send>,
    resource: Resource,
    interval: Duration,
    collector: Collector,
    stopping: watch::Receiver<bool>,
}

/// Reads the interval.
///
/// # Errors
/// If the variable holds none.
pub(super) fn export_interval() -> anyhow::Result<Duration> {
    let given = env::var(INTERVAL_VARIABLE).unwrap_or_default();
    match given.parse() {
        Ok(ms @ 1..) => Ok(Duration::from_millis(ms)),
        _ if given.is_empty() => Ok(INTERVAL_DEFAULT),
        _ => bail!(Usage(format!(
            "{INTERVAL_VARIABLE} cannot be `{given}`: write a number of milliseconds, such as {}",
            INTERVAL_DEFAULT.as_millis()
        ))),
    }
}

impl MetricExport {
    pub(super) fn new(
        metrics: Box<dyn Fn() -> String + Send>,
        resource: Resource,
        interval: Duration,
        url: CollectorUrl,
        stopping: watch::Receiver<bool>,
    ) -> Self {
        let consequence = "the next metrics that it takes contain those before".to_owned();
        let collector = Collector::new(url, Telemetry::Metrics, consequence);
        Self { metrics, resource, interval, collector, stopping }
    }

    /// Sends metrics until the process stops.
    pub(super) async fn run(&mut self) {
        let started = whole_ns(unix_time());
        let mut ticks = interval(self.interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        loop {
            let is_last = tokio::select! {
                biased;
                _ = self.stopping.wait_for(|stops| *stops) => true,
                _ = ticks.tick() => false,
            };
            // A clock that was set back since the start shows a time before it.
            let now = whole_ns(unix_time());
            let times = ReadingTimes { started: started.min(now), now };
            for request in metric_requests(&(self.metrics)(), &self.resource, times) {
                if !matches!(self.collector.send(request.encode_to_vec()).await, Delivery::Taken(_)) {
                    break;
                }
            }
            if is_last {
                return;
            }
        }
    }
}
