//! The topic `rules` as a publisher sees it: the publications that count, those that do not, and what is no longer kept.

use std::time::Duration;

use anyhow::bail;
use tollgate_bus::kafka::{KafkaBus, KafkaReader, KafkaSettings, KafkaWriter};
use tollgate_bus::{Bus, BusRecord, LogReader, LogWriter, ReadFrom, Topic};
use tollgate_core::clock::Stopwatch;
use tollgate_core::messages::rules::{HISTORY_LEN_MAX, PublicationOrder, Published};
use tollgate_core::messages::signals::Offset;
use tollgate_core::rules::Generation;
use tollgate_wire::Record;

use super::publication::KeptPublication;

/// Time that Kafka has to acknowledge, and to be read to its end.
const KAFKA_WAIT: Duration = Duration::from_secs(5);
const POLL_WAIT: Duration = Duration::from_millis(200);
const RECORDS_MAX: usize = 100;

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

    /// Appends a publication. Returns its generation; none if another one came before it, so that it has no effect.
    pub(super) fn publish(&mut self, published: &Published) -> anyhow::Result<Option<Generation>> {
        let mut log = self.bus.writer(Topic::Rules);
        log.append(0, published.encode(), 0)?;
        log.flush(KAFKA_WAIT);
        let Some(offset) = log.reports().into_iter().find_map(|report| report.offset) else {
            bail!("Kafka did not take the rules within {} s; those in force stay in force", KAFKA_WAIT.as_secs());
        };
        self.read_to(offset + 1)?;
        let is_valid = self.publications().any(|publication| publication.generation == offset);
        self.forget_old(&mut log);
        Ok(is_valid.then_some(offset))
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
            newest = one.publish(&of(number, newest)).expect("Kafka");
            assert!(newest.is_some(), "{number}");
        }
        assert_eq!(
            other.publish(&of(99, newest.map(|newest| newest - 1))).expect("Kafka"),
            None,
            "it was made for other rules"
        );
        let names = |log: &KafkaRules| log.publications().map(|kept| kept.published.name.clone()).collect::<Vec<_>>();
        let last: Vec<String> = (3..HISTORY_LEN_MAX + 3).map(|number| number.to_string()).collect();
        assert_eq!((names(&one), names(&other)), (last.clone(), last.clone()));
        assert_eq!(names(&open()), last);
    }
}
