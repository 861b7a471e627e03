//! The configurations of deploy/redis: Redis accepts them as they are, but for names and ports, and an agent works with the rights that
//! they give.

use std::fs;
use std::path::{Path, PathBuf};

use tollgate_servers::{Certificates, Redis, free_port};

use super::{Log, agent, wait_for_store};
use crate::support::file;

/// Copies a configuration into a folder, with the paths of the folder and these settings; returns the path of the copy.
fn copied(folder: &Path, name: &str, settings: &[(&str, String)]) -> String {
    let source = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../deploy/redis").join(name);
    let mut text = fs::read_to_string(source).expect("a file of deploy/redis");
    for (setting, value) in settings {
        let is_of = |line: &&str| line.starts_with(&format!("{setting} "));
        let line = text.lines().find(is_of).unwrap_or_else(|| panic!("{name} has no {setting}")).to_owned();
        text = text.replace(&line, &format!("{setting} {value}"));
    }
    for path in ["/etc/redis", "/var/lib/redis"] {
        text = text.replace(path, &folder.display().to_string());
    }
    let copy = folder.join(name);
    fs::write(&copy, text).expect("a file is written");
    copy.display().to_string()
}

/// Starts a Redis on this port by the shipped configuration and further ones, in whose text these settings are replaced.
fn start(port: u16, further: &[(&str, Vec<(&str, String)>)]) -> Redis {
    let started = Redis::launch(port, |folder| {
        copied(folder, "users.acl", &[]);
        let mut command = vec!["redis-server".to_owned(), copied(folder, "redis.conf", &[("port", port.to_string())])];
        for (name, settings) in further {
            command.extend(["--include".to_owned(), copied(folder, name, settings)]);
        }
        // Else it takes a port that may be in use.
        command.extend(["--cluster-port".to_owned(), free_port().to_string()]);
        Ok(command)
    });
    started.unwrap_or_else(|error| panic!("{error}"))
}

/// I9: an agent has all the rights that it needs, with and without TLS, and is warned of nothing.
#[test]
fn an_agent_works_with_the_shipped_configuration() {
    let (port, tls_port, certificates) = (free_port(), free_port(), Certificates::of("own"));
    let of_tls = vec![
        ("port", port.to_string()),
        ("tls-port", tls_port.to_string()),
        ("tls-cert-file", certificates.text("server.pem")),
        ("tls-key-file", certificates.text("server.key")),
        ("tls-ca-cert-file", certificates.text("ca.pem")),
    ];
    let _redis = start(port, &[("tls.conf", of_tls)]);
    let password = file("deploy-redis-password", "change-me").display().to_string();
    let ca = certificates.text("ca.pem");
    let login = ["--redis-user", "tollgate", "--redis-password-file", &password];
    let over_tls: Vec<&str> = login.into_iter().chain(["--redis-ca", &ca]).collect();
    let urls = [format!("redis://127.0.0.1:{port}"), format!("rediss://127.0.0.1:{tls_port}")];
    for (url, flags) in urls.iter().zip([&login[..], &over_tls]) {
        let mut agent = agent(url, flags);
        let log = Log::of(&mut agent);
        wait_for_store(&agent);
        drop(agent);
        // A busy machine may miss deadlines.
        let is_warning = |line: &String| line.contains(" WARN ") && !line.contains("later than the deadline");
        let warned: Vec<String> = log.rest().into_iter().filter(is_warning).collect();
        assert!(warned.is_empty(), "{warned:?}");
    }
}

/// A primary with replicas, a node of a cluster, and a Sentinel start with the shipped files.
#[test]
fn redis_accepts_the_shipped_configurations() {
    let _primary = start(free_port(), &[("replicated.conf", Vec::new())]);
    let _node = start(free_port(), &[("replicated.conf", Vec::new()), ("cluster.conf", Vec::new())]);
    let port = free_port();
    let sentinel = tollgate_servers::Sentinel::launch(port, |folder| {
        let watched = ("sentinel monitor", format!("tollgate 127.0.0.1 {} 2", free_port()));
        let file = copied(folder, "sentinel.conf", &[("port", port.to_string()), watched]);
        Ok(vec!["redis-server".to_owned(), file, "--sentinel".to_owned()])
    });
    let sentinel = sentinel.unwrap_or_else(|error| panic!("{error}"));
    assert!(sentinel.command("SENTINEL MASTERS").contains("tollgate"));
}
