//! Rights that a process needs on its topics, those that it lacks, and the commands that grant them.
//!
//! What a bus needs follows from the readers and writers that were made. What its user may do is a part of the description of each
//! topic, so a missing right is known before a record is lost.

use parking_lot::Mutex;

use super::found_topics::{FoundTopics, permits};
use super::settings::KafkaSettings;
use super::topic_id::TopicOperation;
use super::topic_set::TopicSet;
use crate::{BusError, Topic};

type Right = (TopicOperation, Topic);

/// Rights that the readers and writers of a bus need.
#[derive(Default)]
pub(super) struct NeededRights(Mutex<Vec<Right>>);

impl NeededRights {
    /// Records that a bus reads or writes a topic.
    pub(super) fn add(&self, operation: TopicOperation, topic: Topic) {
        let mut needed = self.0.lock();
        if !needed.contains(&(operation, topic)) {
            needed.push((operation, topic));
        }
    }

    /// Returns the error for the rights that this user lacks, if there are any.
    pub(super) fn check(&self, settings: &KafkaSettings, found: &FoundTopics) -> Result<(), BusError> {
        check(settings, found, &self.0.lock())
    }
}

/// Checks the rights by which [`super::topics`] verifies the topics of a set. A topic that is shown at all can be described.
pub(super) fn check_verification(settings: &KafkaSettings, found: &FoundTopics) -> Result<(), BusError> {
    check(settings, found, verified(settings))
}

fn verified(settings: &KafkaSettings) -> &'static [Right] {
    match settings.topics {
        TopicSet::Deployment => {
            &[(TopicOperation::Read, Topic::Rules), (TopicOperation::DescribeConfigs, Topic::Calls)]
        }
        TopicSet::Ledger | TopicSet::LedgerMirror(_) => &[(TopicOperation::DescribeConfigs, Topic::Ledger)],
        TopicSet::Usage | TopicSet::UsageMirror(_) | TopicSet::Analytics | TopicSet::Decisions => &[],
    }
}

/// Returns the error for topics that are not shown to this user: each right to use them shows them, too.
pub(super) fn hidden(settings: &KafkaSettings, topics: &[Topic], needed: &NeededRights) -> BusError {
    let mut missing: Vec<Right> = Vec::new();
    for right in verified(settings).iter().chain(needed.0.lock().iter()) {
        if topics.contains(&right.1) && !missing.contains(right) {
            missing.push(*right);
        }
    }
    for topic in topics {
        if !missing.iter().any(|(_, used)| used == topic) {
            missing.push((TopicOperation::Describe, *topic));
        }
    }
    lacking(settings, &missing, "")
}

/// Returns the error for missing topics that this user may not create.
pub(super) fn not_creatable(settings: &KafkaSettings, topics: &[Topic]) -> BusError {
    let missing: Vec<Right> = topics.iter().map(|topic| (TopicOperation::Create, *topic)).collect();
    lacking(settings, &missing, "or start a process whose user may create them, such as an aggregator")
}

fn check(settings: &KafkaSettings, found: &FoundTopics, needed: &[Right]) -> Result<(), BusError> {
    let is_here = |topic: Topic| found.iter().any(|(known, _)| *known == topic);
    let lacks = |(operation, topic): &&Right| is_here(*topic) && !permits(found, *operation, *topic);
    let missing: Vec<Right> = needed.iter().filter(lacks).copied().collect();
    if missing.is_empty() { Ok(()) } else { Err(lacking(settings, &missing, "")) }
}

/// Returns the error for missing rights, with one command for each operation.
fn lacking(settings: &KafkaSettings, missing: &[Right], otherwise: &str) -> BusError {
    let (mut rights, mut commands) = (Vec::new(), Vec::new());
    let principal = principal(settings);
    for operation in TopicOperation::ALL {
        let names: Vec<String> =
            missing.iter().filter(|(lacked, _)| *lacked == operation).map(|(_, topic)| settings.name(*topic)).collect();
        if names.is_empty() {
            continue;
        }
        let shown: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
        rights.push(format!("{} on the topics {}", operation.name(), shown.join(", ")));
        let topics: Vec<String> = names.iter().map(|name| format!("--topic {name}")).collect();
        commands.push(format!(
            "`kafka-acls.sh {} --add --allow-principal {principal} --operation {} {}`",
            settings.tool_flags(),
            operation.name(),
            topics.join(" ")
        ));
    }
    let otherwise = if otherwise.is_empty() { String::new() } else { format!("; {otherwise}") };
    BusError::refused(
        format!("Kafka at {} refuses {} to {principal}", settings.brokers, rights.join(" and ")),
        format!("allow it: {}{otherwise}", commands.join(" and ")),
    )
}

/// Returns the principal of this process, as a word of the shell.
fn principal(settings: &KafkaSettings) -> String {
    let passed_through = || settings.settings.iter().rev().find(|(name, _)| name == "sasl.username");
    let user = settings.access.user.as_ref().or_else(|| passed_through().map(|(_, user)| user));
    match (user, &settings.access.cert) {
        (Some(user), _) if user.chars().all(|c| c.is_ascii_alphanumeric() || "._-@".contains(c)) => {
            format!("User:{user}")
        }
        (Some(user), _) => format!("'User:{}'", user.replace('\'', r"'\''")),
        (None, Some(cert)) => {
            let subject = format!("openssl x509 -noout -subject -nameopt RFC2253 -in {}", cert.display());
            format!("\"User:$({subject} | cut -d= -f2-)\"")
        }
        (None, None) => "User:ANONYMOUS".to_owned(),
    }
}
