//! Redis, without persistence unless a setting demands it: a killed server loses its data.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use crate::server::{Server, ServerError, ServerKind, free_port, require};

const PROGRAM: &str = "redis-server";
/// Maximum time until a command is answered.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(30);

/// Redis.
pub struct RedisKind;

impl ServerKind for RedisKind {
    const NAME: &'static str = "Redis";

    fn is_ready(port: u16) -> bool {
        send(port, "PING").is_ok_and(|answer| answer.starts_with("+PONG") || answer.starts_with("-NOAUTH"))
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
        Self::try_start(PROGRAM, settings).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Starts a server of this program.
    ///
    /// # Errors
    /// If the program does not exist or does not answer.
    pub fn try_start(program: &str, settings: &[&str]) -> Result<Self, ServerError> {
        require(program, "--version", "run scripts/servers, or apt-get install redis-server")?;
        let port = free_port();
        Self::launch(port, |folder| {
            let (port, folder) = (port.to_string(), folder.display().to_string());
            let fixed = [program, "--port", &port, "--bind", "127.0.0.1", "--dir", &folder, "--save", ""];
            Ok(fixed.iter().chain(settings).map(ToString::to_string).collect())
        })
    }

    /// Returns the address as `redis://127.0.0.1:PORT`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Sends an inline command and returns the response in the Redis protocol.
    ///
    /// # Panics
    /// Panics if the server does not respond within 30 s.
    #[must_use]
    pub fn command(&self, line: &str) -> String {
        self.try_command(line).expect("Redis responds")
    }

    /// Sends inline commands, one a line, and returns the responses.
    ///
    /// # Errors
    /// If the server does not respond within 30 s.
    pub fn try_command(&self, lines: &str) -> io::Result<String> {
        send(self.port, lines)
    }
}

/// Sends commands on their own connection and reads until the server closes it.
fn send(port: u16, lines: &str) -> io::Result<String> {
    let mut connection = TcpStream::connect(("127.0.0.1", port))?;
    connection.set_read_timeout(Some(RESPONSE_TIMEOUT))?;
    connection.write_all(format!("{lines}\r\nQUIT\r\n").as_bytes())?;
    let mut answer = String::new();
    connection.read_to_string(&mut answer)?;
    Ok(answer.trim_end().strip_suffix("+OK").unwrap_or(&answer).trim_end().to_owned())
}
