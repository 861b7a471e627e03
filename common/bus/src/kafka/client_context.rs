//! librdkafka client context: connection state of one client, logged once per change instead of once per attempt, and the
//! topics that reject its records.
//!
//! librdkafka reconnects by itself without end, and its messages about attempts go to the level `debug`. The connection
//! counts as lost when librdkafka reports all brokers down, and as recovered when the next record is received or
//! acknowledged. What the reports of records say about their topics is in [`super::rejections`].

use std::sync::Arc;

use parking_lot::Mutex;
use rdkafka::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::ConsumerContext;
use rdkafka::error::{KafkaError as Native, RDKafkaErrorCode as Code};

use super::access_fault::{AccessFault, AccessFaults};
use super::errors::remedy;
use super::rejections::Rejections;
use super::settings::KafkaSettings;
use super::unsent::UnsentRecords;
use crate::BusError;
use tollgate_core::clock::Stopwatch;
use tollgate_core::one_line::excerpt;

/// Connection state of one client; clones share it.
#[derive(Clone)]
pub(super) struct KafkaContext(Arc<ContextInner>);

struct ContextInner {
    /// Name of the client in log lines: `writer`, or `reader of calls`.
    client: String,
    brokers: String,
    /// Flags by which Kafka's commands reach the brokers.
    tool_flags: String,
    /// True if changes of the connection are logged above `debug`; one client per process does so.
    logs_connection: bool,
    started: Stopwatch,
    faults: AccessFaults,
    unsent: UnsentRecords,
    state: Mutex<ConnectionState>,
}

#[derive(Default)]
struct ConnectionState {
    lost: bool,
    last_error: Option<String>,
    /// Topics and error codes logged since the connection was established.
    logged: Vec<(String, Code)>,
    rejections: Rejections,
}

impl KafkaContext {
    /// Creates the state of a client that shares the faults of the access with the other clients of its bus.
    pub(super) fn new(client: String, settings: &KafkaSettings, logs_connection: bool, faults: AccessFaults) -> Self {
        let (brokers, tool_flags, started) = (settings.brokers.clone(), settings.tool_flags(), Stopwatch::start());
        let (unsent, state) = (UnsentRecords::default(), Mutex::default());
        Self(Arc::new(ContextInner { client, brokers, tool_flags, logs_connection, started, faults, unsent, state }))
    }

    /// Returns the records that a replaced producer has not sent.
    pub(super) fn unsent(&self) -> &UnsentRecords {
        &self.0.unsent
    }

    /// Returns the faults of the access to the brokers.
    pub(super) fn faults(&self) -> &AccessFaults {
        &self.0.faults
    }

    /// Records that a record was received or acknowledged.
    pub(super) fn confirm_connection(&self) {
        let mut state = self.0.state.lock();
        if std::mem::take(&mut state.lost) {
            state.logged.clear();
            if self.0.logs_connection {
                tracing::info!(brokers = self.0.brokers, "the connection to Kafka is restored");
            }
        }
    }

    /// Records that a topic has kept a record.
    pub(super) fn record_accepted(&self, topic: &str) {
        self.confirm_connection();
        self.0.state.lock().rejections.accepted(topic);
    }

    /// Records that a topic has not kept a record.
    pub(super) fn record_rejected(&self, topic: &str, code: Code) {
        self.0.state.lock().rejections.rejected(self.0.started.elapsed(), topic, code);
    }

    /// Returns the error of a topic that rejects records.
    pub(super) fn rejection(&self) -> Option<BusError> {
        self.0.state.lock().rejections.error(self.0.started.elapsed(), &self.0.tool_flags)
    }

    /// Logs a failure other than a lost connection, once per topic, error code and connection.
    pub(super) fn log_failure(&self, failure: &str, topic: &str, code: Code) {
        let mut state = self.0.state.lock();
        if !state.logged.iter().any(|(known, logged)| known == topic && *logged == code) {
            state.logged.push((topic.to_owned(), code));
            let (client, brokers) = (&self.0.client, &self.0.brokers);
            tracing::error!(client, brokers, topic, reason = %code, remedy = remedy(code), "{failure}; logged once per connection");
        }
    }

    /// Records a fault of the access, and logs it once for all clients of the bus.
    fn note_fault(&self, fault: &AccessFault) {
        if self.0.faults.note(fault) {
            let (broker, reason, remedy) = (&fault.node, &fault.detail, fault.remedy());
            tracing::warn!(broker, %reason, remedy, "a broker of Kafka cannot be used");
        }
    }

    pub(super) fn last_error(&self) -> Option<String> {
        self.0.state.lock().last_error.clone()
    }
}

impl ClientContext for KafkaContext {
    fn log(&self, _: RDKafkaLogLevel, facility: &str, message: &str) {
        tracing::debug!(client = self.0.client, facility, message, "librdkafka");
        if let Some(fault) = AccessFault::of_log(message) {
            self.note_fault(&fault);
        }
    }

    fn error(&self, error: Native, reason: &str) {
        let (client, brokers) = (&self.0.client, &self.0.brokers);
        let code = error.rdkafka_error_code();
        let mut state = self.0.state.lock();
        if let Some(fault) = AccessFault::of(code, reason) {
            state.lost = true;
            self.note_fault(&fault);
            return;
        }
        if code != Some(Code::AllBrokersDown) {
            self.0.faults.forget_unreachable(reason);
            state.last_error = Some(reason.to_owned());
            return;
        }
        if !std::mem::replace(&mut state.lost, true) {
            let reason = state.last_error.as_deref().unwrap_or(reason);
            if self.0.logs_connection {
                let (reason, remedy) =
                    (excerpt(reason), "start it or correct its address; Tollgate reconnects by itself");
                tracing::warn!(brokers, %reason, remedy, "the connection to Kafka is lost");
            } else {
                tracing::debug!(client, brokers, reason, "the connection to Kafka is lost");
            }
        }
    }
}

impl ConsumerContext for KafkaContext {}
