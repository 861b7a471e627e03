//! The topic `rules` as a publisher sees it: the publications that count, those that do not, and what is no longer kept.

use std::time::Duration;

use anyhow::bail;
use tollgate_bus::kafka::{KafkaBus, KafkaReader, KafkaSettings, KafkaWriter};
use tollgate_bus::{Bus, BusRecord, LogReader, LogWriter, ReadFrom, Topic};
use tollgate_core::clock::Stopwatch;
use tollgate_core::messages::agent_rules::is_publication;
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
/// Time for which the first publication of a topic listens to agents, which send a heartbeat each second.
const FIRST_WAIT: Duration = Duration::from_millis(1_500);
/// Length in bytes that librdkafka sends by default, less what it adds.
const LENGTH_MAX: usize = 990_000;
/// Maximum number of generations that are skipped.
const SKIPPED_MAX: u64 = 100_000;

/// The topic `rules`, read up to its end.
pub(in super::super) struct KafkaRules {
    bus: KafkaBus,
    reader: KafkaReader,
    order: PublicationOrder,
    /// Publications that count, with their records, from the oldest on.
    kept: Vec<(KeptPublication, Vec<u8>)>,
    /// Records without effect.
    void: Vec<(Offset, Vec<u8>)>,
}

impl KafkaRules {
    /// Prepares the topics and reads `rules`. With `writes`, the right to publish is checked, too.
    pub(super) fn open(
        settings: KafkaSettings,
        writes: bool,
        prepare: impl FnOnce(&KafkaBus) -> anyhow::Result<()>,
    ) -> anyhow::Result<Self> {
        let bus = KafkaBus::new(settings)?;
        // The rights that the command needs are checked when the topics are.
        let reader = bus.reader(Topic::Rules, &[0], ReadFrom::Oldest);
        if writes {
            drop(bus.writer(Topic::Rules));
        }
        prepare(&bus)?;
        let mut log = Self { bus, reader, order: PublicationOrder::default(), kept: Vec::new(), void: Vec::new() };
        let Some(end) = log.bus.next_offset(Topic::Rules, 0) else {
            bail!("Kafka did not tell the end of the topic `rules`; try again");
        };
        log.read_to(end)?;
        Ok(log)
    }

    pub(in super::super) fn bus(&self) -> &KafkaBus {
        &self.bus
    }

    /// Returns the publications that are kept, from the oldest on. Those before them may still be in the log.
    pub(in super::super) fn publications(&self) -> impl Iterator<Item = &KeptPublication> {
        let old = self.kept.len().saturating_sub(HISTORY_LEN_MAX);
        self.kept[old..].iter().map(|(publication, _)| publication)
    }

    /// Appends a publication, whose generation is above `known`. Returns its generation; none if another one came before it, so
    /// that it has no effect.
    pub(super) fn publish(
        &mut self,
        published: &Published,
        known: Option<Generation>,
    ) -> anyhow::Result<Option<Generation>> {
        let mut log = self.bus.writer(Topic::Rules);
        // The topic was made anew, perhaps. Agents would ignore a generation that is not above theirs.
        let known = if self.kept.is_empty() { known.max(self.generation_of_agents()) } else { known };
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
        self.read_to(offset + 1)?;
        let is_valid = self.publications().any(|publication| publication.generation == offset);
        self.forget_old(&mut log);
        Ok(is_valid.then_some(offset))
    }

    /// Returns the newest generation of published rules in the heartbeats of a second and a half; none if there is none.
    fn generation_of_agents(&self) -> Option<Generation> {
        let agents = heard_agents(&self.bus, FIRST_WAIT);
        agents.values().map(|agent| agent.generation).filter(|generation| is_publication(*generation)).max()
    }

    /// Appends deletions of nothing, until the next record is above a generation.
    fn skip(&mut self, log: &mut KafkaWriter, known: Option<Generation>) -> anyhow::Result<()> {
        let next = self.reader.next(0).unwrap_or_default();
        let missing = known.map_or(0, |known| (known + 1).saturating_sub(next));
        if missing > SKIPPED_MAX {
            bail!(
                "agents or Redis have rules of generation {}, and the topic `rules` begins at {next}: it was made anew, or the rules are those of another fleet; delete the key of the rules in Redis, and restart the agents without their state directories",
                known.unwrap_or_default()
            );
        }
        for number in 0..missing {
            log.forget(0, number.to_be_bytes().to_vec())?;
        }
        log.flush(KAFKA_WAIT);
        drop(log.reports());
        Ok(())
    }

    /// Deletes what is no longer kept: first the records without effect, which a reader that finds one first would follow.
    fn forget_old(&mut self, log: &mut KafkaWriter) {
        let old = self.kept.len().saturating_sub(HISTORY_LEN_MAX);
        let void = self.void.drain(..).map(|(_, payload)| payload);
        for payload in void.chain(self.kept.drain(..old).map(|(_, payload)| payload)) {
            // What stays is deleted by the next publisher.
            let _ = log.forget(0, payload);
        }
        log.flush(KAFKA_WAIT);
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
        let open = || KafkaRules::open(settings(), true, |bus| Ok(bus.prepare(START_WAIT)?)).expect("Kafka");
        let of = |number: usize, replaces| Published { replaces, ..Published::new(number.to_string(), "rules: []") };
        let (mut one, mut other) = (open(), open());
        let mut newest = None;
        for number in 0..HISTORY_LEN_MAX + 3 {
            newest = one.publish(&of(number, newest), None).expect("Kafka");
            assert!(newest.is_some(), "{number}");
        }
        assert_eq!(
            other.publish(&of(99, newest.map(|newest| newest - 1)), None).expect("Kafka"),
            None,
            "it was made for other rules"
        );
        let names = |log: &KafkaRules| log.publications().map(|kept| kept.published.name.clone()).collect::<Vec<_>>();
        let last: Vec<String> = (3..HISTORY_LEN_MAX + 3).map(|number| number.to_string()).collect();
        assert_eq!((names(&one), names(&other)), (last.clone(), last.clone()));
        assert_eq!(names(&open()), last);
        let above = newest.map(|newest| newest + 20);
        assert_eq!(open().publish(&of(100, newest), above).expect("Kafka"), above.map(|above| above + 1));
    }
}
