//! What a client hears of its brokers, said once per change and not once per attempt.
//!
//! librdkafka connects again by itself for ever; what it says of each attempt goes to `debug`. Contact is lost when no
//! broker is left, and back with the next record that comes or is acknowledged.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use rdkafka::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::ConsumerContext;
use rdkafka::error::{KafkaError as Native, RDKafkaErrorCode as Code};

/// What one client knows of its brokers; clones are the same.
#[derive(Clone)]
pub(super) struct Contact(Arc<Inner>);

struct Inner {
    /// Whose it is: `writer`, or `reader of calls`.
    client: String,
    brokers: String,
    /// Whether it tells of lost contact: one client of a process is enough.
    speaks: bool,
    known: Mutex<Known>,
    events: AtomicU64,
}

#[derive(Default)]
struct Known {
    lost: bool,
    /// Why the brokers let nobody in.
    locked_out: Option<String>,
    last_error: Option<String>,
    /// Reasons that have been said since contact was made.
    said: Vec<Code>,
}

impl Contact {
    /// The writer's, which tells when contact is lost and back.
    pub(super) fn of_writer(brokers: &str) -> Self {
        Self::of("writer".into(), brokers, true)
    }

    pub(super) fn new(client: String, brokers: &str) -> Self {
        Self::of(client, brokers, false)
    }

    fn of(client: String, brokers: &str, speaks: bool) -> Self {
        let (brokers, known) = (brokers.to_owned(), Mutex::default());
        Self(Arc::new(Inner { client, brokers, speaks, known, events: AtomicU64::new(0) }))
    }

    /// A record came or was acknowledged.
    pub(super) fn heard(&self) {
        let mut known = self.0.known.lock();
        known.locked_out = None;
        if std::mem::take(&mut known.lost) {
            known.said.clear();
            if self.0.speaks {
                tracing::info!(brokers = self.0.brokers, "Kafka is back");
            }
        }
    }

    /// Something else than a lost connection stands in the way.
    pub(super) fn failed(&self, what: &str, code: Code) {
        let mut known = self.0.known.lock();
        if !known.said.contains(&code) {
            known.said.push(code);
            let (client, brokers) = (&self.0.client, &self.0.brokers);
            tracing::error!(client, brokers, reason = %code, "{what}; said once per connection");
        }
    }

    /// How many things were heard; as long as it grows, a poll had something.
    pub(super) fn events(&self) -> u64 {
        self.0.events.load(Ordering::Relaxed)
    }

    pub(super) fn count_event(&self) {
        self.0.events.fetch_add(1, Ordering::Relaxed);
    }

    /// Why the brokers let nobody in, if that was heard since this was asked last.
    pub(super) fn take_locked_out(&self) -> Option<String> {
        self.0.known.lock().locked_out.take()
    }

    /// What was heard last of a connection.
    pub(super) fn last_error(&self) -> Option<String> {
        self.0.known.lock().last_error.clone()
    }
}

impl ClientContext for Contact {
    fn log(&self, _: RDKafkaLogLevel, facility: &str, message: &str) {
        self.count_event();
        tracing::debug!(client = self.0.client, facility, message, "librdkafka");
    }

    fn error(&self, error: Native, reason: &str) {
        self.count_event();
        let (client, brokers) = (&self.0.client, &self.0.brokers);
        let mut known = self.0.known.lock();
        let remedy = match error.rdkafka_error_code() {
            Some(Code::Authentication | Code::SaslAuthenticationFailed | Code::SSL) => {
                known.locked_out = Some(reason.to_owned());
                "check security.protocol, sasl.* and ssl.*"
            }
            Some(Code::AllBrokersDown) => "start it, or correct its address; all goes on by itself then",
            _ => {
                known.last_error = Some(reason.to_owned());
                return;
            }
        };
        if !std::mem::replace(&mut known.lost, true) {
            let reason = known.locked_out.as_ref().or(known.last_error.as_ref()).map_or(reason, |said| said);
            if self.0.speaks {
                tracing::warn!(brokers, reason, remedy, "Kafka is lost");
            } else {
                tracing::debug!(client, brokers, reason, "Kafka is lost");
            }
        }
    }
}

impl ConsumerContext for Contact {}
