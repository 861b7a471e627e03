//! A gateway's own project, outside of this workspace, that depends on the library by its path.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Project in a folder of its own, which is removed with it.
struct FreshProject(PathBuf);

impl FreshProject {
    /// Creates a project that depends on the library as `docs/library.md` says, with its features or with these.
    fn new(name: &str, features: Option<&[&str]>, program: &str) -> Self {
        let agent = Path::new(env!("CARGO_MANIFEST_DIR"));
        let folder = std::env::temp_dir().join(format!("tollgate-{name}-{}", std::process::id()));
        fs::create_dir_all(folder.join("src")).unwrap();
        fs::write(folder.join("src/main.rs"), program).unwrap();
        // The same versions as here, which are on this machine.
        fs::copy(agent.join("../Cargo.lock"), folder.join("Cargo.lock")).unwrap();
        let document = file("../docs/library.md");
        let dependencies = document.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
        assert!(dependencies.starts_with("[dependencies]\n"), "docs/library.md begins with the dependencies");
        let shown = dependencies.split("features = [").nth(1).and_then(|rest| rest.split(']').next()).unwrap();
        let features = features.map_or_else(|| format!("[{shown}]"), |features| format!("{features:?}"));
        let dependencies = dependencies.replace("../tollgate/agent", &agent.display().to_string());
        let dependencies = dependencies.replacen(&format!("[{shown}]"), &features, 1);
        let manifest = format!("[package]\nname = \"{name}\"\nedition = \"2024\"\n\n{dependencies}");
        fs::write(folder.join("Cargo.toml"), manifest).unwrap();
        Self(folder)
    }

    /// Builds the program and runs it in the folder of the project.
    fn run(&self) -> Output {
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["run", "--quiet", "--offline"]).current_dir(&self.0).env("CARGO_TARGET_DIR", target);
        cargo.output().unwrap()
    }
}

impl Drop for FreshProject {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn file(path: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}

#[test]
fn a_fresh_project_limits_in_memory() {
    let run = FreshProject::new("fresh-in-memory", Some(&[]), &file("examples/in_memory.rs")).run();
    let text = String::from_utf8_lossy(&run.stdout);
    assert!(run.status.success() && text.contains("call 3 passes") && text.contains("call 4 is denied"), "{run:?}");
}

/// The program of the README, with the addresses of real servers and rules in a file.
#[cfg(all(feature = "redis", feature = "kafka"))]
#[test]
fn a_fresh_project_runs_the_program_of_the_readme_on_redis_with_kafka() {
    use std::time::Duration;

    use tollgate_bus::kafka::{KafkaBus, KafkaSettings};
    use tollgate_bus::{Bus, Topic};
    use tollgate_servers::{Kafka, Redis, wait_for};

    let (redis, kafka) = (Redis::start(), Kafka::start());
    let readme = file("../README.md");
    let program = readme.split("```rust,no_run\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let servers = [("redis://10.0.0.5", redis.url()), ("broker:9092", kafka.brokers())];
    let program = servers.iter().fold(program.to_owned(), |program, (named, real)| {
        assert!(program.contains(named), "the program names {named}");
        program.replace(named, real)
    });
    let project = FreshProject::new("fresh-readme", None, &program);
    let rules = "rules: [{ name: per-key, per: [api_key], quota: 100/min, deadline: 1s }]";
    fs::write(project.0.join("rules.yaml"), rules).unwrap();
    let run = project.run();
    assert!(run.status.success(), "{run:?}");
    assert_eq!(String::from_utf8_lossy(&run.stdout), "forward it after 0ns\n", "{run:?}");
    assert_ne!(redis.command("DBSIZE"), ":0", "the agent has used Redis");
    let bus = KafkaBus::new(KafkaSettings::new(&kafka.brokers())).unwrap();
    bus.prepare(Duration::from_secs(10)).unwrap();
    let end = |partition| wait_for("the end of the log", || bus.next_offset(Topic::Calls, partition));
    assert!((0..bus.partitions(Topic::Calls)).any(|partition| end(partition) > 0), "the call is in the log");
}
