//! Users and passwords of Kafka: mechanisms, where a password comes from, its replacement while an agent runs, and refused logins.

#[cfg(feature = "kafka-tls")]
use tollgate_servers::Certificates;
use tollgate_servers::{Kafka, KafkaListener};

#[cfg(feature = "kafka-tls")]
use super::tls::{properties, write_store};
use super::{agent, agent_command, agents, wait_for_fault, wait_for_kafka};
use crate::support::{Up, file};

/// Broker with a listener for logins; its users are those of PLAIN, and those that a test adds.
fn with_users(mechanisms: &str) -> (Kafka, KafkaListener) {
    with_users_over("SASL_PLAINTEXT", mechanisms, "")
}

fn with_users_over(protocol: &'static str, mechanisms: &str, more: &str) -> (Kafka, KafkaListener) {
    let login = KafkaListener::new("LOGIN", protocol);
    let plain = "org.apache.kafka.common.security.plain.PlainLoginModule required user_limits=\"first\";";
    let scram = "org.apache.kafka.common.security.scram.ScramLoginModule required;";
    let properties = format!(
        "sasl.enabled.mechanisms={mechanisms}
listener.name.login.plain.sasl.jaas.config={plain}
listener.name.login.scram-sha-256.sasl.jaas.config={scram}
listener.name.login.scram-sha-512.sasl.jaas.config={scram}
{more}"
    );
    (Kafka::start_listening(&[login], &properties), login)
}

/// SASL PLAIN is a part of each build. The password is replaced in its file while the agent runs.
#[test]
fn a_refused_login_is_named_until_the_file_has_the_right_password() {
    let (kafka, login) = with_users("PLAIN");
    let path = file("kafka-password", "wrong\n");
    let password_file = path.display().to_string();
    let flags = ["--kafka-user", "limits", "--kafka-password-file", &password_file, "--kafka-sasl", "plain"];
    let other = ["--kafka-user", "limits", "--kafka-password-file", &password_file, "--kafka-sasl", "scram-sha-256"];
    let (login, anonymous) = (login.brokers(), kafka.brokers());
    let of: [(&str, &[&str]); 4] = [(&login, &flags), (&login, &[]), (&anonymous, &flags), (&login, &other)];
    let started = agents(&of[..3 + usize::from(cfg!(feature = "kafka-tls"))]);
    for (agent, parts) in started.iter().zip([
        [&login, "refuses the login", "--kafka-password-file FILE"],
        [&login, "closed by peer", "--kafka-user NAME --kafka-password-file FILE"],
        [&anonymous, "SASL state", "leave out --kafka-user"],
        [&login, "supported mechanisms: PLAIN", "--kafka-sasl plain"],
    ]) {
        let told = wait_for_fault(agent, &parts);
        assert!(!told.contains("wrong"), "{told}");
    }
    std::fs::write(&path, "first\nnot read").expect("a file is written");
    wait_for_kafka(&started[0]);
    wait_for_kafka(&agent(&anonymous, &[]));
    let mut of_variable = agent_command(&login, &["--kafka-user", "limits", "--kafka-sasl", "plain"]);
    wait_for_kafka(&Up::of(of_variable.env("TOLLGATE_KAFKA_PASSWORD", "first")));
}

/// I9: each mechanism works over TLS. SCRAM-SHA-512 is the default.
#[cfg(feature = "kafka-tls")]
#[test]
fn each_mechanism_reaches_a_broker_with_tls() {
    let certificates = Certificates::of("own");
    write_store(&certificates, "login", "server");
    let (kafka, login) =
        with_users_over("SASL_SSL", "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512", &properties(&certificates, "login", "none"));
    let of_user = ["SCRAM-SHA-256", "SCRAM-SHA-512"].map(|mechanism| {
        format!(
            "kafka-configs.sh --bootstrap-server {} --alter --entity-type users --entity-name {} --add-config '{mechanism}=[password=first]'",
            kafka.brokers(),
            mechanism.to_lowercase()
        )
    });
    kafka.run(&of_user.join("\n"));
    let ca = certificates.text("ca.pem");
    for (user, sasl) in [
        ("limits", &["--kafka-sasl", "plain"][..]),
        ("scram-sha-256", &["--kafka-sasl", "scram-sha-256"]),
        ("scram-sha-512", &[]),
    ] {
        let flags = [&["--kafka-ca", &ca, "--kafka-user", user], sasl].concat();
        let agent = Up::of(agent_command(&login.brokers(), &flags).env("TOLLGATE_KAFKA_PASSWORD", "first"));
        wait_for_kafka(&agent);
    }
}
