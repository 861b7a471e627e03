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

use super::errors::remedy;
use super::rejections::Rejections;
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
    /// True if changes of the connection are logged above `debug`; one client per process does so.
    logs_connection: bool,
    started: Stopwatch,
    state: Mutex<ConnectionState>,
}

#[derive(Default)]
struct ConnectionState {
    lost: bool,
    auth_failure: Option<String>,
    last_error: Option<String>,
    /// Topics and error codes logged since the connection was established.
    logged: Vec<(String, Code)>,
    rejections: Rejections,
}

impl KafkaContext {
    pub(super) fn new(client: String, brokers: &str, logs_connection: bool) -> Self {
        let (brokers, state) = (brokers.to_owned(), Mutex::default());
        Self(Arc::new(ContextInner { client, brokers, logs_connection, started: Stopwatch::start(), state }))
    }

    /// Records that a record was received or acknowledged.
    pub(super) fn confirm_connection(&self) {
        let mut state = self.0.state.lock();
        state.auth_failure = None;
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
        self.0.state.lock().rejections.error(self.0.started.elapsed(), &self.0.brokers)
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

    /// Returns the reason of an authentication failure since the last call.
    pub(super) fn take_auth_failure(&self) -> Option<String> {
        self.0.state.lock().auth_failure.take()
    }

    pub(super) fn last_error(&self) -> Option<String> {
        self.0.state.lock().last_error.clone()
    }
}

impl ClientContext for KafkaContext {
    fn log(&self, _: RDKafkaLogLevel, facility: &str, message: &str) {
        tracing::debug!(client = self.0.client, facility, message, "librdkafka");
    }

    fn error(&self, error: Native, reason: &str) {
        let (client, brokers) = (&self.0.client, &self.0.brokers);
        let mut state = self.0.state.lock();
        let remedy = match error.rdkafka_error_code() {
            Some(Code::Authentication | Code::SaslAuthenticationFailed | Code::SSL) => {
                state.auth_failure = Some(reason.to_owned());
                "check security.protocol, sasl.* and ssl.*"
            }
            Some(Code::AllBrokersDown) => "start it or correct its address; Tollgate reconnects by itself",
            _ => {
                state.last_error = Some(reason.to_owned());
                return;
            }
        };
        if !std::mem::replace(&mut state.lost, true) {
            let reason = state.auth_failure.as_ref().or(state.last_error.as_ref()).map_or(reason, |known| known);
            if self.0.logs_connection {
                let reason = excerpt(reason);
                tracing::warn!(brokers, %reason, remedy, "the connection to Kafka is lost");
            } else {
                tracing::debug!(client, brokers, reason, "the connection to Kafka is lost");
            }
        }
    }
}

impl ConsumerContext for KafkaContext {}
