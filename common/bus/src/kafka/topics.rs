//! The topics as Tollgate makes them, and what it insists on where they are there already.

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

use super::topic_id::{self, TopicDescription};
use super::writer::{Writer, code};
use super::{KafkaError, KafkaSettings, layout, settings};
use crate::Topic;
use tollgate_core::clock::Stopwatch;

/// One question to the brokers waits so long, then it is looked whether they let nobody in.
const ASK_STEP: Duration = Duration::from_millis(500);
/// Before a question is put again.
const PAUSE: Duration = Duration::from_millis(20);
/// As many replicas as the brokers give by default: one on a laptop, three in a cluster.
const REPLICAS_OF_BROKER: i32 = -1;

/// Makes what is missing, checks what is there, and says what it found.
pub(super) fn prepare(
    settings: &KafkaSettings,
    writer: &Writer,
    wait: Duration,
) -> Result<[TopicDescription; Topic::ALL.len()], KafkaError> {
    let preparing = Preparing { settings, writer, wait, waited: Stopwatch::start() };
    // What was heard before may be over.
    writer.contact().take_locked_out();
    let found = preparing.describe()?;
    let missing: Vec<Topic> =
        Topic::ALL.into_iter().zip(&found).filter_map(|(topic, found)| found.is_none().then_some(topic)).collect();
    let found = if missing.is_empty() { found } else { preparing.create(&missing)? };
    let found = found.map(|found| found.unwrap_or(TopicDescription { id: 0, partitions: 0 }));
    for (topic, found) in Topic::ALL.into_iter().zip(found) {
        preparing.check_partitions(topic, found)?;
    }
    preparing.check_time_of_calls()?;
    layout::check(settings, writer, preparing.rest())?;
    Ok(found)
}

/// Deletes all topics; one that is not there is fine.
pub(super) fn delete(settings: &KafkaSettings, writer: &Writer, wait: Duration) -> Result<(), KafkaError> {
    let deleting = Preparing { settings, writer, wait, waited: Stopwatch::start() };
    let names = Topic::ALL.map(|topic| settings.name(topic));
    let names = names.each_ref().map(String::as_str);
    let deleted = block_on(deleting.admin()?.delete_topics(&names, &deleting.options()))
        .map_err(|error| deleting.failed("delete topics", code(&error)))?;
    for result in deleted {
        match result {
            Ok(_) | Err((_, Code::UnknownTopicOrPartition)) => {}
            Err((name, code)) => return Err(deleting.failed(&format!("delete the topic `{name}`"), code)),
        }
    }
    Ok(())
}

/// How a topic is made.
const fn made_with(topic: Topic) -> &'static [(&'static str, &'static str)] {
    match topic {
        Topic::Calls => &[
            // Lateness and freshness are measured against one clock, the broker's; a writer's own would prove nothing.
            ("message.timestamp.type", "LogAppendTime"),
            ("cleanup.policy", "delete"),
            // Any window up to a day can be counted again from the start, with a day left to mend what is broken.
            ("retention.ms", "172800000"),
            // Batches stay as agents packed them (lz4), so that brokers never unpack.
            ("compression.type", "producer"),
        ],
        Topic::Signals => &[
            ("message.timestamp.type", "LogAppendTime"),
            // Not compacted: a signal is said again each 2 s, and what is older helps nobody.
            ("cleanup.policy", "delete"),
            ("retention.ms", "120000"),
            // Only closed segments are deleted; by default one closes after a week.
            ("segment.ms", "60000"),
        ],
        Topic::Presence => &[
            ("message.timestamp.type", "LogAppendTime"),
            ("cleanup.policy", "delete"),
            // Who was silent for seconds is gone; a minute leaves room for slow readers.
            ("retention.ms", "60000"),
            ("segment.ms", "60000"),
        ],
        Topic::Rules => &[
            ("message.timestamp.type", "LogAppendTime"),
            // The newest rule set and the layout, each by its key, are kept for ever.
            ("cleanup.policy", "compact"),
        ],
    }
}

/// One run of [`prepare`] or [`delete`].
struct Preparing<'a> {
    settings: &'a KafkaSettings,
    writer: &'a Writer,
    wait: Duration,
    waited: Stopwatch,
}

type Found = [Option<TopicDescription>; Topic::ALL.len()];

