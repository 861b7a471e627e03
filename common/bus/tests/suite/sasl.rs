//! A broker with password authentication.

use tollgate_bus::kafka::KafkaBus;
use tollgate_bus::{Bus, BusError, ReadFrom, Topic};
use tollgate_servers::Kafka as Broker;

use crate::support::{TIMEOUT, append, numbers, prepared, read, settings, with};

const PROPERTIES: &str = r#"
sasl.enabled.mechanisms=PLAIN
sasl.mechanism.inter.broker.protocol=PLAIN
listener.name.sasl_plaintext.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required username="broker" password="secret" user_broker="secret" user_gate="open sesame";
"#;

#[test]
fn a_wrong_password_is_reported_with_the_remedy() {
    let broker = Broker::start_with("SASL_PLAINTEXT", PROPERTIES);
    let settings = settings(&broker, 1);
    let login = |password| {
        let protocol = ("security.protocol", "SASL_PLAINTEXT");
        with(
            &settings,
            &[protocol, ("sasl.mechanism", "PLAIN"), ("sasl.username", "gate"), ("sasl.password", password)],
        )
    };
    let bus = prepared(&login("open sesame"));
    append(&mut bus.writer(Topic::Calls), 0..3);
    assert_eq!(numbers(&read(&mut bus.reader(Topic::Calls, &[0], ReadFrom::Oldest), 3)), [0, 1, 2]);

    let error =
        KafkaBus::new(login("abracadabra")).expect("settings").prepare(TIMEOUT).expect_err("the login is refused");
    assert!(matches!(error, BusError::Refused { .. }), "{error}");
    let text = error.to_string();
    assert!(
        text.contains("refuses the login")
            && text.contains("--kafka-password-file FILE")
            && !text.contains("abracadabra"),
        "{text}"
    );
}
