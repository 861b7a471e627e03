//! Creation, verification and deletion of Tollgate's topics.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::Duration;

use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, ResourceSpecifier, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::error::RDKafkaErrorCode as Code;
use rdkafka::producer::Producer as _;

use super::producer::{ProducerHandle, code};
use super::topic_id::{self, TopicDescription};
use super::{KafkaError, KafkaSettings, layout, settings};
use crate::Topic;
use tollgate_core::clock::Stopwatch;

/// Timeout of one attempt to describe the topics. Authentication failures are checked between attempts.
const DESCRIBE_WAIT: Duration = Duration::from_millis(500);
/// Pause between attempts.
const RETRY_PAUSE: Duration = Duration::from_millis(20);
/// Replication factor: the default of the brokers, one on a laptop and three in a cluster.
const REPLICATION_DEFAULT: i32 = -1;

/// Creates missing topics, verifies the existing ones, and returns their descriptions.
pub(super) fn prepare(
    settings: &KafkaSettings,
    producer: &ProducerHandle,
    wait: Duration,
) -> Result<[TopicDescription; Topic::ALL.len()], KafkaError> {
    let admin = TopicAdmin { settings, producer, wait, waited: Stopwatch::start() };
    // Earlier authentication failures may have been resolved.
    producer.context().take_auth_failure();
    let found = admin.describe()?;
    let missing: Vec<Topic> =
        Topic::ALL.into_iter().zip(&found).filter_map(|(topic, found)| found.is_none().then_some(topic)).collect();
    let found = if missing.is_empty() { found } else { admin.create(&missing)? };
    let found = found.map(|found| found.unwrap_or(TopicDescription { id: 0, partitions: 0 }));
    for (topic, found) in Topic::ALL.into_iter().zip(found) {
        admin.check_partitions(topic, found)?;
    }
    admin.check_timestamps_of_calls()?;
    layout::check(settings, producer, admin.rest())?;
    Ok(found)
}

/// Deletes all topics; missing ones are ignored.
pub(super) fn delete(settings: &KafkaSettings, producer: &ProducerHandle, wait: Duration) -> Result<(), KafkaError> {
    let admin = TopicAdmin { settings, producer, wait, waited: Stopwatch::start() };
    let names = Topic::ALL.map(|topic| settings.name(topic));
    let names = names.each_ref().map(String::as_str);
    let deleted = block_on(admin.client()?.delete_topics(&names, &admin.options()))
        .map_err(|error| admin.failed("delete topics", code(&error)))?;
    for result in deleted {
        match result {
            Ok(_) | Err((_, Code::UnknownTopicOrPartition)) => {}
            Err((name, code)) => return Err(admin.failed(&format!("delete the topic `{name}`"), code)),
        }
    }
    Ok(())
}

/// Returns the settings that a topic is created with.
const fn topic_settings(topic: Topic) -> &'static [(&'static str, &'static str)] {
    match topic {
        Topic::Calls => &[
            // Lateness and freshness are measured by the broker's clock; the writers' clocks prove nothing.
            ("message.timestamp.type", "LogAppendTime"),
            ("cleanup.policy", "delete"),
            // Windows of up to a day can be recounted from the log, which leaves a day for repairs.
            ("retention.ms", "172800000"),
            // Brokers store the batches as the agents compressed them (lz4).
            ("compression.type", "producer"),
        ],
        Topic::Signals => &[
            ("message.timestamp.type", "LogAppendTime"),
            // Not compacted: signals are repeated every 2 s, and older ones are useless.
            ("cleanup.policy", "delete"),
            ("retention.ms", "120000"),
            // Only closed segments are deleted; by default a segment is closed after a week.
            ("segment.ms", "60000"),
        ],
        Topic::Presence => &[
            ("message.timestamp.type", "LogAppendTime"),
            ("cleanup.policy", "delete"),
            // Members without a heartbeat are gone after seconds; a minute allows for slow readers.
            ("retention.ms", "60000"),
            ("segment.ms", "60000"),
        ],
        Topic::Rules => &[
            ("message.timestamp.type", "LogAppendTime"),
            // The newest rule set and the layout record are kept, each by its key.
            ("cleanup.policy", "compact"),
        ],
    }
}

/// One execution of [`prepare`] or [`delete`], with its deadline.
struct TopicAdmin<'a> {
    settings: &'a KafkaSettings,
    producer: &'a ProducerHandle,
    wait: Duration,
    waited: Stopwatch,
}

type TopicDescriptions = [Option<TopicDescription>; Topic::ALL.len()];

