//! Topics that reject records although their descriptions are as required.

use tollgate_bus::kafka::KafkaBus;
use tollgate_bus::{Bus, BusError, LogWriter, Topic};
use tollgate_servers::wait_for;

use crate::support::{TIMEOUT, broker, prepared, reports, settings};

/// Appends a record; returns true if it is in the log.
fn is_kept(log: &mut impl LogWriter) -> bool {
    log.append(0, vec![7; 100], 0).expect("the queue has room");
    reports(log).last().expect("a report").offset.is_some()
}

fn refusal(bus: &KafkaBus) -> Option<String> {
    let error = bus.prepare(TIMEOUT).err()?;
    assert!(matches!(error, BusError::Refused { .. }) && !error.is_transient(), "{error}");
    Some(error.to_string())
}

/// A topic that keeps no record makes the bus unusable, with the topic, the reason and a command that repairs it. Once it
/// keeps records again, the bus is usable.
#[test]
fn a_topic_that_rejects_records_is_an_error_until_it_accepts_them_again() {
    let broker = broker();
    let settings = settings(&broker, 1);
    let bus = prepared(&settings);
    let name = format!("{}calls", settings.topic_prefix);
    let mut log = bus.writer(Topic::Calls);
    assert!(is_kept(&mut log));
    for (fault, reason) in
        [("cleanup.policy=compact", "InvalidRecord"), ("max.message.bytes=20", "MessageSizeTooLarge")]
    {
        broker.run(&format!(
            "kafka-configs.sh --bootstrap-server {} --entity-type topics --entity-name {name} --alter --add-config {fault}",
            broker.brokers()
        ));
        wait_for("a rejection", || (!is_kept(&mut log)).then_some(()));
        let refused = refusal(&bus).expect("records are lost");
        assert!(
            refused.contains(&format!("the topic `{name}` rejects records")) && refused.contains(reason),
            "{refused}"
        );
        broker.run(refused.split('`').find(|text| text.contains("kafka-configs")).expect("a command"));
        wait_for("a record that is kept", || is_kept(&mut log).then_some(()));
        wait_for("the end of the error", || (is_kept(&mut log) && refusal(&bus).is_none()).then_some(()));
    }
}
