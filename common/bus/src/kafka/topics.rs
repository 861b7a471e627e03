//! Creation, verification and deletion of Tollgate's topics.

use std::time::Duration;

use pollster::block_on;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, ResourceSpecifier, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::error::RDKafkaErrorCode as Code;
use rdkafka::producer::Producer as _;

use super::brokers::raw_partition;
use super::errors::{contradictory, is_permanent};
use super::found_topics::{FoundTopics, partitions_found, permits, topics_found};
use super::layout::{self, Layout};
use super::producer::{ProducerHandle, code};
use super::rights::{self, NeededRights};
use super::topic_id::{self, FoundTopic, TopicOperation};
use super::topic_settings::{BY_BROKERS_CLOCK, KEPT_FOR_EVER, topic_settings};
use super::{KafkaSettings, TopicSet, refused};
use crate::logs::partitions_of;
use crate::{BusError, Topic};
use tollgate_core::clock::Stopwatch;
use tollgate_core::messages::signals::LogId;

/// Timeout of a request for the descriptions of the topics. Authentication failures are checked after it.
const DESCRIBE_WAIT: Duration = Duration::from_millis(500);
/// Pause before preparing is retried after a transient failure.
const RETRY_PAUSE: Duration = Duration::from_millis(50);
/// Time after which topics are verified again though their ids and partitions have not changed: somebody may have changed their
/// settings. Each time costs several connections.
const VERIFIED_FOR: Duration = Duration::from_mins(1);
/// Replication factor: the default of the brokers, one on a laptop and three in a cluster.
const REPLICATION_DEFAULT: i32 = -1;

/// Topics as they were when they were last verified.
pub(super) struct VerifiedTopics {
    descriptions: Vec<(Topic, FoundTopic)>,
    at: Stopwatch,
}

impl VerifiedTopics {
    pub(super) fn ids(&self) -> impl Iterator<Item = (Topic, LogId)> {
        let shown = |(topic, found): &(Topic, FoundTopic)| match found {
            FoundTopic::Shown(found) => Some((*topic, found.id)),
            FoundTopic::Missing | FoundTopic::Hidden => None,
        };
        self.descriptions.iter().filter_map(shown)
    }

    pub(super) fn topics(&self) -> &FoundTopics {
        &self.descriptions
    }

    fn are(&self, found: &FoundTopics) -> bool {
        self.descriptions == found && self.at.elapsed() < VERIFIED_FOR
    }
}

/// Creates missing topics and verifies the existing ones, unless they were verified before.
pub(super) fn prepare(
    settings: &KafkaSettings,
    producer: &ProducerHandle,
    needed: &NeededRights,
    wait: Duration,
    verified: Option<VerifiedTopics>,
) -> Result<VerifiedTopics, BusError> {
    let admin = TopicAdmin { settings, producer, needed, wait, waited: Stopwatch::start(), verified };
    let descriptions = loop {
        match admin.prepare() {
            Err(error) if error.is_transient() && admin.rest() > RETRY_PAUSE => std::thread::sleep(RETRY_PAUSE),
            prepared => break prepared?,
        }
    };
    match admin.verified {
        Some(verified) if verified.are(&descriptions) => Ok(verified),
        _ => Ok(VerifiedTopics { descriptions, at: Stopwatch::start() }),
    }
}

/// Missing topics are ignored.
pub(super) fn delete(settings: &KafkaSettings, producer: &ProducerHandle, wait: Duration) -> Result<(), BusError> {
    let needed = &NeededRights::default();
    let admin = TopicAdmin { settings, producer, needed, wait, waited: Stopwatch::start(), verified: None };
    let names: Vec<String> = settings.topics.topics().iter().map(|topic| settings.name(*topic)).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let deleted = block_on(admin.client()?.delete_topics(&names, &admin.options()));
    for result in deleted.map_err(|error| admin.failed("delete topics", code(&error)))? {
        match result {
            Ok(_) | Err((_, Code::UnknownTopicOrPartition)) => {}
            Err((name, code)) => return Err(admin.failed(&format!("delete the topic `{name}`"), code)),
        }
    }
    Ok(())
}

/// One execution of [`prepare`] or [`delete`], with its deadline.
struct TopicAdmin<'a> {
    settings: &'a KafkaSettings,
    producer: &'a ProducerHandle,
    needed: &'a NeededRights,
    wait: Duration,
    waited: Stopwatch,
    verified: Option<VerifiedTopics>,
}

