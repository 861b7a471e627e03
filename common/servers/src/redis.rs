//! Redis, without persistence unless a setting demands it: a killed server loses its data.

use std::fs;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use crate::port::free_port;
use crate::server::{Server, ServerError, ServerKind, require};

const PROGRAM: &str = "redis-server";
/// File in the server's folder that tells libfaketime the offset of the clock.
const CLOCK_FILE: &str = "clock";
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

    /// Starts a server whose clock can be [set](Self::set_clock): libfaketime answers its questions for the time.
    ///
    /// # Panics
    /// Panics if redis-server or faketime is not installed.
    #[must_use]
    pub fn start_with_clock() -> Self {
        Self::start_with_clock_and(&[])
    }

    /// Starts a server with these settings whose clock can be set.
    ///
    /// # Panics
    /// Panics if redis-server or faketime is not installed.
    #[must_use]
    pub fn start_with_clock_and(settings: &[&str]) -> Self {
        let remedy = "run scripts/servers, or apt-get install redis-server faketime";
        let start = || {
            require(PROGRAM, "--version", remedy)?;
            require("faketime", "--version", remedy)?;
            let port = free_port();
            Self::launch(port, |folder| {
                let clock = folder.join(CLOCK_FILE);
                fs::write(&clock, "+0")?;
                let (port, file) = (port.to_string(), format!("FAKETIME_TIMESTAMP_FILE={}", clock.display()));
                // The allocator of libc, because jemalloc asks for the time before libfaketime is ready.
                let library = "LD_PRELOAD=/usr/$LIB/faketime/libfaketime.so.1:libc.so.6";
                let faked = ["env", library, &file, "FAKETIME_NO_CACHE=1", "FAKETIME_DONT_FAKE_MONOTONIC=1"];
                let folder = folder.display().to_string();
                let server = [PROGRAM, "--port", &port, "--bind", "127.0.0.1", "--dir", &folder, "--save", ""];
                Ok(faked.iter().chain(&server).chain(settings).map(ToString::to_string).collect())
            })
        };
        start().unwrap_or_else(|error: ServerError| panic!("{error}"))
    }

    /// Sets the clock of a server that was [started for it](Self::start_with_clock), to so many ms after the true time.
    ///
    /// # Panics
    /// Panics if the file cannot be written.
    pub fn set_clock(&self, offset_ms: i64) {
        let (file, next) = (self.folder().join(CLOCK_FILE), self.folder().join("next"));
        // The server never reads half a file.
        let sign = if offset_ms < 0 { '-' } else { '+' };
        let (seconds, ms) = (offset_ms.unsigned_abs() / 1_000, offset_ms.unsigned_abs() % 1_000);
        fs::write(&next, format!("{sign}{seconds}.{ms:03}")).expect("a file is written");
        fs::rename(next, file).expect("a file is renamed");
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

    /// Returns the number of scripts that the server has run by their hashes.
    ///
    /// # Panics
    /// Panics if the server does not respond within 30 s.
    #[must_use]
    pub fn scripts_run(&self) -> u64 {
        let info = self.command("INFO commandstats");
        let line = info.lines().find_map(|line| line.strip_prefix("cmdstat_evalsha:calls="));
        line.and_then(|line| line.split(',').next()?.parse().ok()).unwrap_or_default()
    }

    /// Returns the CPU time that the server has used, in microseconds.
    ///
    /// # Panics
    /// Panics if the server does not respond within 30 s.
    #[must_use]
    pub fn cpu_us(&self) -> f64 {
        let info = self.command("INFO cpu");
        let field = |name: &str| info.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<f64>().ok());
        1e6 * (field("used_cpu_user:").expect("a number") + field("used_cpu_sys:").expect("a number"))
    }

    /// Sends inline commands, one a line, and returns the responses.
    ///
    /// # Errors
    /// If the server does not respond within 30 s.
    pub fn try_command(&self, lines: &str) -> io::Result<String> {
        send(self.port, lines)
    }
}

/// Sends commands on their own connection, and reads until the server, which sees the end of the commands, closes it.
pub(crate) fn send(port: u16, lines: &str) -> io::Result<String> {
    let mut connection = TcpStream::connect(("127.0.0.1", port))?;
    connection.set_read_timeout(Some(RESPONSE_TIMEOUT))?;
    connection.write_all(format!("{lines}\r\n").as_bytes())?;
    connection.shutdown(Shutdown::Write)?;
    let mut answer = String::new();
    connection.read_to_string(&mut answer)?;
    Ok(answer.trim_end().to_owned())
}
