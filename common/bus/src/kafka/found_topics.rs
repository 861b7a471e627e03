//! Topics of a bus as its user finds them.

use super::topic_id::{FoundTopic, TopicOperation};
use crate::Topic;

/// Topics as the brokers describe them to this user.
pub(super) type FoundTopics = [(Topic, FoundTopic)];

/// Returns the topics that are found so.
pub(super) fn topics_found(found: &FoundTopics, wanted: FoundTopic) -> Vec<Topic> {
    found.iter().filter(|(_, found)| *found == wanted).map(|(topic, _)| *topic).collect()
}

pub(super) fn partitions_found(found: &FoundTopic) -> usize {
    if let FoundTopic::Shown(found) = found { found.partitions } else { 0 }
}

/// Returns true if this user may use an operation on a topic that it finds.
pub(super) fn permits(found: &FoundTopics, operation: TopicOperation, topic: Topic) -> bool {
    let permits = |found: &FoundTopic| matches!(found, FoundTopic::Shown(shown) if shown.permits(operation));
    found.iter().any(|(known, found)| *known == topic && permits(found))
}
