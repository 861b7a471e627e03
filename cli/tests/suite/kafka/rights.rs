//! Kafka as docs/fleet.md sets it up: TLS, users and rights. The steps of the page and the files of deploy/kafka are used as they are,
//! with other folders and ports.

use std::cell::Cell;
use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use tollgate_bus::kafka::{KafkaAccess, KafkaBus, KafkaSettings, TopicSet};
use tollgate_bus::{Bus, Topic};
use tollgate_servers::{Kafka, finish, free_port};

use super::{RULES, bus_error, is_connected, rows, wait_for_fault, wait_for_kafka};
use crate::support::{Up, file, tollgate, wait_for};

const HEADING: &str = "### A Kafka with TLS, users and rights";
const FILES: [&str; 3] = ["server.properties", "admin.properties", "acls.sh"];
/// Line of the steps that a test replaces, because it ends the node with itself.
const START: &str = "kafka-server-start.sh -daemon server.properties\n";
const PREPARE_WAIT: std::time::Duration = std::time::Duration::from_secs(5);

/// Node that was set up by the steps of the page.
struct SecuredKafka {
    kafka: Kafka,
    folder: TempDir,
    brokers: String,
}

impl SecuredKafka {
    fn start() -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let folder = tempfile::tempdir().expect("a folder");
        let ports = [9092, 9093, 9094].map(|port| (format!(":{port}"), free_port()));
        let here = |text: String| {
            let path = folder.path().display();
            let text =
                text.replace("/etc/kafka", &format!("{path}/etc")).replace("/var/lib/kafka", &format!("{path}/data"));
            ports.iter().fold(text, |text, (name, port)| text.replace(name, &format!(":{port}")))
        };
        for name in FILES {
            let text = fs::read_to_string(root.join("deploy/kafka").join(name)).expect("a file of deploy/kafka");
            fs::write(folder.path().join(name), here(text)).expect("a file is written");
        }
        let page = fs::read_to_string(root.join("docs/fleet.md")).expect("the page");
        let section = page.split_once(HEADING).expect("the section").1;
        let mut blocks =
            section.split("```sh\n").skip(1).map(|block| here(block.split_once("```").expect("an end").0.to_owned()));
        let (node, users) = (blocks.next().expect("steps of the node"), blocks.next().expect("steps of the users"));
        assert!(node.ends_with(START), "{node}");
        drop(Kafka::run_in(folder.path(), node.trim_end_matches(START)));
        let port = ports[0].1;
        let kafka = Kafka::start_from(&folder.path().join("server.properties"), port);
        drop(Kafka::run_in(folder.path(), &users));
        Self { kafka, folder, brokers: format!("localhost:{port}") }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Runs a line that a process has printed, as it is.
    fn run(&self, line: &str) -> String {
        Kafka::run_in(self.folder.path(), line)
    }

    fn flags(&self, user: &str) -> Vec<String> {
        let text = |name: &str| self.path(name).display().to_string();
        let (ca, password) = (text("etc/ca.pem"), text(&format!("{user}.password")));
        let flags =
            ["--kafka", &self.brokers, "--kafka-ca", &ca, "--kafka-user", user, "--kafka-password-file", &password];
        flags.map(str::to_owned).to_vec()
    }

    fn start_process(&self, command: &str, user: &str, more: &[&str]) -> Up {
        Up::of(tollgate(&[command, "--http", "127.0.0.1:0"]).args(self.flags(user)).args(more))
    }

    /// Returns a bus with the login of a user.
    fn bus(&self, user: &str, topics: TopicSet) -> KafkaBus {
        let mut access = KafkaAccess::default();
        (access.ca, access.user) = (Some(self.path("etc/ca.pem")), Some(user.to_owned()));
        access.password_file = Some(self.path(&format!("{user}.password")));
        KafkaBus::new(KafkaSettings::new(&self.brokers).accessed(access).carrying(topics)).expect("settings")
    }

    /// Gives a user another password, as an operator does.
    fn set_password(&self, user: &str, password: &str) {
        self.run(&self.password_command(user, password));
    }

    /// Returns the command that a process prints when its login is refused.
    fn password_command(&self, user: &str, password: &str) -> String {
        format!(
            "kafka-configs.sh --bootstrap-server {} --command-config admin.properties --alter --entity-type users --entity-name {user} --add-config 'SCRAM-SHA-512=[password={password}]'",
            self.brokers
        )
    }
}

/// Returns the commands that a text has between grave accents.
fn commands(text: &str) -> Vec<String> {
    let parts = text.split('`').skip(1).step_by(2);
    parts.filter(|part| part.starts_with("kafka-")).map(str::to_owned).collect()
}

