//! Runs the services of docker-compose.yml as processes, in dependency order.
//!
//! Each process gets the command and the environment of its service. Paths and addresses inside the container are replaced
//! by paths and addresses of this machine; all nodes of the cluster have the name `localhost`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tollgate_servers::{Kafka, Redis, free_port, wait_for};

use super::file::{Compose, Service};
use crate::support::{Client, Up, finish};

/// `PATH` of the image.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
const REDIS: &str = "redis:6379";
const KAFKA: &str = "kafka:9092";

pub(crate) struct Stack {
    running: Vec<Running>,
    /// Commands of the services that end after their work.
    work: Vec<Work>,
    _servers: Servers,
}

struct Work {
    name: String,
    tries: u32,
    command: Command,
}

/// Servers in place of the images of others.
#[derive(Default)]
struct Servers {
    redis: Vec<Redis>,
    kafka: Vec<Kafka>,
}

struct Running {
    name: String,
    published: Vec<u16>,
    up: Up,
}

/// Replacements of container paths and addresses: (inside, here).
struct Replacements(Vec<(String, String)>);

impl Stack {
    /// Starts these services and those that they need, and waits until they are healthy.
    pub(crate) fn start(compose: &Compose, names: &[&str]) -> Self {
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("compose").join(names[0]);
        let _ = fs::remove_dir_all(&folder);
        let services = compose.with_dependencies(names);
        let mut addresses: Vec<(String, String)> = Vec::new();
        for node in services.iter().filter(|service| is_node(**service)) {
            addresses.push((format!("{}:6379", node.name), format!("localhost:{}", free_port())));
            addresses.push((node.name.to_owned(), "localhost".to_owned()));
        }
        let (mut running, mut healths) = (Vec::new(), Vec::new());
        let (mut work, mut servers) = (Vec::new(), Servers::default());
        for service in services {
            let table = Replacements::of(service, &addresses, &folder);
            if let Some(tries) = service.tries() {
                let command = table.command(service, &service.command());
                work.push(Work { name: service.name.to_owned(), tries, command });
                work.last_mut().expect("work").run();
            } else if service.is_of_this_image() {
                let mut command = table.command(service, &service.command());
                let published = service.ports().iter().map(|port| port.published).collect();
                running.push(Running { name: service.name.to_owned(), published, up: Up::of(&mut command) });
                healths.push((service, table));
            } else if is_node(service) {
                servers.redis.push(node(service, &table));
            } else if service.name == "redis" {
                let redis = redis(service);
                addresses.push((REDIS.to_owned(), format!("127.0.0.1:{}", redis.port())));
                servers.redis.push(redis);
            } else {
                let kafka = kafka(service);
                addresses.push((KAFKA.to_owned(), kafka.brokers()));
                servers.kafka.push(kafka);
            }
        }
        for (service, table) in healths {
            let health = service.health().expect("a service that keeps running has a health check");
            assert_eq!(health[0], "tollgate", "{}: the image has no other program", service.name);
            let mut health = table.command(service, &health[1..]);
            wait_for(&format!("{} to be healthy", service.name), || {
                health.output().unwrap().status.success().then_some(())
            });
        }
        Self { running, work, _servers: servers }
    }

    /// Runs the services that ended once more, as another `docker compose up` does.
    pub(crate) fn work_again(&mut self) {
        self.work.iter_mut().for_each(Work::run);
    }

    /// Connects to the service with this published port.
    pub(crate) fn client(&self, port: u16) -> Client {
        self.running.iter().find(|running| running.published.contains(&port)).expect("a published port").up.client()
    }

    /// Stops all services as `docker compose stop` does. Returns the name and log of each.
    pub(crate) fn stop(self) -> Vec<(String, String)> {
        self.running.iter().for_each(|running| running.up.signal("TERM"));
        let ends = self.running.into_iter().map(|Running { name, up, .. }| {
            let (status, log) = up.end();
            assert!(status.success(), "{name}: {status}: {log}");
            (name, log)
        });
        ends.collect()
    }
}

impl Work {
    /// Runs the command until it succeeds.
    fn run(&mut self) {
        let mut error = String::new();
        let done = (0..self.tries).any(|_| {
            let finished = finish(&mut self.command);
            error = finished.out + &finished.err;
            finished.exit == 0
        });
        assert!(done, "{}: {error}", self.name);
    }
}

