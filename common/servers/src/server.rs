//! One server, which is stopped in any case.
//!
//! A shell supervises the server: when this process ends, for whatever reason, its pipe to the shell is closed and the shell
//! kills the server. No server outlives a killed process.

use std::fs;
use std::io::{self, BufRead, BufReader};
use std::marker::PhantomData;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;
use tollgate_core::clock::Stopwatch;

const START_TIMEOUT: Duration = Duration::from_mins(1);
const PROBE_PAUSE: Duration = Duration::from_millis(10);
/// Lines of a log that an error shows.
const LOG_LINES_MAX: usize = 20;
/// Script of the supervising shell: runs the server in the background, prints its process id, and kills it when the
/// pipe is closed.
const SUPERVISOR_SCRIPT: &str =
    r#"log=$1; shift; "$@" >>"$log" 2>&1 </dev/null & echo $!; read -r _; kill -9 $! 2>/dev/null; wait; exit 0"#;

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

/// Reason why a server does not run.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// A program or a folder is missing; the text has the remedy.
    #[error("{0}")]
    Missing(String),
    /// The server did not answer within a minute.
    #[error("{name} does not answer; the end of its log: {log}")]
    Silent {
        /// Name of the server.
        name: &'static str,
        /// Last lines of its log.
        log: String,
    },
    /// Servers do not work together within a minute.
    #[error("timed out waiting for {0}")]
    Apart(&'static str),
    /// The system refused a file or a process.
    #[error("a server cannot be started or signalled: {0}")]
    Io(#[from] io::Error),
}

impl<K: ServerKind> Server<K> {
    /// Runs a command that starts a server on this port, and waits until the server answers. The command may name files in
    /// the server's own folder.
    ///
    /// # Errors
    /// If it does not answer within a minute.
    pub fn launch(
        port: u16,
        command: impl FnOnce(&Path) -> Result<Vec<String>, ServerError>,
    ) -> Result<Self, ServerError> {
        let folder = tempfile::Builder::new().prefix("tollgate-").tempdir()?;
        let command = command(folder.path())?;
        let process = launch::<K>(&command, port, folder.path())?;
        Ok(Self { port, command, process, folder, kind: PhantomData })
    }

    /// Kills the server with SIGKILL and waits for its end.
    pub fn kill(&mut self) {
        self.process.kill();
    }

    /// Restarts the server on the same port and in the same folder.
    ///
    /// # Panics
    /// Panics if it does not answer within a minute.
    pub fn restart(&mut self) {
        self.try_restart().unwrap_or_else(|error| panic!("{error}"));
    }

    /// Restarts the server on the same port and in the same folder.
    ///
    /// # Errors
    /// If it does not answer within a minute.
    pub fn try_restart(&mut self) -> Result<(), ServerError> {
        self.process = launch::<K>(&self.command, self.port, self.folder.path())?;
        Ok(())
    }

    /// Suspends the process: connections stay open, and requests get no response.
    pub fn pause(&self) {
        self.process.signal("STOP");
    }

    /// Resumes the process, which then handles the requests sent meanwhile.
    pub fn resume(&self) {
        self.process.signal("CONT");
    }

    /// Returns the port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns the server's own folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }
}

/// Refuses to start a server without a program that answers to this argument.
pub(crate) fn require(program: &str, argument: &str, remedy: &str) -> Result<(), ServerError> {
    let runs = Command::new(program).arg(argument).stdin(Stdio::null()).output().is_ok();
    runs.then_some(()).ok_or_else(|| ServerError::Missing(format!("{program} is missing: {remedy}")))
}

fn launch<K: ServerKind>(command: &[String], port: u16, folder: &Path) -> Result<SupervisedProcess, ServerError> {
    let log = folder.join("log");
    let mut supervisor = Command::new("sh");
    supervisor.args(["-c", SUPERVISOR_SCRIPT, "supervisor"]).arg(&log).args(command);
    let mut supervisor = supervisor.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let mut line = String::new();
    let stdout = supervisor.stdout.take().expect("stdout is piped");
    BufReader::new(stdout).read_line(&mut line)?;
    let id = line.trim().parse().expect("the shell prints the process id");
    let process = SupervisedProcess { pipe: supervisor.stdin.take(), supervisor, id };
    let silent = || ServerError::Silent { name: K::NAME, log: end_of(&fs::read_to_string(&log).unwrap_or_default()) };
    poll_until_found(|| K::is_ready(port).then_some(())).ok_or_else(silent)?;
    Ok(process)
}

fn end_of(log: &str) -> String {
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(LOG_LINES_MAX)..].join("\n")
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

/// Calls `probe` until it returns a value.
///
/// # Panics
/// Panics if that takes longer than a minute.
pub fn wait_for<T>(what: &str, probe: impl FnMut() -> Option<T>) -> T {
    poll_until_found(probe).unwrap_or_else(|| panic!("timed out waiting for {what}"))
}

/// Calls `probe` until it returns true.
///
/// # Errors
/// If that takes longer than a minute, or `probe` fails.
pub fn try_wait_for(
    what: &'static str,
    mut probe: impl FnMut() -> Result<bool, ServerError>,
) -> Result<(), ServerError> {
    let found = poll_until_found(|| probe().map(|is_met| is_met.then_some(())).transpose());
    found.unwrap_or(Err(ServerError::Apart(what)))
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
