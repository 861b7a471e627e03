//! Addresses of an agent, the token of its operators, and its cap on connections.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::process::{Child, Command};

use crate::support::{Up, file, finish, tollgate, wait_for};

/// Client in Python, with its standard library only: asks twice over a Unix socket, and prints both statuses.
const PYTHON_CLIENT: &str = r#"
import http.client, json, socket, sys

class Connection(http.client.HTTPConnection):
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(sys.argv[1])

connection = Connection("localhost")
for _ in range(2):
    connection.request("POST", "/check", json.dumps({"descriptors": {"api_key": "k1"}}))
    response = connection.getresponse()
    response.read()
    print(response.status)
"#;

/// Process that is killed on drop.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// P3: a program in another language asks over a Unix socket. So do `ready`, `check` and the printed command.
#[test]
fn a_python_program_asks_over_a_unix_socket() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tollgate.sock");
    let address = format!("unix:{}", path.display());
    let mut up = tollgate(&["up", "--limit", "1/h per api_key", "--http", &address]).spawn().unwrap();
    let mut lines = BufReader::new(up.stdout.take().unwrap()).lines().map_while(Result::ok);
    let mut up = Killed(up);
    assert_eq!(lines.next().unwrap(), format!("listening on {address}"));
    let printed = lines.next().unwrap();
    let curl = printed.strip_prefix("try: ").unwrap_or_else(|| panic!("{printed}"));
    let curl = Command::new("sh").args(["-c", curl]).output().unwrap();
    assert!(String::from_utf8_lossy(&curl.stdout).starts_with("HTTP/1.1 200"), "{printed}: {curl:?}");
    let asked = Command::new("python3").args(["-c", PYTHON_CLIENT]).arg(&path).output().expect("python3 is installed");
    // The printed command has taken the quota of the caller that it names, which is the same.
    assert_eq!(String::from_utf8_lossy(&asked.stdout), "429\n429\n", "{asked:?}");
    let ready = finish(&mut tollgate(&["ready", "--http", &address]));
    assert_eq!((ready.exit, &*ready.out), (0, "ready\n"), "{}", ready.err);
    let check = finish(&mut tollgate(&["check", "api_key=k2", "--agent", &address]));
    assert_eq!(check.exit, 0, "{} {}", check.out, check.err);
    let second = finish(&mut tollgate(&["up", "--http", &address]));
    assert_eq!(second.exit, 1);
    assert!(second.err.contains(&format!("{address} exists; stop the process that listens there")), "{}", second.err);
    let _ = Command::new("kill").args(["-TERM", &up.0.id().to_string()]).status();
    assert!(up.0.wait().unwrap().success());
    assert!(!path.exists());
    let gone = finish(&mut tollgate(&["check", "api_key=k2", "--agent", &address]));
    assert!(gone.exit == 4 && gone.err.contains(&address), "{}", gone.err);
}

