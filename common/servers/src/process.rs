//! Process of a server, which is stopped in any case.
//!
//! A shell supervises the server: when the test process ends, for whatever reason, its pipe to the shell is closed and
//! the shell kills the server. No server outlives a killed test.

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tollgate_core::clock::Stopwatch;

/// Maximum time until a server is reachable.
const START_TIMEOUT: Duration = Duration::from_mins(1);
const PROBE_PAUSE: Duration = Duration::from_millis(10);
/// Script of the supervising shell: runs the server in the background, prints its process id, and kills it when the
/// pipe is closed.
const SUPERVISOR_SCRIPT: &str =
    r#"log=$1; shift; "$@" >>"$log" 2>&1 </dev/null & echo $!; read -r _; kill -9 $! 2>/dev/null; exit 0"#;

pub(crate) struct Process {
    supervisor: Child,
    pipe: Option<ChildStdin>,
    id: u32,
    log: PathBuf,
}

/// Temporary folder, removed when dropped.
pub(crate) struct Folder(PathBuf);

impl Process {
    /// Starts a server whose output is written to `log`.
    pub(crate) fn start<S: AsRef<OsStr>>(log: &Path, program: &str, args: impl IntoIterator<Item = S>) -> Self {
        let mut supervisor = Command::new("sh");
        supervisor.args(["-c", SUPERVISOR_SCRIPT, "supervisor"]).arg(log).arg(program).args(args);
        let mut supervisor = supervisor.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the shell starts");
        let mut line = String::new();
        BufReader::new(supervisor.stdout.take().expect("stdout is piped"))
            .read_line(&mut line)
            .expect("the shell answers");
        let id = line.trim().parse().expect("the shell prints the process id");
        Self { pipe: supervisor.stdin.take(), supervisor, id, log: log.to_owned() }
    }

    pub(crate) fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([&format!("-{name}"), &self.id.to_string()]).status();
        assert!(sent.expect("kill runs").success(), "process {} cannot be sent SIG{name}", self.id);
    }

    /// Kills the server with SIGKILL and waits for its end.
    pub(crate) fn kill(&mut self) {
        self.pipe = None;
        self.supervisor.wait().expect("the shell ends");
    }

    /// Calls `probe` until it returns a value.
    ///
    /// # Panics
    /// Panics with the server's log if that takes longer than [`START_TIMEOUT`].
    pub(crate) fn wait_until_ready<T>(&self, name: &str, probe: impl FnMut() -> Option<T>) -> T {
        poll_until_found(probe).unwrap_or_else(|| panic!("timed out waiting for {name}; its log: {}", self.log()))
    }

    fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Folder {
    pub(crate) fn new(what: &str) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("tollgate-{what}-{}-{number}", std::process::id()));
        fs::create_dir_all(&path).expect("the temporary folder can be written");
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
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
