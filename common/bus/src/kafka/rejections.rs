//! Topics whose records Kafka does not keep, and the reasons, as the delivery reports tell them.
//!
//! A topic may answer each request for its description and still reject each record, for example because it is compacted.
//! Only the reports of records show it. A topic counts as rejecting until it has accepted a record and has rejected none for
//! some seconds, so that a topic which rejects only some records is one state and not many.

use std::time::Duration;

use rdkafka::error::RDKafkaErrorCode as Code;

use super::errors::remedy;
use crate::BusError;

/// Time without a rejection after which a topic that accepts records again is as it should be.
const QUIET_MIN: Duration = Duration::from_secs(5);

/// Topics of one producer that reject records. There are no more of them than topics of a bus.
#[derive(Default)]
pub(super) struct Rejections(Vec<RejectingTopic>);

struct RejectingTopic {
    name: String,
    code: Code,
    rejected_at: Duration,
    /// True if a record was accepted after the last one that was rejected.
    accepts: bool,
}

impl Rejections {
    /// Records that a record was not kept. `now` is the time of any clock that is never set.
    pub(super) fn rejected(&mut self, now: Duration, name: &str, code: Code) {
        if matches!(code, Code::PurgeQueue | Code::PurgeInflight | Code::Fatal) {
            // The process dropped the record; its producer is replaced, or ends.
            return;
        }
        self.0.retain(|topic| topic.name != name);
        self.0.push(RejectingTopic { name: name.to_owned(), code, rejected_at: now, accepts: false });
    }

    /// Records that a record was kept.
    pub(super) fn accepted(&mut self, name: &str) {
        self.0.iter_mut().filter(|topic| topic.name == name).for_each(|topic| topic.accepts = true);
    }

    /// Returns the error of the first topic that rejects records.
    ///
    /// `tool_flags` are those by which Kafka's commands reach the brokers.
    pub(super) fn error(&mut self, now: Duration, tool_flags: &str) -> Option<BusError> {
        self.0.retain(|topic| !topic.accepts || now.saturating_sub(topic.rejected_at) < QUIET_MIN);
        let RejectingTopic { name, code, .. } = self.0.first()?;
        let change = |setting| {
            format!(
                "`kafka-configs.sh {tool_flags} --entity-type topics --entity-name {name} --alter --add-config {setting}`"
            )
        };
        let remedy = match code {
            Code::InvalidRecord => format!("if it is compacted, change it: {}", change("cleanup.policy=delete")),
            Code::MessageSizeTooLarge | Code::InvalidMessageSize => {
                let own = "and message.max.bytes of this process if --kafka-set has it";
                format!("raise its largest size: {}, {own}", change("max.message.bytes=1048588"))
            }
            code => remedy(*code).to_owned(),
        };
        let reason = format!("the topic `{name}` rejects records, which are lost ({code})");
        Some(BusError::refused(reason, format!("{remedy}; the next record that it accepts ends this")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOOL_FLAGS: &str = "--bootstrap-server kafka:9092";

    fn at(s: u64) -> Duration {
        Duration::from_secs(s)
    }

    #[test]
    fn a_topic_rejects_until_it_has_accepted_a_record_and_rejected_none_for_five_seconds() {
        let mut rejections = Rejections::default();
        let rejects = |rejections: &mut Rejections, s| rejections.error(at(s), TOOL_FLAGS).is_some();
        rejections.accepted("calls");
        assert!(!rejects(&mut rejections, 1));
        rejections.rejected(at(1), "calls", Code::InvalidRecord);
        assert!(rejects(&mut rejections, 60), "nothing was accepted");
        rejections.accepted("presence");
        assert!(rejects(&mut rejections, 60), "another topic accepts");
        rejections.accepted("calls");
        rejections.rejected(at(61), "calls", Code::InvalidRecord);
        assert!(rejects(&mut rejections, 70), "the last record was rejected");
        rejections.accepted("calls");
        rejections.rejected(at(71), "calls", Code::InvalidRecord);
        rejections.accepted("calls");
        assert!(rejects(&mut rejections, 75), "some are rejected");
        assert!(!rejects(&mut rejections, 76));
    }

    #[test]
    fn the_error_names_topic_reason_and_remedy() {
        for (code, reason, remedy) in [
            (Code::InvalidRecord, "InvalidRecord", "--entity-name calls --alter --add-config cleanup.policy=delete`"),
            (Code::MessageSizeTooLarge, "MessageSizeTooLarge", "--alter --add-config max.message.bytes=1048588`"),
            (Code::TopicAuthorizationFailed, "TopicAuthorizationFailed", "kafka-acls.sh"),
            (Code::MessageTimedOut, "MessageTimedOut", "check that the brokers run"),
        ] {
            let mut rejections = Rejections::default();
            rejections.rejected(at(0), "calls", code);
            let error = rejections.error(at(0), TOOL_FLAGS).expect("it rejects").to_string();
            for part in ["the topic `calls` rejects records", reason, remedy] {
                assert!(error.contains(part), "{part}: {error}");
            }
        }
    }

    #[test]
    fn records_that_the_process_itself_drops_say_nothing_about_the_topic() {
        for code in [Code::PurgeQueue, Code::PurgeInflight, Code::Fatal] {
            let mut rejections = Rejections::default();
            rejections.rejected(at(0), "calls", code);
            assert_eq!(rejections.error(at(0), TOOL_FLAGS), None, "{code}");
        }
    }
}