/// H6: an agent with a socket of its own for operators tells what a caller has left, if the command knows both sockets. Each wrong
/// choice is told with the flag to add.
#[test]
fn an_agent_with_a_socket_for_operators_is_asked_at_both() {
    let folder = tempfile::tempdir().unwrap();
    let [http, admin] = ["http", "admin"].map(|name| format!("unix:{}", folder.path().join(name).display()));
    let mut up = tollgate(&["up", "--limit", "5/h per api_key", "--http", &http, "--admin", &admin]).spawn().unwrap();
    let mut lines = BufReader::new(up.stdout.take().unwrap()).lines().map_while(Result::ok);
    let _up = Killed(up);
    assert_eq!(lines.next().unwrap(), format!("listening on {http}"));
    let ask = |command: &[&str], flags: &[&str]| finish(tollgate(command).args(flags));
    let (quota, show) = (["quota", "api_key=k1", "--format", "json"], ["rules", "show", "api_key=k1"]);
    let told = ask(&quota, &["--agent", &http, "--admin", &admin]);
    assert!(told.exit == 0 && told.out.contains(r#""left":5"#), "{} {}", told.out, told.err);
    let told = ask(&show, &["--agent", &admin]);
    assert!(told.exit == 0 && told.out.contains("per-api_key"), "{} {}", told.out, told.err);
    let of_operators = "the paths of operators are on the address of --admin; name that one with";
    let of_gateways = "the paths of gateways are on the address of --http; name that one with --agent";
    for (command, flags, remedy) in [
        (&quota[..], &["--agent", &*http][..], format!("{of_operators} --admin")),
        (&quota, &["--agent", &http, "--admin", &http], format!("{of_operators} --admin")),
        (&quota, &["--agent", &admin], format!("{of_gateways}, and this one with --admin")),
        (&quota, &["--agent", &admin, "--admin", &admin], format!("{of_gateways}, and this one with --admin")),
        (&show, &["--agent", &http], format!("{of_operators} --agent")),
        (&["check", "api_key=k1"], &["--agent", &admin], of_gateways.to_owned()),
    ] {
        let refused = ask(command, flags);
        assert_eq!((refused.exit, &*refused.out), (1, ""), "{command:?} {flags:?}");
        assert!(refused.err.contains("404 Not Found") && refused.err.contains(&remedy), "{flags:?}: {}", refused.err);
    }
    let gone = format!("{admin}.gone");
    let silent = ask(&quota, &["--agent", &http, "--admin", &gone]);
    assert!(silent.exit == 4 && silent.err.contains(&gone) && silent.err.contains("--admin"), "{}", silent.err);
}

/// I8: a socket that cannot be, a token that cannot be, and several regions on one socket are errors with a remedy.
#[test]
fn addresses_and_tokens_that_cannot_be_are_told_with_a_remedy() {
    let token = file("listen/short.token", "short\n").display().to_string();
    for (flags, exit, reason) in [
        (["--http", "unix:"], 2, "such as unix:/run/tollgate.sock"),
        (["--http", "unix:/no/such/folder/a.sock"], 1, "there is no such folder; create it"),
        (["--token-file", &token], 2, "make one with `openssl rand -hex 16`"),
        (["--token-file", "/no/such/token"], 2, "/no/such/token"),
        (["--connections-max", "0"], 2, "write a whole number from 1"),
        (["--idle-timeout", "0s"], 2, "write a duration"),
        (["--header-bytes-max", "100"], 2, "8192..=1048576"),
        (["--body-bytes-max", "0"], 2, "1024..=16777216"),
    ] {
        let refused = finish(tollgate(&["up"]).args(flags));
        assert!(refused.exit == exit && refused.err.contains(reason), "{flags:?}: {} {}", refused.exit, refused.err);
    }
    let refused = finish(&mut tollgate(&["up", "--regions", "2", "--http", "unix:/tmp/regions.sock"]));
    assert!(refused.exit == 2 && refused.err.contains("several regions need a port each"), "{}", refused.err);
}

/// At the cap, a client that connects and sends nothing does not keep others out, and the log names the flag.
#[test]
fn connections_past_the_cap_are_refused_and_told() {
    let mut up = Up::start(&["--connections-max", "2", "--header-timeout", "1h"]);
    let mut busy = up.client();
    let _silent = TcpStream::connect(up.address).unwrap();
    assert_eq!(busy.check("k1").status, 200);
    let mut refused = TcpStream::connect(up.address).unwrap();
    let warning = up.log().find(|line| line.contains("cap on connections")).unwrap();
    assert!(warning.contains("WARN") && warning.contains("--connections-max"), "{warning}");
    let _ = refused.write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n");
    let mut answer = String::new();
    let read = BufReader::new(refused).read_line(&mut answer);
    assert!(read.is_err() || answer.is_empty(), "{answer}");
    assert_eq!(busy.check("k1").status, 200);
}

/// Headers and bodies past their caps are refused with the cap, and nothing is counted.
#[test]
fn long_headers_and_bodies_are_refused() {
    let up = Up::start(&["--limit", "2/h per api_key", "--header-bytes-max", "8192", "--body-bytes-max", "1024"]);
    let long = "x".repeat(9_000);
    assert_eq!(up.client().get("/check", &[("x-api-key", "k1"), ("x-long", &long)]).status, 431);
    let mut client = up.client();
    let refused = client.post(&format!(r#"{{"descriptors": {{"api_key": "k1", "long": "{}"}}}}"#, &long[..1_000]));
    assert!(refused.status == 413 && refused.text().contains("longer than 1024 bytes"), "{}", refused.text());
    assert_eq!(client.check("k1").header("x-ratelimit-remaining"), "1");
    let usual = Up::start(&[]);
    assert_eq!(usual.client().get("/check", &[("x-api-key", "k1"), ("x-long", &long)]).status, 200);
}

/// A new token is valid once its file has it, and the old one no longer. A file that is no token changes nothing.
#[test]
fn the_token_of_operators_is_reloaded() {
    let (old, new) = ("old-token-of-operators", "new-token-of-operators");
    let path = file("listen/reloaded.token", old);
    let mut up = Up::start(&["--token-file", &path.display().to_string()]);
    // A request that a proxy passes on needs the token.
    let status = |token: &str| {
        let bearer = format!("Bearer {token}");
        let mut client = up.client();
        client.send("POST", "/emergency", &[("authorization", &bearer), ("x-forwarded-for", "192.0.2.1")], "{}");
        client.receive().status
    };
    assert_eq!((status(old), status(new)), (400, 403));
    file("listen/reloaded.token", new);
    wait_for("the new token", || (status(new) == 400).then_some(()));
    assert_eq!(status(old), 403);
    file("listen/reloaded.token", "short");
    let told = up.log().find(|line| line.contains("the present one stays valid")).unwrap();
    assert!(told.contains("ERROR") && told.contains("openssl rand"), "{told}");
    let bearer = format!("Bearer {new}");
    let mut client = up.client();
    client.send("POST", "/emergency", &[("authorization", &bearer), ("x-forwarded-for", "192.0.2.1")], "{}");
    assert_eq!(client.receive().status, 400);
}