impl TopicAdmin<'_> {
    fn rest(&self) -> Duration {
        self.wait.saturating_sub(self.waited.elapsed())
    }

    fn prepare(&self) -> Result<Vec<(Topic, FoundTopic)>, BusError> {
        let mut found = self.describe()?;
        let missing = topics_found(&found, FoundTopic::Missing);
        if !missing.is_empty() {
            self.create(&missing)?;
            found = self.describe()?;
        }
        if !topics_found(&found, FoundTopic::Missing).is_empty() {
            return Err(self.settings.unreachable("the created topics are not available yet".into()));
        }
        rights::check_verification(self.settings, &found)?;
        if self.verified.as_ref().is_some_and(|verified| verified.are(&found)) {
            return Ok(found);
        }
        match self.settings.topics {
            TopicSet::Deployment => self.check_deployment(&found)?,
            TopicSet::Ledger | TopicSet::LedgerMirror(_) => self.check_ledger(&found)?,
            TopicSet::Usage | TopicSet::UsageMirror(_) | TopicSet::Analytics | TopicSet::Decisions => {
                self.check_shared(&found)?;
            }
        }
        Ok(found)
    }

    fn check_deployment(&self, found: &FoundTopics) -> Result<(), BusError> {
        let layout = layout::read(self.settings, self.rest())?;
        self.check_partitions(found, &layout)?;
        self.check_timestamps_of_calls()?;
        layout.check(self.settings)?;
        // Another process writes it, if this user may not.
        if matches!(layout, Layout::Missing) && permits(found, TopicOperation::Write, Topic::Rules) {
            layout::write(self.settings, self.producer, self.rest())?;
        }
        Ok(())
    }

    fn check_ledger(&self, found: &FoundTopics) -> Result<(), BusError> {
        self.check_shared(found)?;
        self.check_settings(Topic::Ledger, &KEPT_FOR_EVER, "so entries of the ledger are lost")
    }

    fn check_shared(&self, found: &FoundTopics) -> Result<(), BusError> {
        found.iter().try_for_each(|(topic, found)| self.check_partitions_of(*topic, partitions_found(found)))
    }

    fn describe(&self) -> Result<Vec<(Topic, FoundTopic)>, BusError> {
        let topics = self.settings.topics.topics();
        let names = topics.iter().map(|topic| self.settings.name(*topic)).collect();
        let listed =
            || topics.iter().map(|topic| format!("`{}`", self.settings.name(*topic))).collect::<Vec<_>>().join(", ");
        let answer = topic_id::describe(self.producer.current().client(), names, self.rest().min(DESCRIBE_WAIT));
        self.producer.poll();
        let faults = self.producer.context.faults();
        let found = match (answer, faults.newest()) {
            (Ok(found), _) => found,
            (Err(_), Some(fault)) => return Err(refused::error(self.settings, &fault)),
            (Err(code), None) => return Err(self.failed(&format!("describe the topics {}", listed()), code)),
        };
        faults.clear();
        let found: Vec<_> = topics.iter().copied().zip(found).collect();
        let hidden = topics_found(&found, FoundTopic::Hidden);
        if hidden.is_empty() { Ok(found) } else { Err(rights::hidden(self.settings, &hidden, self.needed)) }
    }

    /// Topics that another process has just created are accepted.
    fn create(&self, missing: &[Topic]) -> Result<(), BusError> {
        if let Some((topic, name)) = self.settings.topics.mirror() {
            return Err(BusError::refused(
                format!("there is no topic `{name}` at {}", self.settings.brokers),
                format!(
                    "let the mirror copy the home cluster's topic `{}`, or correct the name (--ledger-topic)",
                    topic.as_str()
                ),
            ));
        }
        let names: Vec<String> = missing.iter().map(|topic| self.settings.name(*topic)).collect();
        let new = missing.iter().zip(&names).map(|(topic, name)| {
            let partitions = raw_partition(partitions_of(*topic, self.settings.partitions));
            let new = NewTopic::new(name, partitions, TopicReplication::Fixed(REPLICATION_DEFAULT));
            let settings = topic_settings(*topic).iter().chain([&BY_BROKERS_CLOCK]);
            settings.fold(new, |new, (name, value)| new.set(name, value))
        });
        let new: Vec<NewTopic<'_>> = new.collect();
        let created = block_on(self.client()?.create_topics(&new, &self.options()));
        for result in created.map_err(|error| self.failed("create topics", code(&error)))? {
            match result {
                Ok(_) | Err((_, Code::TopicAlreadyExists)) => {}
                Err((_, Code::TopicAuthorizationFailed)) => return Err(rights::not_creatable(self.settings, missing)),
                Err((name, code)) => return Err(self.failed(&format!("create the topic `{name}`"), code)),
            }
        }
        Ok(())
    }

    /// Compares the number of partitions in the settings with that of the layout record, or else of `calls`, and then the
    /// topics with it.
    fn check_partitions(&self, found: &FoundTopics, layout: &Layout) -> Result<(), BusError> {
        let of_calls =
            found.iter().find(|(topic, _)| *topic == Topic::Calls).map_or(0, |(_, found)| partitions_found(found));
        let laid_out = if let Layout::Partitions(number) = layout { *number as usize } else { of_calls };
        if laid_out != self.settings.partitions as usize {
            return Err(BusError::refused(
                format!(
                    "the topics are laid out for {laid_out} partitions, and with {} each counter would be in two of them",
                    self.settings.partitions
                ),
                format!("set the number of partitions to {laid_out} (--kafka-partitions), or use another topic prefix"),
            ));
        }
        self.check_shared(found)
    }

    /// Refuses a topic whose number of partitions was changed by hand. Kafka never removes partitions, so the remedy is to
    /// delete the topic; [`prepare`] creates it again.
    fn check_partitions_of(&self, topic: Topic, found: usize) -> Result<(), BusError> {
        let (wanted, name) = (partitions_of(topic, self.settings.partitions), self.settings.name(topic));
        if found == wanted as usize {
            return Ok(());
        }
        let afterwards = match topic {
            Topic::Calls => "aggregators count from then on, and the counts in the store stay",
            Topic::Signals | Topic::Presence | Topic::Usage | Topic::Live => "its records are repeated within seconds",
            Topic::Rollups => "its closed minutes are lost",
            Topic::Decisions => "its decisions are lost",
            Topic::Rules => "then publish the rules again with `tollgate rules publish FILE`",
            Topic::Ledger => {
                "stop the aggregators of all regions first, until the terms of all grants have ended; regions then begin with their floors"
            }
        };
        Err(BusError::refused(
            format!("the topic `{name}` has {found} partitions and should have {wanted}"),
            format!(
                "delete it: `kafka-topics.sh {} --delete --topic {name}`; Tollgate creates it again within seconds; {afterwards}",
                self.settings.tool_flags()
            ),
        ))
    }

    fn check_timestamps_of_calls(&self) -> Result<(), BusError> {
        self.check_settings(Topic::Calls, &[BY_BROKERS_CLOCK], "so its timestamps are those of its writers")
    }

    /// Refuses a topic with another value of one of the settings.
    fn check_settings(&self, topic: Topic, settings: &[(&str, &str)], consequence: &str) -> Result<(), BusError> {
        let name = self.settings.name(topic);
        let topics = [ResourceSpecifier::Topic(&name)];
        let failed = |code| self.failed("read the settings of topics", code);
        let described = block_on(self.client()?.describe_configs(&topics, &self.options()));
        for topic in described.map_err(|error| failed(code(&error)))? {
            let topic = topic.map_err(failed)?;
            for (setting, wanted) in settings {
                let value = topic.get(setting).and_then(|entry| entry.value.as_deref()).unwrap_or("unknown");
                if value != *wanted {
                    return Err(BusError::refused(
                        format!("the topic `{name}` has {setting}={value}, {consequence}"),
                        format!(
                            "change it: `kafka-configs.sh {} --entity-type topics --entity-name {name} --alter --add-config {setting}={wanted}`",
                            self.settings.tool_flags()
                        ),
                    ));
                }
            }
        }
        Ok(())
    }

    fn client(&self) -> Result<AdminClient<DefaultClientContext>, BusError> {
        self.settings.client()?.create().map_err(contradictory)
    }

    fn options(&self) -> AdminOptions {
        let wait = self.rest().max(RETRY_PAUSE);
        AdminOptions::new().request_timeout(Some(wait)).operation_timeout(Some(wait))
    }

    fn failed(&self, action: &str, code: Code) -> BusError {
        if is_permanent(code) {
            let reason = format!("Kafka at {} refuses to {action}: {code}", self.settings.brokers);
            return BusError::refused(
                reason,
                "allow this user to create, describe, read and write these topics (kafka-acls.sh --add), or create them beforehand",
            );
        }
        let detail = self.producer.context.last_error().map(|error| format!(" ({error})")).unwrap_or_default();
        self.settings.unreachable(format!("cannot {action}: {code}{detail}"))
    }
}
