//! Redis for tests.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::time::Duration;

use crate::process::{Folder, Process, free_port};

const PROGRAM: &str = "redis-server";

/// Running Redis without persistence.
pub struct Redis {
    process: Process,
    folder: Folder,
    port: u16,
    settings: Vec<String>,
}

impl Redis {
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
        let (folder, port) = (Folder::new("redis"), free_port());
        let settings: Vec<String> = settings.iter().map(ToString::to_string).collect();
        let process = launch(&folder, port, &settings);
        Self { process, folder, port, settings }
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

    /// Kills the server; its data is lost.
    pub fn kill(&mut self) {
        self.process.kill();
    }

    /// Restarts the server on the same port, empty.
    pub fn restart(&mut self) {
        self.process = launch(&self.folder, self.port, &self.settings);
    }

    /// Suspends the process: connections stay open, and requests get no response.
    pub fn pause(&self) {
        self.process.signal("STOP");
    }

    /// Resumes the process, which then handles the requests sent meanwhile.
    pub fn resume(&self) {
        self.process.signal("CONT");
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

fn launch(folder: &Folder, port: u16, settings: &[String]) -> Process {
    let (port_text, folder_text) = (port.to_string(), folder.path().display().to_string());
    let mut args = vec!["--port", &port_text, "--bind", "127.0.0.1", "--dir", &folder_text, "--save", ""];
    args.extend(settings.iter().map(String::as_str));
    let process = Process::start(&folder.path().join("log"), PROGRAM, args);
    let answers = |answer: String| answer.starts_with("+PONG") || answer.starts_with("-NOAUTH");
    process.wait_until_ready("Redis", || send(port, "PING").filter(|a| answers(a.clone())));
    process
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
