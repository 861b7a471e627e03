//! The export of a process, on a thread of its own. A collector that is slow or down delays nothing but this thread.

use std::sync::Arc;
use std::thread::{Builder as ThreadBuilder, JoinHandle};
use std::time::Duration;

use tokio::runtime;
use tokio::sync::watch;
use tokio::time::sleep;
use tollgate::Builder;

use super::collector_url::CollectorUrl;
use super::messages::resource;
use super::metric_export::{MetricExport, export_interval};
use super::span_export::{SpanExport, SpanSource};
use super::span_queue::{SpanTotals, span_queue};

/// Time for which a stop waits until the collector has taken the last messages.
const FLUSH_WAIT: Duration = Duration::from_secs(3);

/// Export that begins when its process runs.
pub(crate) struct PreparedExport {
    url: CollectorUrl,
    interval: Duration,
    spans: Option<SpanSource>,
}

/// Export that runs.
pub(crate) struct RunningExport {
    stop: watch::Sender<bool>,
    thread: JoinHandle<()>,
}

/// Work of the thread.
struct ExportThread {
    spans: Option<(SpanExport, Arc<SpanTotals>)>,
    metrics: MetricExport,
    stopping: watch::Receiver<bool>,
}

impl PreparedExport {
    /// Prepares the export of metrics to a collector.
    ///
    /// # Errors
    /// If the interval is not valid.
    pub(super) fn new(url: &CollectorUrl) -> anyhow::Result<Self> {
        Ok(Self { url: url.clone(), interval: export_interval()?, spans: None })
    }

    /// Adds the spans of the agent of a builder. `store` is the address of its store, if it has one.
    pub(super) fn observing(self, builder: Builder, sample: u32, store: Option<String>) -> (Builder, Option<Self>) {
        let (queue, waiting, totals) = span_queue(sample);
        let spans = Some(SpanSource { waiting, totals: totals.clone(), store });
        let builder = builder.observe_asked(move |asked| queue.take(asked)).metrics_from(move || totals.encode());
        (builder, Some(Self { spans, ..self }))
    }

    /// Starts the export. `metrics` returns the metrics as OpenMetrics text.
    ///
    /// # Errors
    /// If the system provides no thread.
    pub(crate) fn start(
        self,
        service: &'static str,
        instance: &str,
        metrics: impl Fn() -> String + Send + 'static,
    ) -> anyhow::Result<RunningExport> {
        let Self { url, interval, spans } = self;
        let (stop, stopping) = watch::channel(false);
        let resource = resource(service, instance);
        let spans = spans.map(|source| {
            let totals = source.totals.clone();
            (SpanExport::new(source, resource.clone(), url.clone(), stopping.clone()), totals)
        });
        let metrics = MetricExport::new(Box::new(metrics), resource, interval, url, stopping.clone());
        let mut work = ExportThread { spans, metrics, stopping };
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        let thread = ThreadBuilder::new().name("tollgate-otlp".into()).spawn(move || {
            runtime.block_on(work.run());
            // A name server that does not answer holds up no stop.
            runtime.shutdown_background();
        })?;
        Ok(RunningExport { stop, thread })
    }
}

impl ExportThread {
    async fn run(&mut self) {
        let Self { spans, metrics, stopping } = self;
        let totals = spans.as_ref().map(|(_, totals)| totals.clone());
        let spans = async {
            if let Some((spans, _)) = spans {
                spans.run().await;
            }
        };
        let ends = async {
            // An error means that nobody will stop it any more.
            let _ = stopping.wait_for(|stops| *stops).await;
            sleep(FLUSH_WAIT).await;
        };
        tokio::select! {
            ((), ()) = async { tokio::join!(spans, metrics.run()) } => {}
            () = ends => {}
        }
        let lost = totals.map_or(0, |totals| totals.drop_rest());
        if lost > 0 {
            tracing::warn!(
                lost,
                "--otlp: the last spans are lost, because the collector has not taken them within {} s; stop it after Tollgate",
                FLUSH_WAIT.as_secs()
            );
        }
    }
}

impl RunningExport {
    /// Sends what waits, and ends the export.
    pub(crate) fn stop(self) {
        self.stop.send_replace(true);
        let _ = self.thread.join();
    }
}
