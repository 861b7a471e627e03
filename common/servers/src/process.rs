//! A server's process, and its end in any case.
//!
//! A shell holds it: when the test's process ends, however it ends, the pipe to the shell closes and the shell kills the
//! server. So no server outlives a test that was killed.

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tollgate_core::clock::Stopwatch;

/// How long a server may take to be there.
const PATIENCE: Duration = Duration::from_mins(1);
const GLANCE: Duration = Duration::from_millis(10);
/// Runs the server in the background, tells its number, and kills it when the pipe closes.
const HOLD: &str =
    r#"log=$1; shift; "$@" >>"$log" 2>&1 </dev/null & echo $!; read -r _; kill -9 $! 2>/dev/null; exit 0"#;

pub(crate) struct Process {
    holder: Child,
    pipe: Option<ChildStdin>,
    id: u32,
    log: PathBuf,
}

/// A folder of its own, removed in the end.
pub(crate) struct Folder(PathBuf);

impl Process {
    /// Starts a server whose output goes to `log`.
    pub(crate) fn start<S: AsRef<OsStr>>(log: &Path, program: &str, args: impl IntoIterator<Item = S>) -> Self {
        let mut holder = Command::new("sh");
        holder.args(["-c", HOLD, "hold"]).arg(log).arg(program).args(args);
        let mut holder = holder.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("there is a shell");
        let mut line = String::new();
        BufReader::new(holder.stdout.take().expect("a pipe")).read_line(&mut line).expect("the shell answers");
        let id = line.trim().parse().expect("the number of a process");
        Self { pipe: holder.stdin.take(), holder, id, log: log.to_owned() }
    }

    pub(crate) fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([&format!("-{name}"), &self.id.to_string()]).status();
        assert!(sent.expect("there is a kill").success(), "process {} cannot be sent SIG{name}", self.id);
    }

    /// Ends it at once, as a power failure would.
    pub(crate) fn kill(&mut self) {
        self.pipe = None;
        self.holder.wait().expect("the shell ends");
    }

    /// Looks again and again until the server is there; one that is not has said why by then.
    pub(crate) fn wait_until_there<T>(&self, name: &str, look: impl FnMut() -> Option<T>) -> T {
        look_until_found(look).unwrap_or_else(|| panic!("still waiting for {name}, which said {}", self.said()))
    }

    fn said(&self) -> String {
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

/// A port that nobody listens on.
///
/// # Panics
/// Panics if there is none.
#[must_use]
pub fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port is free").port()
}

/// Looks again and again until there is something.
///
/// # Panics
/// Panics if there is nothing for a minute.
pub fn wait_for<T>(what: &str, look: impl FnMut() -> Option<T>) -> T {
    look_until_found(look).unwrap_or_else(|| panic!("still waiting for {what}"))
}

fn look_until_found<T>(mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let waited = Stopwatch::start();
    while waited.elapsed() < PATIENCE {
        if let Some(found) = look() {
            return Some(found);
        }
        std::thread::sleep(GLANCE);
    }
    None
}
