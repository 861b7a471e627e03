//! Support for the tests: runs the binary, and sends requests to a running one over plain sockets.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::time::Duration;

use serde_json::Value;
use tollgate_core::clock::Stopwatch;

pub(crate) use tollgate_servers::{Finished, finish};

/// Time after which a test gives up.
const PATIENCE: Duration = Duration::from_mins(2);
const GLANCE: Duration = Duration::from_millis(10);

/// Running `tollgate up`, killed on drop.
pub(crate) struct Up {
    child: Child,
    out: BufReader<ChildStdout>,
    pub(crate) address: SocketAddr,
}

/// Persistent connection.
pub(crate) struct Client(BufReader<TcpStream>);

pub(crate) struct Answer {
    pub(crate) status: u16,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

/// Returns the binary with these arguments and an empty environment.
pub(crate) fn tollgate(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tollgate"));
    command.args(args).env_clear().stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Writes a file for one test, atomically.
pub(crate) fn file(name: &str, content: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let draft = path.with_extension("draft");
    std::fs::write(&draft, content).unwrap();
    std::fs::rename(&draft, &path).unwrap();
    path
}

/// Polls until there is a value.
pub(crate) fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let waited = Stopwatch::start();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(waited.elapsed() < PATIENCE, "still waiting for {what}");
        std::thread::sleep(GLANCE);
    }
}

impl Up {
    pub(crate) fn start(args: &[&str]) -> Self {
        Self::of(tollgate(&["up", "--http", "127.0.0.1:0", "--node", "gw-1"]).args(args))
    }

    pub(crate) fn of(command: &mut Command) -> Self {
        let mut child = command.spawn().expect("the binary runs");
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        let as_json = || line.strip_prefix("{\"listening\":\"")?.trim_end().strip_suffix("\"}");
        let url = line.strip_prefix("listening on ").or_else(as_json);
        let Some(address) = url.and_then(|url| url.strip_prefix("http://").or(url.strip_prefix("https://"))) else {
            let _ = child.kill();
            let output = child.wait_with_output().unwrap();
            panic!("it said {line:?}: {}", String::from_utf8_lossy(&output.stderr));
        };
        let address = address.trim().parse().unwrap();
        Self { child, out, address }
    }

    /// Returns the next line of standard output.
    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        self.out.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// Returns the lines of standard error as they come, to be read once.
    pub(crate) fn log(&mut self) -> impl Iterator<Item = String> + use<> {
        BufReader::new(self.child.stderr.take().unwrap()).lines().map_while(Result::ok)
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn client(&self) -> Client {
        Client::connect(self.address).expect("it listens")
    }

    /// Waits until the process accepts no connection any more.
    pub(crate) fn wait_until_closed(&self) {
        wait_for("the end of listening", || TcpStream::connect(self.address).is_err().then_some(()));
    }

    pub(crate) fn signal(&self, name: &str) {
        let kill = format!("kill -{name} {}", self.child.id());
        let sent = Command::new("sh").args(["-c", &kill]).status().unwrap();
        assert!(sent.success());
    }

    /// Waits for the end of the process. Returns its status and standard error.
    pub(crate) fn end(mut self) -> (ExitStatus, String) {
        let mut err = String::new();
        let mut stderr = self.child.stderr.take().unwrap();
        stderr.read_to_string(&mut err).unwrap();
        (self.child.wait().unwrap(), err)
    }
}

impl Drop for Up {
    /// Ends the process. If a test fails and the process had ended by itself, its end is printed.
    fn drop(&mut self) {
        if std::thread::panicking()
            && let Ok(Some(status)) = self.child.try_wait()
        {
            let mut log = String::new();
            let _ = self.child.stderr.take().map(|mut stderr| stderr.read_to_string(&mut log));
            eprintln!("the process at {} had ended, {status}: {log}", self.address);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Client {
    /// Connects to an address, if a process listens there.
    pub(crate) fn connect(address: SocketAddr) -> Option<Self> {
        let tcp = TcpStream::connect(address).ok()?;
        tcp.set_read_timeout(Some(PATIENCE)).ok()?;
        tcp.set_nodelay(true).ok()?;
        Some(Self(BufReader::new(tcp)))
    }

    /// Returns the connection with a shorter time after which the test gives up.
    pub(crate) fn give_up_after(self, patience: Duration) -> Self {
        self.0.get_ref().set_read_timeout(Some(patience)).unwrap();
        self
    }

    /// Asks for one unit of this key. Returns `None` if the connection breaks.
    pub(crate) fn try_check(&mut self, key: &str) -> Option<Answer> {
        let text = format!("GET /check HTTP/1.1\r\nhost: tollgate\r\nx-api-key: {key}\r\n\r\n");
        self.0.get_mut().write_all(text.as_bytes()).ok()?;
        self.try_receive()
    }

    pub(crate) fn get(&mut self, path: &str, headers: &[(&str, &str)]) -> Answer {
        self.send("GET", path, headers, "");
        self.receive()
    }

    pub(crate) fn post(&mut self, body: &str) -> Answer {
        self.send("POST", "/check", &[], body);
        self.receive()
    }

    /// Asks for one unit of this key.
    pub(crate) fn check(&mut self, key: &str) -> Answer {
        self.try_check(key).expect("an answer, not the end of the connection")
    }

    pub(crate) fn send(&mut self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) {
        let mut text = format!("{method} {path} HTTP/1.1\r\nhost: tollgate\r\n");
        for (name, value) in headers {
            text.extend([name, ": ", value, "\r\n"]);
        }
        self.write(&format!("{text}content-length: {}\r\n\r\n{body}", body.len()));
    }

    pub(crate) fn write(&mut self, text: &str) {
        self.0.get_mut().write_all(text.as_bytes()).unwrap();
    }

    pub(crate) fn receive(&mut self) -> Answer {
        self.try_receive().expect("an answer, not the end of the connection")
    }

    /// Waits until the process ends the connection. Returns false if it sends anything.
    pub(crate) fn is_ended(&mut self) -> bool {
        match self.0.read(&mut [0]) {
            Ok(len) => len == 0,
            Err(error) => error.kind() == ErrorKind::ConnectionReset,
        }
    }

    fn try_receive(&mut self) -> Option<Answer> {
        let mut head = Vec::new();
        loop {
            let mut line = String::new();
            self.0.read_line(&mut line).ok().filter(|len| *len > 0)?;
            match line.trim_end() {
                "" => break,
                line => head.push(line.to_owned()),
            }
        }
        let status = head[0].split(' ').nth(1).unwrap().parse().unwrap();
        let headers = head[1..].iter().map(|line| line.split_once(": ").unwrap());
        let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        let mut answer = Answer { status, headers, body: Vec::new() };
        let len = answer.find("content-length").map_or(0, |len| len.parse().unwrap());
        answer.body.resize(len, 0);
        self.0.read_exact(&mut answer.body).ok()?;
        Some(answer)
    }
}

impl Answer {
    pub(crate) fn find(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| &**value)
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.find(name).unwrap_or_else(|| panic!("no {name}"))
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).expect("a JSON body")
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }
}

/// Returns an output without the blanks at the ends of its lines.
pub(crate) fn lines(out: &str) -> String {
    out.lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
}
