//! One server, which is stopped in any case.
//!
//! A shell supervises the server: when the test process ends, for whatever reason, its pipe to the shell is closed and
//! the shell kills the server. No server outlives a killed test.

use std::fs;
use std::io::{BufRead, BufReader};
use std::marker::PhantomData;
use std::net::TcpListener;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;
use tollgate_core::clock::Stopwatch;

/// Maximum time until a server is reachable.
const START_TIMEOUT: Duration = Duration::from_mins(1);
const PROBE_PAUSE: Duration = Duration::from_millis(10);
/// Script of the supervising shell: runs the server in the background, prints its process id, and kills it when the
/// pipe is closed.
const SUPERVISOR_SCRIPT: &str =
    r#"log=$1; shift; "$@" >>"$log" 2>&1 </dev/null & echo $!; read -r _; kill -9 $! 2>/dev/null; exit 0"#;

/// Kind of a server.
pub trait ServerKind {
    /// Name for messages.
    const NAME: &'static str;

    /// Returns true if a server of this kind answers on the port.
    fn is_ready(port: u16) -> bool;
}

/// Running server on a port and in a temporary folder of its own.
pub struct Server<K> {
    pub(crate) port: u16,
    command: Vec<String>,
    process: SupervisedProcess,
    // Dropped after the process, which writes to it.
    folder: TempDir,
    kind: PhantomData<K>,
}

struct SupervisedProcess {
    supervisor: Child,
    pipe: Option<ChildStdin>,
    id: u32,
}

impl<K: ServerKind> Server<K> {
    /// Runs a command that starts a server on this port, and waits until the server answers.
    ///
    /// # Panics
    /// Panics with the server's log if it does not answer within a minute.
    pub(crate) fn launch(command: Vec<String>, port: u16, folder: TempDir) -> Self {
        let process = launch::<K>(&command, port, &folder);
        Self { port, command, process, folder, kind: PhantomData }
    }

    /// Kills the server with SIGKILL and waits for its end.
    pub fn kill(&mut self) {
        self.process.kill();
    }

    /// Restarts the server on the same port and in the same folder.
    pub fn restart(&mut self) {
        self.process = launch::<K>(&self.command, self.port, &self.folder);
    }

    /// Suspends the process: connections stay open, and requests get no response.
    pub fn pause(&self) {
        self.process.signal("STOP");
    }

    /// Resumes the process, which then handles the requests sent meanwhile.
    pub fn resume(&self) {
        self.process.signal("CONT");
    }
}

fn launch<K: ServerKind>(command: &[String], port: u16, folder: &TempDir) -> SupervisedProcess {
    let log = folder.path().join("log");
    let mut supervisor = Command::new("sh");
    supervisor.args(["-c", SUPERVISOR_SCRIPT, "supervisor"]).arg(&log).args(command);
    let mut supervisor = supervisor.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the shell starts");
    let mut line = String::new();
    let stdout = supervisor.stdout.take().expect("stdout is piped");
    BufReader::new(stdout).read_line(&mut line).expect("the shell answers");
    let id = line.trim().parse().expect("the shell prints the process id");
    let process = SupervisedProcess { pipe: supervisor.stdin.take(), supervisor, id };
    poll_until_found(|| K::is_ready(port).then_some(())).unwrap_or_else(|| {
        panic!("timed out waiting for {}; its log: {}", K::NAME, fs::read_to_string(log).unwrap_or_default())
    });
    process
}

impl SupervisedProcess {
    fn kill(&mut self) {
        self.pipe = None;
        self.supervisor.wait().expect("the shell ends");
    }

    fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([&format!("-{name}"), &self.id.to_string()]).status();
        assert!(sent.expect("kill runs").success(), "process {} cannot be sent SIG{name}", self.id);
    }
}

impl Drop for SupervisedProcess {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Returns a port that no process listens on.
///
/// # Panics
/// Panics if there is none.
#[must_use]
pub fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port is free").port()
}

/// Calls `probe` until it returns a value.
///
/// # Panics
/// Panics if that takes longer than a minute.
pub fn wait_for<T>(what: &str, probe: impl FnMut() -> Option<T>) -> T {
    poll_until_found(probe).unwrap_or_else(|| panic!("timed out waiting for {what}"))
}

pub(crate) fn temporary_folder() -> TempDir {
    tempfile::Builder::new().prefix("tollgate-").tempdir().expect("the temporary folder can be written")
}

fn poll_until_found<T>(mut probe: impl FnMut() -> Option<T>) -> Option<T> {
    let waited = Stopwatch::start();
    while waited.elapsed() < START_TIMEOUT {
        if let Some(found) = probe() {
            return Some(found);
        }
        std::thread::sleep(PROBE_PAUSE);
    }
    None
}
