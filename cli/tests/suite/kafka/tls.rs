//! TLS to Kafka: certificates of brokers and clients, their faults, and their replacement while an agent runs.

use rcgen::{CertificateParams, date_time_ymd};
use tollgate_servers::{Certificates, Kafka, KafkaListener, finish};

use super::{agent, agent_command, agents, wait_for_fault, wait_for_kafka};
use crate::support::Up;

/// Whatever has no rule is allowed, and whoever has no certificate may do all.
const WITH_RIGHTS: &str = "
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
allow.everyone.if.no.acl.found=true
super.users=User:ANONYMOUS
";

/// Writes the file that a broker reads: key and certificate of this name.
pub(super) fn write_store(certificates: &Certificates, listener: &str, name: &str) {
    let text = |kind: &str| std::fs::read_to_string(certificates.path(&format!("{name}.{kind}"))).expect("a file");
    certificates.write(&format!("{listener}.store"), &format!("{}{}", text("key"), text("pem")));
}

/// Returns the lines of a listener with TLS, whose file has the name of the listener.
pub(super) fn properties(certificates: &Certificates, listener: &str, asks_clients: &str) -> String {
    let (store, ca) = (certificates.text(&format!("{listener}.store")), certificates.text("ca.pem"));
    let name = format!("listener.name.{listener}.ssl");
    format!(
        "{name}.keystore.type=PEM\n{name}.keystore.location={store}\n{name}.truststore.type=PEM
{name}.truststore.location={ca}\n{name}.client.auth={asks_clients}\n"
    )
}

/// Makes the certificates of a broker, and starts it with a listener for each of them.
fn start(certificates: &Certificates) -> (Kafka, [String; 4]) {
    certificates.issue_with("old", |params| params.not_after = date_time_ymd(2020, 1, 1));
    certificates.issue_with("elsewhere", |params| {
        let names = CertificateParams::new(["kafka.example".to_owned()]).expect("a name");
        params.subject_alt_names = names.subject_alt_names;
    });
    let listeners = ["GOOD", "OLD", "ELSEWHERE", "MUTUAL"].map(|name| KafkaListener::new(name, "SSL"));
    let mut lines = String::new();
    for (listener, name, asks) in [
        ("good", "server", "none"),
        ("old", "old", "none"),
        ("elsewhere", "elsewhere", "none"),
        ("mutual", "server", "required"),
    ] {
        write_store(certificates, listener, name);
        lines += &properties(certificates, listener, asks);
    }
    let kafka = Kafka::start_listening(&listeners, &(lines + WITH_RIGHTS));
    (kafka, listeners.map(|listener| listener.brokers()))
}

/// One broker has a listener for each fault. Files are corrected while the agents run.
#[test]
fn faults_of_certificates_are_named_with_a_remedy_that_works() {
    let (certificates, other) = (Certificates::of("own"), Certificates::of("other"));
    let (mut kafka, [good, old, elsewhere, mutual]) = start(&certificates);
    let plain = kafka.brokers();
    certificates.issue("client", 2100);
    other.issue("client", 2100);
    let [ca, cert, key] = ["ca.pem", "client.pem", "client.key"].map(|name| certificates.text(name));
    let [other_ca, other_cert, other_key] = ["ca.pem", "client.pem", "client.key"].map(|name| other.text(name));

    let agents = agents(&[
        (&good, &["--kafka-ca", &other_ca]),
        (&old, &["--kafka-ca", &ca]),
        (&elsewhere, &["--kafka-ca", &ca]),
        (&mutual, &["--kafka-ca", &ca]),
        (&mutual, &["--kafka-ca", &ca, "--kafka-cert", &other_cert, "--kafka-key", &other_key]),
        (&good, &[]),
        (&plain, &["--kafka-ca", &ca]),
    ]);
    let [stranger, expired, misnamed, nameless, foreign, ..] = &agents[..] else { panic!("seven agents") };
    for (agent, parts) in agents.iter().zip([
        [&good, "unknown issuer", "--kafka-ca FILE"],
        [&old, "has ended", "renew the certificate of the broker"],
        [&elsewhere, "kafka.example", "add this name to the certificate (subjectAltName)"],
        [&mutual, "wants a certificate", "--kafka-cert FILE and --kafka-key FILE"],
        [&mutual, "or another one", "that the brokers' issuers have signed"],
        [&good, "closed by peer", "give --kafka-tls"],
        [&plain, "PLAINTEXT", "leave out --kafka-tls"],
    ]) {
        wait_for_fault(agent, &parts);
    }

    // The remedies, most of them while the agents run.
    other.write("ca.pem", &certificates.issuer_pem());
    for name in ["client.pem", "client.key"] {
        other.write(name, &std::fs::read_to_string(certificates.path(name)).expect("a file"));
    }
    wait_for_kafka(stranger);
    wait_for_kafka(foreign);
    let flags = ["--kafka-ca", &ca, "--kafka-cert", &cert, "--kafka-key", &key];
    let known = agent(&mutual, &flags);
    wait_for_kafka(&known);
    // Its user is the subject of its certificate, which the printed command reads.
    let other = "--add --allow-principal User:other --operation Write --topic calls";
    kafka.run(&format!("kafka-acls.sh --bootstrap-server {plain} {other}"));
    let told = wait_for_fault(&known, &["`calls`", "Write"]);
    let tools = format!("--bootstrap-server {mutual} --command-config admin.properties");
    let commands = told.split('`').filter(|part| part.starts_with("kafka-acls.sh"));
    let here = |command: &str| command.replace(&tools, &format!("--bootstrap-server {plain}"));
    kafka.run(&commands.map(here).collect::<Vec<_>>().join("\n"));
    wait_for_kafka(&known);
    wait_for_kafka(&agent(&plain, &[]));
    let mut trusting = agent_command(&good, &["--kafka-tls"]);
    wait_for_kafka(&Up::of(trusting.env("SSL_CERT_FILE", &ca)));
    write_store(&certificates, "old", "server");
    write_store(&certificates, "elsewhere", "server");
    let file = kafka.folder().join("server.properties");
    let text = std::fs::read_to_string(&file).expect("a file");
    std::fs::write(file, text.replace("ssl.client.auth=required", "ssl.client.auth=none")).expect("a file is written");
    kafka.kill();
    kafka.restart();
    for agent in [expired, misnamed, nameless] {
        wait_for_kafka(agent);
    }
}

#[test]
fn files_that_cannot_be_used_end_the_start() {
    let certificates = Certificates::of("own");
    let [ca, cert, key] = ["ca.pem", "server.pem", "server.key"].map(|name| certificates.text(name));
    certificates.write("empty", "");
    let empty = certificates.text("empty");
    for (flags, said) in [
        (&["--kafka-ca", "/none"][..], "`--kafka-ca` cannot be used: /none: No such file"),
        (&["--kafka-ca", &empty], "it has no certificate in PEM"),
        (&["--kafka-cert", &cert], "give both files"),
        (&["--kafka-cert", &ca, "--kafka-key", &key], "it is not the key of the certificate"),
        (&["--kafka-user", "limits"], "TOLLGATE_KAFKA_PASSWORD"),
        (&["--kafka-user", "limits", "--kafka-password-file", &empty], "its first line is empty"),
        (&["--kafka-user", "limits", "--kafka-password", "x"], "put it into TOLLGATE_KAFKA_PASSWORD"),
    ] {
        let finished = finish(&mut agent_command("127.0.0.1:1", flags));
        assert_eq!(finished.exit, 2, "{flags:?}: {}", finished.err);
        assert!(finished.err.contains(said), "{flags:?}: {}", finished.err);
    }
}
