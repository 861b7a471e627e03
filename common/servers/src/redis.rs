//! Redis for tests, without persistence: a killed server loses its data.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::time::Duration;

use crate::server::{Server, ServerKind, free_port, temporary_folder};

const PROGRAM: &str = "redis-server";

/// Redis.
pub struct RedisKind;

impl ServerKind for RedisKind {
    const NAME: &'static str = "Redis";

    fn is_ready(port: u16) -> bool {
        send(port, "PING").is_some_and(|answer| answer.starts_with("+PONG") || answer.starts_with("-NOAUTH"))
    }
}

impl Server<RedisKind> {
    /// Starts a server.
    ///
    /// # Panics
    /// Panics if redis-server is not installed.
    #[must_use]
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    /// Starts a server with additional command line settings, such as `["--maxmemory", "1mb"]`.
    ///
    /// # Panics
    /// Panics if redis-server is not installed.
    #[must_use]
    pub fn start_with(settings: &[&str]) -> Self {
        let installed = Command::new(PROGRAM).arg("--version").output().is_ok();
        assert!(installed, "{PROGRAM} is missing; run scripts/servers, or apt-get install redis-server");
        let (folder, port) = (temporary_folder(), free_port());
        let (port_text, folder_text) = (port.to_string(), folder.path().display().to_string());
        let fixed = [PROGRAM, "--port", &port_text, "--bind", "127.0.0.1", "--dir", &folder_text, "--save", ""];
        Self::launch(fixed.iter().chain(settings).map(ToString::to_string).collect(), port, folder)
    }

    /// Returns the address as `redis://127.0.0.1:PORT`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Returns the port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Sends an inline command and returns the response in the Redis protocol.
    ///
    /// # Panics
    /// Panics if the server does not respond within 5 s.
    #[must_use]
    pub fn command(&self, line: &str) -> String {
        send(self.port, line).expect("Redis responds")
    }
}

/// Sends one command on its own connection and reads until the server closes it.
fn send(port: u16, line: &str) -> Option<String> {
    let mut connection = TcpStream::connect(("127.0.0.1", port)).ok()?;
    connection.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
    connection.write_all(format!("{line}\r\nQUIT\r\n").as_bytes()).ok()?;
    let mut answer = String::new();
    connection.read_to_string(&mut answer).ok()?;
    Some(answer.trim_end().strip_suffix("+OK").unwrap_or(&answer).trim_end().to_owned())
}