impl TopicAdmin<'_> {
    fn rest(&self) -> Duration {
        self.wait.saturating_sub(self.waited.elapsed())
    }

    /// Describes the topics; retries until the deadline, but not after an authentication failure.
    fn describe(&self) -> Result<TopicDescriptions, KafkaError> {
        let names = Topic::ALL.map(|topic| self.settings.name(topic));
        let names = names.each_ref().map(String::as_str);
        loop {
            let answer = topic_id::describe(self.producer.current().client(), &names, self.rest().min(DESCRIBE_WAIT));
            self.producer.poll();
            if let Some(reason) = self.producer.context().take_auth_failure() {
                let remedy = "check security.protocol, sasl.* and ssl.*, which are passed through to librdkafka";
                return Err(KafkaError::refused(
                    format!("Kafka at {} refuses the login: {reason}", self.settings.brokers),
                    remedy,
                ));
            }
            match answer {
                Ok(found) => return found.try_into().map_err(|_| self.failed("describe topics", Code::Fail)),
                Err(code) if is_permanent(code) || self.rest().is_zero() => {
                    return Err(self.failed("describe topics", code));
                }
                Err(_) => self.producer.poll_for(RETRY_PAUSE),
            }
        }
    }

    /// Creates topics and waits until the brokers describe them. Topics that another process has just created are
    /// accepted.
    fn create(&self, missing: &[Topic]) -> Result<TopicDescriptions, KafkaError> {
        let names: Vec<String> = missing.iter().map(|topic| self.settings.name(*topic)).collect();
        let new = missing.iter().zip(&names).map(|(topic, name)| {
            let partitions = i32::try_from(self.settings.partitions_of(*topic)).unwrap_or(i32::MAX);
            let new = NewTopic::new(name, partitions, TopicReplication::Fixed(REPLICATION_DEFAULT));
            topic_settings(*topic).iter().fold(new, |new, (name, value)| new.set(name, value))
        });
        let new: Vec<NewTopic<'_>> = new.collect();
        let made = block_on(self.client()?.create_topics(&new, &self.options()))
            .map_err(|error| self.failed("create topics", code(&error)))?;
        for result in made {
            match result {
                Ok(_) | Err((_, Code::TopicAlreadyExists)) => {}
                Err((name, code)) => return Err(self.failed(&format!("create the topic `{name}`"), code)),
            }
        }
        loop {
            let found = self.describe()?;
            if found.iter().all(Option::is_some) {
                return Ok(found);
            }
            if self.rest().is_zero() {
                return Err(self.settings.unreachable("the created topics are not available yet".into()));
            }
            self.producer.poll_for(RETRY_PAUSE);
        }
    }

    fn check_partitions(&self, topic: Topic, found: TopicDescription) -> Result<(), KafkaError> {
        let (wanted, name) = (self.settings.partitions_of(topic), self.settings.name(topic));
        if found.partitions == wanted as usize {
            return Ok(());
        }
        let has = found.partitions;
        let remedy = match topic {
            Topic::Calls | Topic::Signals => format!(
                "set the number of partitions to {has} if the topic was created with it, or use another topic prefix"
            ),
            Topic::Presence | Topic::Rules => "delete it; it is recreated".to_owned(),
        };
        Err(KafkaError::refused(format!("the topic `{name}` has {has} partitions and should have {wanted}"), remedy))
    }

    fn check_timestamps_of_calls(&self) -> Result<(), KafkaError> {
        const SETTING: &str = "message.timestamp.type";
        let name = self.settings.name(Topic::Calls);
        let topics = [ResourceSpecifier::Topic(&name)];
        let described = block_on(self.client()?.describe_configs(&topics, &self.options()))
            .map_err(|error| self.failed("read the settings of topics", code(&error)))?;
        for topic in described {
            let topic = topic.map_err(|code| self.failed("read the settings of topics", code))?;
            let value = topic.get(SETTING).and_then(|entry| entry.value.as_deref()).unwrap_or("unknown");
            if value != "LogAppendTime" {
                return Err(KafkaError::refused(
                    format!("the topic `{name}` has {SETTING}={value}, so its timestamps are those of its writers"),
                    format!("kafka-configs.sh --alter --topic {name} --add-config {SETTING}=LogAppendTime"),
                ));
            }
        }
        Ok(())
    }

    fn client(&self) -> Result<AdminClient<DefaultClientContext>, KafkaError> {
        self.settings.client().create().map_err(|error| settings::contradictory(&error))
    }

    fn options(&self) -> AdminOptions {
        let wait = self.rest().max(RETRY_PAUSE);
        AdminOptions::new().request_timeout(Some(wait)).operation_timeout(Some(wait))
    }

    fn failed(&self, action: &str, code: Code) -> KafkaError {
        if is_permanent(code) {
            let reason = format!("Kafka at {} refuses to {action}: {code}", self.settings.brokers);
            return KafkaError::refused(
                reason,
                "allow this user to create, describe, read and write topics, or create them beforehand",
            );
        }
        let detail = self.producer.context().last_error().map(|error| format!(" ({error})")).unwrap_or_default();
        self.settings.unreachable(format!("cannot {action}: {code}{detail}"))
    }
}

/// Returns true for errors that a retry cannot resolve.
fn is_permanent(code: Code) -> bool {
    matches!(
        code,
        Code::TopicAuthorizationFailed
            | Code::ClusterAuthorizationFailed
            | Code::PolicyViolation
            | Code::InvalidTopic
            | Code::InvalidConfig
            | Code::UnsupportedVersion
            | Code::UnsupportedFeature
    )
}

/// Blocks on a future of the admin client, which another thread completes.
fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(answer) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return answer;
        }
        std::thread::park();
    }
}
