//! Export of spans: batches go to the collector one after the other. One that it may take later is sent again.

use std::sync::Arc;
use std::time::Duration;

use prost::Message;
use tokio::sync::mpsc::Receiver;
use tokio::sync::watch;
use tokio::time::sleep;

use super::collector::{Collector, Delivery, Telemetry};
use super::collector_url::CollectorUrl;
use super::proto::opentelemetry::proto::collector::trace::v1::ExportTraceServiceResponse;
use super::proto::opentelemetry::proto::resource::v1::Resource;
use super::span_messages::span_request;
use super::span_queue::{QUEUE_LEN_MAX, SpanFacts, SpanTotals};

/// Maximum number of spans in a message.
const BATCH_LEN_MAX: usize = 512;
/// Time for which a message waits for further spans.
const LINGER: Duration = Duration::from_secs(1);
/// Time between two attempts.
const RETRY_INTERVAL: Duration = Duration::from_secs(5);

/// Source of spans.
pub(super) struct SpanSource {
    pub(super) waiting: Receiver<SpanFacts>,
    pub(super) totals: Arc<SpanTotals>,
    /// Address of the store, if it has one.
    pub(super) store: Option<String>,
}

/// Export of spans.
pub(super) struct SpanExport {
    source: SpanSource,
    resource: Resource,
    collector: Collector,
    stopping: watch::Receiver<bool>,
    /// Number of lost spans when a batch was last taken.
    lost_before: u64,
    /// True since the log tells that spans are lost.
    told: bool,
}

impl SpanExport {
    pub(super) fn new(
        source: SpanSource,
        resource: Resource,
        url: CollectorUrl,
        stopping: watch::Receiver<bool>,
    ) -> Self {
        let consequence = format!(
            "up to {QUEUE_LEN_MAX} spans wait, further ones are lost and counted in tollgate_otlp_spans_lost_total"
        );
        let collector = Collector::new(url, Telemetry::Spans, consequence);
        Self { source, resource, collector, stopping, lost_before: 0, told: false }
    }

    /// Sends spans until the process stops and none is left.
    pub(super) async fn run(&mut self) {
        let mut batch = Vec::with_capacity(BATCH_LEN_MAX);
        loop {
            let is_last = self.fill(&mut batch).await;
            if batch.is_empty() {
                return;
            }
            self.send(&batch).await;
            batch.clear();
            if is_last {
                self.source.waiting.close();
            }
        }
    }

    /// Waits for the spans of a batch. Returns true if the process stops, which ends the wait.
    async fn fill(&mut self, batch: &mut Vec<SpanFacts>) -> bool {
        let (waiting, stopping) = (&mut self.source.waiting, &mut self.stopping);
        let more = async {
            if waiting.recv_many(batch, BATCH_LEN_MAX).await > 0 {
                let linger = sleep(LINGER);
                tokio::pin!(linger);
                while batch.len() < BATCH_LEN_MAX {
                    let room = BATCH_LEN_MAX - batch.len();
                    tokio::select! {
                        () = &mut linger => break,
                        added = waiting.recv_many(batch, room) => if added == 0 { break },
                    }
                }
            }
        };
        let is_last = tokio::select! {
            biased;
            () = more => false,
            _ = stopping.wait_for(|stops| *stops) => true,
        };
        while batch.len() < BATCH_LEN_MAX
            && let Ok(facts) = waiting.try_recv()
        {
            batch.push(facts);
        }
        is_last
    }

    /// Sends a batch until the collector takes or refuses it. When the process stops, there is one more attempt.
    async fn send(&mut self, batch: &[SpanFacts]) {
        let len = batch.len() as u64;
        let message = span_request(batch, &self.resource, self.source.store.as_deref()).encode_to_vec();
        let totals = self.source.totals.clone();
        loop {
            match self.collector.send(message.clone()).await {
                Delivery::Taken(answer) => {
                    let rejected = rejected(&answer).min(len);
                    totals.exported.add(len - rejected);
                    totals.dropped.add(rejected);
                    break;
                }
                Delivery::Refused => {
                    totals.dropped.add(len);
                    break;
                }
                Delivery::Late if *self.stopping.borrow() => {
                    totals.dropped.add(len);
                    break;
                }
                Delivery::Late => {
                    self.tell_lost();
                    tokio::select! {
                        () = sleep(RETRY_INTERVAL) => {}
                        _ = self.stopping.wait_for(|stops| *stops) => {}
                    }
                }
            }
        }
        self.tell_lost();
        self.told &= totals.lost() > self.lost_before;
        self.lost_before = totals.lost();
    }

    /// Logs that spans are lost, once until a batch passes without a loss.
    fn tell_lost(&mut self) {
        let lost = self.source.totals.lost() - self.lost_before;
        if lost > 0 && !self.told {
            self.told = true;
            tracing::warn!(
                lost,
                "--otlp: spans are lost, because the collector does not take them or not in time; look at its log, or have fewer calls sampled: with --otlp-sample, or at the gateway"
            );
        }
    }
}

/// Returns the number of spans of a batch that a collector did not want, by its answer to the others.
fn rejected(answer: &[u8]) -> u64 {
    let answer = ExportTraceServiceResponse::decode(answer).unwrap_or_default();
    answer.partial_success.and_then(|partial| partial.rejected_spans.try_into().ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use crate::otlp::proto::opentelemetry::proto::collector::trace::v1::ExportTracePartialSuccess;

    use super::*;

    #[test]
    fn an_answer_tells_how_many_spans_are_rejected() {
        let answer = |rejected_spans| {
            let partial = ExportTracePartialSuccess { rejected_spans };
            ExportTraceServiceResponse { partial_success: Some(partial) }.encode_to_vec()
        };
        for (answer, expected) in [(Vec::new(), 0), (answer(3), 3), (answer(-1), 0), (b"not protobuf".to_vec(), 0)] {
            assert_eq!(rejected(&answer), expected, "{answer:?}");
        }
    }
}
