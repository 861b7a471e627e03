//! A broker that wants a name and a password.

use tollgate_bus::kafka::{Kafka, KafkaError};
use tollgate_bus::{Bus, From, Topic};
use tollgate_servers::Kafka as Broker;

use crate::support::{PATIENCE, append, numbers, prepared, read, settings, with};

const PROPERTIES: &str = r#"
sasl.enabled.mechanisms=PLAIN
sasl.mechanism.inter.broker.protocol=PLAIN
listener.name.sasl_plaintext.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required username="broker" password="secret" user_broker="secret" user_gate="open sesame";
"#;

#[test]
fn who_has_the_password_is_let_in_and_who_has_not_is_told() {
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
    append(&mut bus.log(Topic::Calls), 0..3);
    assert_eq!(numbers(&read(&mut bus.read(Topic::Calls, &[0], From::Oldest), 3)), [0, 1, 2]);

    let error = Kafka::new(login("abracadabra")).expect("settings").prepare(PATIENCE).expect_err("nobody is let in");
    assert!(matches!(error, KafkaError::Refused { .. }), "{error}");
    let text = error.to_string();
    assert!(text.contains("lets nobody in") && text.contains("sasl.*") && !text.contains("abracadabra"), "{text}");
}
