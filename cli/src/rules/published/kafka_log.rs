//! The topic `rules` as a publisher sees it: the publications that count, those that do not, and what is no longer kept.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::bail;
use tollgate_bus::kafka::{KafkaBus, KafkaReader, KafkaSettings, KafkaWriter};
use tollgate_bus::{Bus, BusRecord, LogReader, LogWriter, ReadFrom, Topic};
use tollgate_core::clock::Stopwatch;
use tollgate_core::messages::presence::Presence;
use tollgate_core::messages::rules::{HISTORY_LEN_MAX, PublicationOrder, Published};
use tollgate_core::messages::signals::Offset;
use tollgate_core::rules::Generation;
use tollgate_wire::Record;

use super::heard_agents::heard_agents;
use super::publication::KeptPublication;

/// Time that Kafka has to acknowledge, and to be read to its end.
const KAFKA_WAIT: Duration = Duration::from_secs(5);
const POLL_WAIT: Duration = Duration::from_millis(200);
const RECORDS_MAX: usize = 100;
/// Time for which a publication listens to agents, which send a heartbeat each second.
const LISTENING_TIME: Duration = Duration::from_millis(1_500);
/// Length in bytes that librdkafka sends by default, less what it adds.
const LENGTH_MAX: usize = 990_000;
/// Maximum number of generations that are skipped.
const SKIPPED_MAX: u64 = 50_000;
/// Maximum number of old publications that one publisher deletes: the one that it pushes out, and the one before, whose deletion may
/// have failed.
const DELETED_LEN_MAX: usize = 2;

/// The topic `rules`, read up to its end.
pub(in super::super) struct KafkaRules {
    bus: KafkaBus,
    reader: KafkaReader,
    /// Heartbeats of agents since the topic was opened, if the command needs them.
    heartbeats: Option<KafkaReader>,
    order: PublicationOrder,
    /// Publications that count, with their records, from the oldest on.
    kept: Vec<(KeptPublication, Vec<u8>)>,
    /// Records without effect.
    void: Vec<(Offset, Vec<u8>)>,
}

/// Use of the topic `rules` by a command.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum RulesAccess {
    /// Reads publications.
    Reads,
    /// Reads publications and hears the agents that follow them.
    Hears,
    /// Publishes, above the generations of the agents that it hears.
    Publishes,
}

impl KafkaRules {
    /// Prepares the topics and reads `rules`. The rights that the command needs are checked, too: to publish, or to hear agents.
    pub(super) fn open(
        settings: KafkaSettings,
        access: RulesAccess,
        prepare: impl FnOnce(&KafkaBus) -> anyhow::Result<()>,
    ) -> anyhow::Result<Self> {
        let bus = KafkaBus::new(settings)?;
        // The rights that the command needs are checked when the topics are.
        let reader = bus.reader(Topic::Rules, &[0], ReadFrom::Oldest);
        let hears = access != RulesAccess::Reads;
        let heartbeats = hears.then(|| bus.reader(Topic::Presence, &[0], ReadFrom::Next));
        if access == RulesAccess::Publishes {
            drop(bus.writer(Topic::Rules));
        }
        prepare(&bus)?;
        let order = PublicationOrder::default();
        let mut log = Self { bus, reader, heartbeats, order, kept: Vec::new(), void: Vec::new() };
        log.read_to_end()?;
        Ok(log)
    }

    /// Returns true if there is no publication.
    pub(super) fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// Returns the newest heartbeat of each agent that is heard in this time.
    pub(in super::super) fn heard_agents(&mut self, time: Duration) -> BTreeMap<Arc<str>, Presence> {
        self.heartbeats.as_mut().map(|heartbeats| heard_agents(heartbeats, time)).unwrap_or_default()
    }

    /// Returns the publications that are kept, from the oldest on. Those before them may still be in the log.
    pub(in super::super) fn publications(&self) -> impl Iterator<Item = &KeptPublication> {
        let old = self.kept.len().saturating_sub(HISTORY_LEN_MAX);
        self.kept[old..].iter().map(|(publication, _)| publication)
    }

    /// Appends a publication in place of the newest one. Its generation is above `known` and above that of each live agent, which
    /// would ignore it otherwise: the topic was made anew, perhaps. Returns its generation; none if another one came before it, so
    /// that it has no effect.
    pub(super) fn publish(
        &mut self,
        published: &Published,
        known: Option<Generation>,
    ) -> anyhow::Result<Option<Generation>> {
        let newest = |log: &Self| log.kept.last().map(|(kept, _)| kept.generation);
        let replaces = newest(self);
        let mut log = self.bus.writer(Topic::Rules);
        // Generation 0 stands for no publication.
        let known = known.max(self.generation_of_agents()).unwrap_or_default();
        // Agents that know publications of a lost topic follow a first one only if it applies whatever is in force. So of two first
        // publishers, the later one looks for the other here.
        self.read_to_end()?;
        if newest(self) != replaces {
            return Ok(None);
        }
        let published = Published { replaces, ..published.clone() };
        self.skip(&mut log, known)?;
        let record = published.encode();
        let length = record.len();
        log.append(0, record, 0)?;
        log.flush(KAFKA_WAIT);
        let Some(offset) = log.reports().into_iter().find_map(|report| report.offset) else {
            if length > LENGTH_MAX {
                bail!(
                    "Kafka did not take the rules: they have {length} bytes with their overrides, and it takes 1000000 by default; those in force stay in force; raise `max.message.bytes` of the topic `rules` and give --kafka-set message.max.bytes={}, or shorten the rules",
                    2 * length
                );
            }
            bail!("Kafka did not take the rules within {} s; those in force stay in force", KAFKA_WAIT.as_secs());
        };
        if offset <= known {
            bail!(
                "the rules are on Kafka as generation {offset}, and agents that have generation {known} ignore them; publish again"
            );
        }
        self.read_to(offset + 1)?;
        let is_valid = self.publications().any(|publication| publication.generation == offset);
        self.forget_old(&mut log);
        Ok(is_valid.then_some(offset))
    }

