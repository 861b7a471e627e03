//! Redis Sentinel, and a group of it: a primary, its replicas, and the Sentinels that watch it.

use std::fs;

use super::redis::{RedisKind, send};
use crate::certificates::Certificates;
use crate::port::free_port;
use crate::server::{Server, ServerError, ServerKind, require, try_wait_for};

const PROGRAM: &str = "redis-server";

/// Sentinel.
pub struct SentinelKind;

impl ServerKind for SentinelKind {
    const NAME: &'static str = "Sentinel";

    fn is_ready(port: u16) -> bool {
        RedisKind::is_ready(port)
    }
}

impl Server<SentinelKind> {
    /// Starts a Sentinel that watches the primary on this port under the name `main`, with further lines of its configuration.
    ///
    /// # Panics
    /// Panics if redis-server is not installed.
    #[must_use]
    pub fn watching(primary: u16, quorum: usize, lines: &[&str]) -> Self {
        Self::try_watching(PROGRAM, primary, quorum, lines).unwrap_or_else(|error| panic!("{error}"))
    }

    fn try_watching(program: &str, primary: u16, quorum: usize, lines: &[&str]) -> Result<Self, ServerError> {
        require(program, "--version", "run scripts/servers, or apt-get install redis-server")?;
        let port = free_port();
        Self::launch(port, |folder| {
            let file = folder.join("sentinel.conf");
            let fixed = format!(
                "port {port}\nbind 127.0.0.1\ndir {}\nsentinel monitor main 127.0.0.1 {primary} {quorum}\n\
                 sentinel down-after-milliseconds main 1000\nsentinel failover-timeout main 3000\n",
                folder.display()
            );
            fs::write(&file, fixed + &lines.join("\n"))?;
            Ok(vec![program.to_owned(), file.display().to_string(), "--sentinel".to_owned()])
        })
    }

    /// Sends an inline command and returns the response in the Redis protocol.
    ///
    /// # Panics
    /// Panics if the Sentinel does not respond within 30 s.
    #[must_use]
    pub fn command(&self, line: &str) -> String {
        send(self.port(), line).expect("Sentinel responds")
    }
}

/// A primary, two replicas and three Sentinels.
pub struct SentinelGroup {
    /// The servers of data; the first one is the primary at the beginning.
    pub servers: Vec<Server<RedisKind>>,
    /// The Sentinels.
    pub sentinels: Vec<Server<SentinelKind>>,
    /// Address by which clients find the primary.
    url: String,
}

impl SentinelGroup {
    /// Starts a group, and waits until each Sentinel knows all the others and both replicas.
    ///
    /// # Panics
    /// Panics if a server is not installed, or the group is not complete within a minute.
    #[must_use]
    pub fn start() -> Self {
        Self::try_start(PROGRAM, None).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Starts a group with the certificate `server`. Servers and Sentinels speak TLS with one another and with clients.
    ///
    /// # Panics
    /// As [`start`](Self::start).
    #[must_use]
    pub fn start_with_tls(certificates: &Certificates) -> Self {
        Self::try_start(PROGRAM, Some(certificates)).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Starts a group of this program, with TLS if there are certificates.
    ///
    /// # Errors
    /// If the program does not exist, or the group is not complete within a minute.
    pub fn try_start(program: &str, certificates: Option<&Certificates>) -> Result<Self, ServerError> {
        let tls = |port| certificates.map(|certificates| certificates.redis_settings(port)).into_iter().flatten();
        // Starts a server with further settings; returns the port by which others know it, too.
        let server = |settings: &[&str]| {
            let port = free_port();
            let tls: Vec<_> = tls(port).map(|[name, value]| [format!("--{name}"), value]).collect();
            let settings = tls.iter().flatten().map(String::as_str).chain(settings.iter().copied());
            let server = Server::<RedisKind>::try_start(program, &settings.collect::<Vec<_>>())?;
            let own_port = if certificates.is_some() { port } else { server.port() };
            Ok::<_, ServerError>((server, own_port))
        };
        let (primary, primary_port) = server(&[])?;
        let mut servers = vec![primary];
        for _ in 0..2 {
            servers.push(server(&["--replicaof", &format!("127.0.0.1 {primary_port}")])?.0);
        }
        for server in &servers[1..] {
            let follows = || Ok(server.try_command("INFO replication")?.contains("master_link_status:up"));
            try_wait_for("replication", follows)?;
        }
        let (mut sentinels, mut hosts) = (Vec::new(), Vec::new());
        for _ in 0..3 {
            let port = free_port();
            let tls: Vec<String> = tls(port).map(|setting| setting.join(" ")).collect();
            let lines: Vec<&str> = tls.iter().map(String::as_str).collect();
            let sentinel = Server::<SentinelKind>::try_watching(program, primary_port, 2, &lines)?;
            let own_port = if certificates.is_some() { port } else { sentinel.port() };
            hosts.push(format!("127.0.0.1:{own_port}"));
            sentinels.push(sentinel);
        }
        let scheme = if certificates.is_some() { "rediss" } else { "redis" };
        let group = Self { servers, sentinels, url: format!("{scheme}+sentinel://{}/main", hosts.join(",")) };
        group.wait_until_complete()?;
        Ok(group)
    }

    /// Waits until each Sentinel knows all the others and both replicas.
    ///
    /// # Errors
    /// If that takes longer than a minute.
    pub fn wait_until_complete(&self) -> Result<(), ServerError> {
        for sentinel in &self.sentinels {
            try_wait_for("Sentinels that know each other", || {
                let known = send(sentinel.port(), "SENTINEL MASTER main")?;
                let number = |name: &str| known.split(name).nth(1)?.split_whitespace().nth(1)?.parse::<u64>().ok();
                Ok(number("num-slaves") == Some(2) && number("num-other-sentinels") == Some(2))
            })?;
        }
        Ok(())
    }

    /// Returns the address by which clients find the primary.
    #[must_use]
    pub fn url(&self) -> String {
        self.url.clone()
    }
}