#[test]
fn each_role_works_with_its_least_rights_and_names_those_that_are_taken_away() {
    let mut secured = SecuredKafka::start();
    let aggregator = secured.start_process("aggregator", "aggregator", &[]);
    wait_for("the topics", || (aggregator.client().get("/readyz", &[]).status == 200).then_some(()));
    let rules = file("secured.yaml", RULES).display().to_string();
    let publish = |secured: &SecuredKafka| {
        let published = finish(tollgate(&["rules", "publish", &rules]).args(secured.flags("operator")));
        assert_eq!(published.exit, 0, "{}", published.err);
    };
    publish(&secured);
    let agent = secured.start_process("agent", "agent", &[]);
    wait_for_kafka(&agent);
    wait_for("the published rules", || (agent.client().get("/readyz", &[]).status == 200).then_some(()));
    let calls = Cell::new(0);
    let call = |times: u64| {
        (0..times).for_each(|_| drop(agent.client().check("k")));
        calls.set(calls.get() + times);
        calls.get()
    };
    let counted = |calls: u64| wait_for("the counts", || (rows(&aggregator) == calls).then_some(()));
    counted(call(3));
    calls.set(calls.get() + 1);
    grant_what_is_printed(&secured, || counted(calls.get()));

    // The login of an agent, in the hands of somebody else.
    let signals = secured.bus("agent", TopicSet::Deployment);
    for topic in [Topic::Signals, Topic::Rules] {
        drop(signals.writer(topic));
    }
    let refused = signals.prepare(PREPARE_WAIT).expect_err("a refusal").to_string();
    assert!(refused.contains("refuses Write on the topics `signals`, `rules` to User:agent"), "{refused}");
    let rollups = secured.bus("agent", TopicSet::Analytics).prepare(PREPARE_WAIT).expect_err("a refusal").to_string();
    assert!(rollups.contains("`rollups`, `live` to User:agent"), "{rollups}");
    let client = fs::read_to_string(secured.path("admin.properties")).expect("a file");
    let password = fs::read_to_string(secured.path("agent.password")).expect("a file");
    let begin = client.find("password=\"").expect("a password");
    let client = format!(
        "{}password=\"{}\";{}",
        &client[..begin],
        password.trim(),
        &client[client[begin..].find('\n').unwrap() + begin..]
    );
    fs::write(secured.path("agent.properties"), client.replace("\"admin\"", "\"agent\"")).expect("a file is written");
    let topics = ["signals", "rules", "rollups"];
    let attempts = topics.map(|topic| {
        format!(
            "(echo forged | kafka-console-producer.sh --bootstrap-server {} --producer.config agent.properties --sync --topic {topic} 2>&1 || true) &\n",
            secured.brokers
        )
    });
    let tried = secured.run(&format!("{}wait", attempts.concat()));
    for topic in topics {
        assert!(tried.contains(&format!("Not authorized to access topics: [{topic}]")), "{topic}: {tried}");
    }

    // Rights that are taken away. A topic that is hidden then is granted with all that the process needs.
    let tools = format!("--bootstrap-server {} --command-config admin.properties", secured.brokers);
    for (process, user, right, others) in [
        (&agent, "agent", "--operation Write --topic presence", 0),
        (&aggregator, "aggregator", "--operation Read --topic calls", 1),
    ] {
        secured.run(&format!("kafka-acls.sh {tools} --remove --force --allow-principal User:{user} {right}"));
        let told = wait_for_fault(process, &["refuses", &format!("to User:{user}")]);
        let granted = commands(&told);
        assert_eq!(granted[0], format!("kafka-acls.sh {tools} --add --allow-principal User:{user} {right}"), "{told}");
        assert_eq!(granted.len(), 1 + others, "{told}");
        secured.run(&granted.join("\n"));
        wait_until_usable(process);
    }
    counted(call(3));

    // A topic with a wrong setting is changed by the login of an operator.
    let setting = "--entity-type topics --entity-name calls --alter --add-config message.timestamp.type";
    secured.run(&format!("kafka-configs.sh {tools} {setting}=CreateTime"));
    let second = secured.start_process("agent", "agent", &["--node", "second"]);
    let changes = commands(&wait_for_fault(&second, &["`calls`", "message.timestamp.type=CreateTime"]));
    assert_eq!(changes, [format!("kafka-configs.sh {tools} {setting}=LogAppendTime")]);
    secured.run(&changes[0]);
    wait_for_kafka(&second);
    drop(second);

    // A password that is replaced. Calls of the time without it are counted as well.
    secured.set_password("agent", "second");
    secured.kafka.kill();
    secured.kafka.restart();
    let command = secured.password_command("agent", "PASSWORD");
    wait_for_fault(&agent, &[&secured.brokers, "refuses the login", "--kafka-password-file FILE", &command]);
    let made = call(4);
    fs::write(secured.path("agent.password"), "second\n").expect("a file is written");
    wait_for_kafka(&agent);
    counted(made);
    let generation = || {
        agent
            .client()
            .get("/metrics", &[])
            .text()
            .lines()
            .find_map(|line| line.strip_prefix("tollgate_rules_generation ")?.parse::<u64>().ok())
    };
    let before = generation();
    publish(&secured);
    wait_for("the rules that are published again", || (generation() > before).then_some(()));
}

/// Starts an agent of a user without any right, and runs what the agent prints, until it counts.
fn grant_what_is_printed(secured: &SecuredKafka, counted: impl FnOnce()) {
    secured.set_password("newcomer", "third");
    fs::write(secured.path("newcomer.password"), "third").expect("a file is written");
    let agent = secured.start_process("agent", "newcomer", &[]);
    let mut run = Vec::new();
    wait_for("Kafka", || {
        let told = bus_error(&agent).unwrap_or_default();
        let new: Vec<String> = commands(&told).into_iter().filter(|command| !run.contains(command)).collect();
        if !new.is_empty() {
            secured.run(&new.join("\n"));
        }
        run.extend(new);
        is_connected(&agent).then_some(())
    });
    assert!(run.iter().all(|command| command.contains("--allow-principal User:newcomer ")), "{run:?}");
    agent.client().check("k");
    counted();
}

/// Waits until a process tells no fault of Kafka.
fn wait_until_usable(process: &Up) {
    wait_for("the end of the fault", || bus_error(process).is_none().then_some(()));
}
