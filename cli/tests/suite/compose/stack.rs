//! Runs the services of docker-compose.yml as processes, in dependency order.
//!
//! Each process gets the command and the environment of its service. Paths and addresses inside the container are replaced
//! by paths and addresses of this machine.

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
    _redis: Redis,
    _kafka: Kafka,
}

struct Running {
    name: String,
    published: Vec<u16>,
    up: Up,
}

/// Replacements of container paths and addresses: (inside, here).
struct Replacements(Vec<(String, String)>);

impl Stack {
    /// Starts all services and waits until they are healthy.
    pub(crate) fn start(compose: &Compose) -> Self {
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("compose");
        let _ = fs::remove_dir_all(&folder);
        let (redis, kafka) = (redis(compose.service("redis")), kafka(compose.service("kafka")));
        let servers = [(REDIS.to_owned(), format!("127.0.0.1:{}", redis.port())), (KAFKA.to_owned(), kafka.brokers())];
        let (mut running, mut healths) = (Vec::new(), Vec::new());
        for service in compose.start_order().into_iter().filter(Service::is_of_this_image) {
            let table = Replacements::of(service, &servers, &folder);
            let mut command = table.command(service, &service.command());
            if let Some(tries) = service.tries() {
                work(service.name, tries, &mut command);
                continue;
            }
            let published = service.ports().iter().map(|port| port.published).collect();
            running.push(Running { name: service.name.to_owned(), published, up: Up::of(&mut command) });
            healths.push((service, table));
        }
        for (service, table) in healths {
            let health = service.health().expect("a service that keeps running has a health check");
            assert_eq!(health[0], "tollgate", "{}: the image has no other program", service.name);
            let mut health = table.command(service, &health[1..]);
            wait_for(&format!("{} to be healthy", service.name), || {
                health.output().unwrap().status.success().then_some(())
            });
        }
        Self { running, _redis: redis, _kafka: kafka }
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

    /// Binary with these arguments in a service's container, to run on this machine.
    fn command(&self, service: Service<'_>, args: &[String]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tollgate"));
        command.args(args.iter().map(|word| self.apply(word))).env_clear().env("PATH", PATH);
        command.envs(service.environment().iter().map(|(name, value)| (name, self.apply(value))));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }
}

/// Runs a command until it succeeds, at most `tries` times.
fn work(name: &str, tries: u32, command: &mut Command) {
    let mut error = String::new();
    let done = (0..tries).any(|_| {
        let finished = finish(command);
        error = finished.err;
        finished.exit == 0
    });
    assert!(done, "{name}: {error}");
}

fn redis(service: Service<'_>) -> Redis {
    let command = service.command();
    assert_eq!(command[0], "redis-server");
    Redis::start_with(&command[1..].iter().map(String::as_str).collect::<Vec<_>>())
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
