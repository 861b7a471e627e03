//! `--otlp`: metrics of the process, and spans of decisions that waited for the store, for a collector of OpenTelemetry.
//!
//! They go over HTTP as protobuf, because HTTP/1 is in the binary already. A thread of its own sends them, so no call waits for it: an
//! agent puts a span into a bounded queue, and past the cap spans are lost and counted. The metrics are those of `/metrics`, converted
//! from their text; nothing is counted twice. The SDK of OpenTelemetry was rejected: it exports only histograms that it has counted
//! itself, and does not tell how many spans it has lost. Its crate of messages alone brings 11 packages, of which one changes the build
//! of most others. So the messages are generated from trimmed copies of its schemas (`common/proto`), and the feature `otlp` adds none.
//!
//! Left out: TLS and credentials, which a collector beside the process has; logs.

mod collector_url;
#[cfg(not(feature = "otlp"))]
mod unavailable;
#[cfg(feature = "otlp")]
#[allow(dead_code, missing_docs, unreachable_pub, clippy::pedantic, reason = "generated code")]
mod proto;
#[cfg(feature = "otlp")]
mod messages;
#[cfg(feature = "otlp")]
mod exposition;
#[cfg(feature = "otlp")]
mod metric_messages;
#[cfg(feature = "otlp")]
mod span_queue;
#[cfg(feature = "otlp")]
mod span_messages;
#[cfg(feature = "otlp")]
mod collector;
#[cfg(feature = "otlp")]
mod span_export;
#[cfg(feature = "otlp")]
mod metric_export;
#[cfg(feature = "otlp")]
mod export;

use tollgate::Builder;
use tollgate_command::servers::RedisArgs;

use crate::sampled_part::sampled_part;
use collector_url::CollectorUrl;
#[cfg(feature = "otlp")]
pub(crate) use export::{PreparedExport, RunningExport};
#[cfg(not(feature = "otlp"))]
pub(crate) use unavailable::{NoExport as PreparedExport, NoExport as RunningExport};

/// `service.name` of an agent.
pub(crate) const AGENT: &str = "tollgate-agent";
/// `service.name` of an aggregator.
pub(crate) const AGGREGATOR: &str = "tollgate-aggregator";

/// Collector of a process.
#[derive(clap::Args)]
pub(crate) struct CollectorArgs {
    /// Collector of OpenTelemetry that gets the metrics, and from agents spans of decisions that waited for Redis, over
    /// OTLP/HTTP: `http://127.0.0.1:4318`; needs a binary with the feature `otlp` [default: none]
    #[arg(id = "otlp", long = "otlp", value_name = "URL", value_parser = CollectorUrl::parse)]
    url: Option<CollectorUrl>,
}

/// Collector of an agent.
#[derive(clap::Args)]
pub(crate) struct OtlpArgs {
    #[command(flatten)]
    collector: CollectorArgs,
    /// Part of the calls without `traceparent` whose decision may have a span, from 0% to 100%; the others follow the flag in theirs
    #[arg(id = "otlp_sample", long = "otlp-sample", value_name = "PERCENT", default_value = "1%", requires = "otlp", value_parser = sampled_part)]
    sample: u32,
}

impl CollectorArgs {
    /// Returns the export of the metrics, which begins when the process runs.
    ///
    /// # Errors
    /// If this binary has no export, or a setting is not valid.
    pub(crate) fn prepare(&self) -> anyhow::Result<Option<PreparedExport>> {
        self.url.as_ref().map(PreparedExport::new).transpose()
    }
}

impl OtlpArgs {
    /// Lets the agent of a builder leave spans. Returns the export, which begins when the agent runs.
    ///
    /// # Errors
    /// As [`CollectorArgs::prepare`].
    pub(crate) fn observe(
        &self,
        builder: Builder,
        redis: &RedisArgs,
    ) -> anyhow::Result<(Builder, Option<PreparedExport>)> {
        let Some(export) = self.collector.prepare()? else { return Ok((builder, None)) };
        let store = redis.settings().and_then(|redis| redis.shown());
        Ok(export.observing(builder, self.sample, store))
    }
}