impl Preparing<'_> {
    fn rest(&self) -> Duration {
        self.wait.saturating_sub(self.waited.elapsed())
    }

    /// Asks until there is an answer, the brokers let nobody in, or the time is over.
    fn describe(&self) -> Result<Found, KafkaError> {
        let names = Topic::ALL.map(|topic| self.settings.name(topic));
        let names = names.each_ref().map(String::as_str);
        loop {
            let answer = topic_id::describe(self.writer.producer().client(), &names, self.rest().min(ASK_STEP));
            self.writer.listen();
            if let Some(reason) = self.writer.contact().take_locked_out() {
                let remedy = "check security.protocol, sasl.* and ssl.*, which are passed through to librdkafka";
                return Err(KafkaError::refused(
                    format!("Kafka at {} lets nobody in: {reason}", self.settings.brokers),
                    remedy,
                ));
            }
            match answer {
                Ok(found) => return found.try_into().map_err(|_| self.failed("describe topics", Code::Fail)),
                Err(code) if is_for_good(code) || self.rest().is_zero() => {
                    return Err(self.failed("describe topics", code));
                }
                Err(_) => self.writer.listen_for(PAUSE),
            }
        }
    }

    /// Makes topics and waits until the brokers know them; one that another has just made is fine.
    fn create(&self, missing: &[Topic]) -> Result<Found, KafkaError> {
        let names: Vec<String> = missing.iter().map(|topic| self.settings.name(*topic)).collect();
        let new = missing.iter().zip(&names).map(|(topic, name)| {
            let partitions = i32::try_from(self.settings.partitions_of(*topic)).unwrap_or(i32::MAX);
            let new = NewTopic::new(name, partitions, TopicReplication::Fixed(REPLICAS_OF_BROKER));
            made_with(*topic).iter().fold(new, |new, (name, value)| new.set(name, value))
        });
        let new: Vec<NewTopic<'_>> = new.collect();
        let made = block_on(self.admin()?.create_topics(&new, &self.options()))
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
                return Err(self.settings.unreachable("topics that were made have not come up yet".into()));
            }
            self.writer.listen_for(PAUSE);
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
                "set the number of partitions to {has} if that is what it was made with, or use another topic prefix"
            ),
            Topic::Presence | Topic::Rules => "delete it, and it is made anew".to_owned(),
        };
        Err(KafkaError::refused(format!("the topic `{name}` has {has} partitions and should have {wanted}"), remedy))
    }

    fn check_time_of_calls(&self) -> Result<(), KafkaError> {
        const SETTING: &str = "message.timestamp.type";
        let name = self.settings.name(Topic::Calls);
        let topics = [ResourceSpecifier::Topic(&name)];
        let told = block_on(self.admin()?.describe_configs(&topics, &self.options()))
            .map_err(|error| self.failed("read the settings of topics", code(&error)))?;
        for topic in told {
            let topic = topic.map_err(|code| self.failed("read the settings of topics", code))?;
            let value = topic.get(SETTING).and_then(|entry| entry.value.as_deref()).unwrap_or("unknown");
            if value != "LogAppendTime" {
                return Err(KafkaError::refused(
                    format!("the topic `{name}` has {SETTING}={value}, so its times are those of its writers"),
                    format!("kafka-configs.sh --alter --topic {name} --add-config {SETTING}=LogAppendTime"),
                ));
            }
        }
        Ok(())
    }

    fn admin(&self) -> Result<AdminClient<DefaultClientContext>, KafkaError> {
        self.settings.client().create().map_err(|error| settings::contradictory(&error))
    }

    fn options(&self) -> AdminOptions {
        let wait = self.rest().max(PAUSE);
        AdminOptions::new().request_timeout(Some(wait)).operation_timeout(Some(wait))
    }

    fn failed(&self, what: &str, code: Code) -> KafkaError {
        if is_for_good(code) {
            let reason = format!("Kafka at {} refuses to {what}: {code}", self.settings.brokers);
            return KafkaError::refused(
                reason,
                "give this user the right to create and describe topics and to read and write them, or create them beforehand",
            );
        }
        let heard = self.writer.contact().last_error().map(|heard| format!(" ({heard})")).unwrap_or_default();
        self.settings.unreachable(format!("cannot {what}: {code}{heard}"))
    }
}

/// What does not go away by asking again.
fn is_for_good(code: Code) -> bool {
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

/// Waits for an answer of the admin client, which comes on a thread of its own.
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