    /// Returns the newest generation of published rules in the heartbeats of agents; none if there is none.
    fn generation_of_agents(&mut self) -> Option<Generation> {
        let agents = self.heard_agents(LISTENING_TIME);
        agents.values().filter(|agent| agent.rules_published).map(|agent| agent.generation).max()
    }

    /// Appends deletions of nothing, until the next record is above a generation.
    fn skip(&self, log: &mut KafkaWriter, known: Generation) -> anyhow::Result<()> {
        let next = self.reader.next(0).unwrap_or_default();
        let missing = (known + 1).saturating_sub(next);
        if missing > SKIPPED_MAX {
            bail!(
                "agents or Redis have rules of generation {known}, and the topic `rules` continues at {next}: it was made anew, or the rules are those of another fleet; delete the key of the rules in Redis, and restart the agents without their state directories"
            );
        }
        for number in 0..missing {
            log.forget(0, number.to_be_bytes().to_vec())?;
        }
        log.flush(KAFKA_WAIT);
        drop(log.reports());
        Ok(())
    }

    /// Deletes what is no longer kept: first the records without effect, which a reader that finds one first would follow. What stays
    /// is deleted by the next publisher.
    fn forget_old(&mut self, log: &mut KafkaWriter) {
        let old = self.kept.len().saturating_sub(HISTORY_LEN_MAX);
        let old: Vec<_> = self.kept.drain(..old).collect();
        let old = &old[old.len().saturating_sub(DELETED_LEN_MAX)..];
        let first = old.first().map_or(0, |(publication, _)| publication.generation);
        let void = self.void.drain(..).filter(|(offset, _)| *offset >= first).map(|(_, payload)| payload);
        for payload in void.chain(old.iter().map(|(_, payload)| payload.clone())) {
            let _ = log.forget(0, payload);
        }
        log.flush(KAFKA_WAIT);
    }

    fn read_to_end(&mut self) -> anyhow::Result<()> {
        let Some(end) = self.bus.next_offset(Topic::Rules, 0) else {
            bail!("Kafka did not tell the end of the topic `rules`; try again");
        };
        self.read_to(end)
    }

    fn read_to(&mut self, end: Offset) -> anyhow::Result<()> {
        let waited = Stopwatch::start();
        while self.reader.next(0).is_none_or(|next| next < end) {
            for record in self.reader.poll(POLL_WAIT, RECORDS_MAX) {
                self.take(record);
            }
            if waited.elapsed() > KAFKA_WAIT {
                bail!("the topic `rules` was not read to its end within {} s; try again", KAFKA_WAIT.as_secs());
            }
        }
        Ok(())
    }

    fn take(&mut self, record: BusRecord) {
        let BusRecord { offset, appended: at, payload, .. } = record;
        match Published::decode(&payload) {
            Ok(published) if self.order.accept(offset, &published) => {
                self.kept.push((KeptPublication { generation: offset, at, published }, payload));
            }
            _ => self.void.push((offset, payload)),
        }
    }
}

#[cfg(test)]
mod tests {
    use tollgate_servers::Kafka;

    use super::*;

    /// Time in which Kafka makes its first topics on a busy machine.
    const START_WAIT: Duration = Duration::from_mins(1);

    /// F7, capped: the last publications are kept, and what had no effect is deleted with the older ones.
    #[test]
    fn the_last_publications_are_kept_and_older_ones_are_deleted() {
        let kafka = Kafka::start();
        let settings = || KafkaSettings::new(&kafka.brokers()).partitioned(1);
        // A log that reads alone does not wait for agents, of which there are none.
        let open =
            || KafkaRules::open(settings(), RulesAccess::Reads, |bus| Ok(bus.prepare(START_WAIT)?)).expect("Kafka");
        let of = |number: usize| Published::new(number.to_string(), "rules: []");
        let (mut one, mut other) = (open(), open());
        let generations: Vec<_> = (0..HISTORY_LEN_MAX + 3)
            .map(|number| one.publish(&of(number), None).expect("Kafka").expect("a generation"))
            .collect();
        assert_eq!(generations[0], 1);
        let gaps: Vec<_> = generations.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let deleted = gaps.iter().max().expect("gaps") - 1;
        assert!(deleted <= DELETED_LEN_MAX as u64, "each is deleted at most twice: {gaps:?}");
        assert_eq!(other.publish(&of(99), None).expect("Kafka"), None, "it was made for no rules");
        let names = |log: &KafkaRules| log.publications().map(|kept| kept.published.name.clone()).collect::<Vec<_>>();
        let last: Vec<String> = (3..HISTORY_LEN_MAX + 3).map(|number| number.to_string()).collect();
        assert_eq!((names(&one), names(&other)), (last.clone(), last.clone()));
        assert_eq!(names(&open()), last);
        let above = generations.last().expect("generations") + 20;
        assert_eq!(open().publish(&of(100), Some(above)).expect("Kafka"), Some(above + 1));
    }
}