impl Replacements {
    fn of(service: Service<'_>, servers: &[(String, String)], folder: &Path) -> Self {
        let mut table = servers.to_vec();
        for volume in service.volumes() {
            let place = volume.file.unwrap_or_else(|| {
                let place = folder.join(volume.source);
                fs::create_dir_all(&place).unwrap();
                place
            });
            table.push((volume.target, place.to_str().unwrap().to_owned()));
        }
        if let Some(port) = service.listens_on() {
            table.push((format!("0.0.0.0:{port}"), format!("0.0.0.0:{}", free_port())));
        }
        Self(table)
    }

    fn apply(&self, text: &str) -> String {
        self.0.iter().fold(text.to_owned(), |text, (there, here)| text.replace(there, here))
    }

    /// Command of a service's container, to run on this machine: its words follow the entry point of the service or image.
    fn command(&self, service: Service<'_>, words: &[String]) -> Command {
        let of_image = service.is_of_this_image().then(|| env!("CARGO_BIN_EXE_tollgate").to_owned());
        let entry = of_image.into_iter().chain(service.entrypoint());
        let mut words = entry.chain(words.iter().map(|word| self.apply(word)));
        let mut command = Command::new(words.next().expect("a program"));
        command.args(words).env_clear().env("PATH", PATH);
        command.envs(service.environment().iter().map(|(name, value)| (name, self.apply(value))));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }
}

fn redis(service: Service<'_>) -> Redis {
    let command = service.command();
    assert_eq!(command[0], "redis-server");
    Redis::start_with(&command[1..].iter().map(String::as_str).collect::<Vec<_>>())
}

/// Returns true for a node of the cluster.
fn is_node(service: Service<'_>) -> bool {
    service.command().contains(&"--cluster-announce-hostname".to_owned())
}

/// Starts a node of the cluster with the command of its service and with copies of its files, and asks for its health. It has
/// another port without TLS, by which it shows that it is ready.
fn node(service: Service<'_>, table: &Replacements) -> Redis {
    let port = free_port();
    let address = table.apply(&format!("{}:6379", service.name));
    let of_tls = address.rsplit(':').next().unwrap();
    let started = Redis::launch(port, |folder| {
        let here = |text: &str| table.apply(text).replace(&service.text("working_dir"), folder.to_str().unwrap());
        let mut command: Vec<String> = service.command().iter().map(|word| table.apply(word)).collect();
        for word in command.iter_mut().filter(|word| Path::new(word.as_str()).is_file()) {
            let copy = folder.join(Path::new(word.as_str()).file_name().unwrap());
            fs::write(&copy, here(&fs::read_to_string(&*word)?))?;
            copy.to_str().unwrap().clone_into(word);
        }
        let (port, bus) = (port.to_string(), free_port().to_string());
        let of_machine = ["--port", &port, "--tls-port", of_tls, "--cluster-port", &bus];
        command.extend(of_machine.map(ToOwned::to_owned));
        Ok(command)
    });
    let started = started.unwrap_or_else(|error| panic!("{error}"));
    let mut health = service.health().expect("a health check");
    health.splice(1..1, ["-p", of_tls].map(ToOwned::to_owned));
    let health = finish(&mut table.command(service, &health));
    assert_eq!(health.exit, 0, "{}: {}", service.name, health.err);
    started
}

/// Starts Kafka with the settings of its service, except paths and addresses. The image turns each variable into a property.
fn kafka(service: Service<'_>) -> Kafka {
    let environment = service.environment();
    assert_eq!(environment["KAFKA_ADVERTISED_LISTENERS"], format!("PLAINTEXT://{KAFKA}"));
    let places = ["KAFKA_LISTENERS", "KAFKA_ADVERTISED_LISTENERS", "KAFKA_CONTROLLER_QUORUM_VOTERS", "KAFKA_LOG_DIRS"];
    let settings = environment.iter().filter(|(name, _)| !places.contains(&name.as_str()));
    let properties = settings.map(|(name, value)| {
        let name = name.strip_prefix("KAFKA_").expect("a setting of Kafka").to_lowercase().replace('_', ".");
        format!("{name}={value}\n")
    });
    Kafka::start_with("PLAINTEXT", &properties.collect::<String>())
}
