//! Redis Sentinel, and a group of it: a primary, its replicas, and the Sentinels that watch it.

use std::fs;

use super::redis::{RedisKind, send};
use crate::port::free_port;
use crate::server::{Server, ServerError, ServerKind, require, wait_for};

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
        Self::try_watching(primary, quorum, lines).unwrap_or_else(|error| panic!("{error}"))
    }

    fn try_watching(primary: u16, quorum: usize, lines: &[&str]) -> Result<Self, ServerError> {
        require(PROGRAM, "--version", "run scripts/servers, or apt-get install redis-server")?;
        let port = free_port();
        Self::launch(port, |folder| {
            let file = folder.join("sentinel.conf");
            let fixed = format!(
                "port {port}\nbind 127.0.0.1\ndir {}\nsentinel monitor main 127.0.0.1 {primary} {quorum}\n\
                 sentinel down-after-milliseconds main 1000\nsentinel failover-timeout main 3000\n",
                folder.display()
            );
            fs::write(&file, fixed + &lines.join("\n"))?;
            Ok(vec![PROGRAM.to_owned(), file.display().to_string(), "--sentinel".to_owned()])
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
}

impl SentinelGroup {
    /// Starts a group, and waits until each Sentinel knows all the others and both replicas.
    ///
    /// # Panics
    /// Panics if a server is not installed, or the group is not complete within a minute.
    #[must_use]
    pub fn start() -> Self {
        let primary = Server::<RedisKind>::start();
        let port = primary.port().to_string();
        let replica = || Server::<RedisKind>::start_with(&["--replicaof", &format!("127.0.0.1 {port}")]);
        let servers = vec![replica(), replica()];
        for server in &servers {
            wait_for("replication", || {
                server.command("INFO replication").contains("master_link_status:up").then_some(())
            });
        }
        let servers: Vec<_> = [primary].into_iter().chain(servers).collect();
        let sentinels: Vec<_> = (0..3).map(|_| Server::<SentinelKind>::watching(servers[0].port(), 2, &[])).collect();
        for sentinel in &sentinels {
            wait_for("Sentinels that know each other", || {
                let known = sentinel.command("SENTINEL MASTER main");
                let number = |name: &str| known.split(name).nth(1)?.split_whitespace().nth(1)?.parse::<u64>().ok();
                let is_complete = number("num-slaves") == Some(2) && number("num-other-sentinels") == Some(2);
                is_complete.then_some(())
            });
        }
        Self { servers, sentinels }
    }

    /// Returns the address by which clients find the primary.
    #[must_use]
    pub fn url(&self) -> String {
        let hosts: Vec<String> =
            self.sentinels.iter().map(|sentinel| format!("127.0.0.1:{}", sentinel.port())).collect();
        format!("redis+sentinel://{}/main", hosts.join(","))
    }
}
