//! TLS of a running agent: clients with and without certificates, replaced files, and files that cannot be used.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use rcgen::date_time_ymd;
use tollgate_servers::Certificates;

use crate::support::{Up, finish, tollgate, wait_for};

mod client_commands;
mod end_of_validity;

/// Requests of the client during a reload, each on a connection of its own.
const REQUESTS: usize = 300;

/// Starts an agent with these certificates, on all addresses of the machine.
fn start(certificates: &Certificates, flags: &[&str]) -> Up {
    let (certificate, key) = (certificates.text("server.pem"), certificates.text("server.key"));
    let mut command = tollgate(&["up", "--http", "0.0.0.0:0", "--tls-cert", &certificate, "--tls-key", &key]);
    Up::of(command.args(flags))
}

/// Replaces the certificate of the server by one that ends at this Unix time.
fn replace(certificates: &Certificates, ends_s: u64) {
    certificates
        .issue_with("next", |params| params.not_after = date_time_ymd(1970, 1, 1) + Duration::from_secs(ends_s));
    certificates.replace("server", "next");
}

/// Runs curl. Returns its output, or its error.
fn curl(ca: &Path, args: &[&str]) -> Result<String, String> {
    let mut command = Command::new("curl");
    let asked = command.args(["-sS", "-m", "60", "--cacert"]).arg(ca).args(args).output();
    let asked = asked.expect("curl is missing; install it: apt-get install curl");
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    if asked.status.success() { Ok(text(asked.stdout)) } else { Err(text(asked.stderr)) }
}

fn healthz(address: SocketAddr) -> String {
    format!("https://localhost:{}/healthz", address.port())
}

/// P1: a gRPC client over TLS is answered as over a plain connection.
#[test]
fn grpc_is_over_tls_too() {
    let certificates = Certificates::of("own");
    let mut up = start(&certificates, &[]);
    let line = up.log().find(|line| line.contains("gRPC")).expect("it logs the address");
    let port = line.rsplit(':').next().unwrap();
    // A message without fields: the health of the whole server. The answer is the status SERVING.
    certificates.write("request", "\0\0\0\0\0");
    let (body, url) =
        (format!("@{}", certificates.text("request")), format!("https://localhost:{port}/grpc.health.v1.Health/Check"));
    let headers = ["-H", "content-type: application/grpc", "-H", "te: trailers"];
    let answer =
        curl(&certificates.path("ca.pem"), &[&headers[..], &["--http2", "--data-binary", &body, &url]].concat());
    assert_eq!(answer, Ok("\0\0\0\0\u{2}\u{8}\u{1}".to_owned()));
}

/// P3: only clients with a valid certificate of the named issuers connect. Others learn the reason by the alert, and the log has one
/// line for all of them. A certificate of a client is no right to settle.
#[test]
fn clients_without_a_valid_certificate_are_refused_with_the_reason() {
    let (certificates, other) = (Certificates::of("own"), Certificates::of("other"));
    certificates.issue("client", 2100);
    certificates.issue("old", 2020);
    other.issue("stranger", 2100);
    let (ca, issuers) = (certificates.path("ca.pem"), certificates.text("ca.pem"));
    let mut up = start(&certificates, &["--tls-client-ca", &issuers]);
    let url = healthz(up.address);
    let ask = |of: &Certificates, name: &str, url: &str| {
        let (certificate, key) = (of.text(&format!("{name}.pem")), of.text(&format!("{name}.key")));
        curl(&ca, &["--cert", &certificate, "--key", &key, "-w", "%{http_code}", "-o", "/dev/null", url])
    };
    for (asked, alert) in [
        (ask(&certificates, "old", &url), "certificate expired"),
        (ask(&other, "stranger", &url), "unknown ca"),
        (curl(&ca, &[&url]), "certificate required"),
    ] {
        assert!(asked.as_ref().is_err_and(|error| error.contains(alert)), "{alert}: {asked:?}");
    }
    assert_eq!(ask(&certificates, "client", &url), Ok("200".to_owned()));
    let log = up.log();
    up.signal("TERM");
    let log: Vec<_> = log.collect();
    let told: Vec<_> = log.iter().filter(|line| line.contains("handshake")).collect();
    assert!(told.len() == 1 && told[0].contains("WARN") && told[0].contains("127.0.0.1"), "{told:?}");
    assert!(!log.iter().any(|line| line.contains("neither TLS")), "client certificates restrict who asks: {log:?}");
}

/// P3: replaced files are used for new connections, and no request fails meanwhile. Broken files change nothing and are told.
#[test]
fn certificates_are_reloaded_under_load_without_a_failed_request() {
    let (certificates, newer) = (Certificates::of("old"), Certificates::of("new"));
    let mut up = start(&certificates, &[]);
    let mut log = up.log();
    let both = newer.path("both.pem");
    newer.write("both.pem", &[certificates.issuer_pem(), newer.issuer_pem()].concat());
    let url = format!("{}?[1-{REQUESTS}]", healthz(up.address));
    let load = std::thread::spawn(move || {
        curl(&both, &["--http1.1", "-H", "connection: close", "-o", "/dev/null", "-w", "%{http_code}\n", &url])
    });
    certificates.write("server.pem", "broken");
    let told = log.find(|line| line.contains("certificates rejected")).expect("the broken file is told");
    assert!(told.contains("server.pem: it has no certificate in PEM"), "{told}");
    for name in ["server.key", "server.pem"] {
        certificates.write(name, &std::fs::read_to_string(newer.path(name)).unwrap());
    }
    log.find(|line| line.contains("certificates reloaded")).expect("the new files are told");
    let url = healthz(up.address);
    wait_for("the new certificate", || curl(&newer.path("ca.pem"), &[&url]).ok());
    assert_eq!(load.join().unwrap(), Ok("200\n".repeat(REQUESTS)));
}

/// I8: files that cannot be used are errors with the file, the reason and a remedy; a certificate that has expired is a warning.
#[test]
fn files_that_cannot_be_used_are_told_with_a_remedy() {
    let certificates = Certificates::of("own");
    certificates.issue("old", 2020);
    let [cert, key, old] = ["server.pem", "server.key", "old.key"].map(|name| certificates.text(name));
    for (flags, reason) in [
        (&["--tls-cert", &*cert][..], "--tls-cert needs the key of the certificate; add --tls-key FILE"),
        (&["--tls-key", &key], "--tls-key needs its certificate; add --tls-cert FILE"),
        (&["--tls-client-ca", &cert], "--tls-client-ca needs a certificate of the server; add --tls-cert FILE"),
        (&["--tls-cert", &cert, "--tls-key", &old], "old.key: it is not the key of the certificate; write both files"),
        (&["--tls-cert", &key, "--tls-key", &key], "server.key: it has no certificate in PEM; it must have"),
        (&["--tls-cert", &cert, "--tls-key", &cert], "server.pem: it has no private key in PEM that is not encrypted;"),
        (&["--tls-cert", "/none.pem", "--tls-key", &key], "/none.pem: No such file or directory (os error 2); check"),
        (
            &["--tls-cert", &cert, "--tls-key", &key, "--tls-client-ca", &key],
            "server.key: it has no certificate in PEM;",
        ),
    ] {
        let refused = finish(tollgate(&["up", "--http", "127.0.0.1:0"]).args(flags));
        assert!(refused.exit == 2 && refused.err.contains(reason), "{flags:?}: {} {}", refused.exit, refused.err);
    }
    let pem = certificates.text("old.pem");
    let mut up = Up::start(&["--tls-cert", &pem, "--tls-key", &old]);
    let warning = up.log().find(|line| line.contains("expired")).expect("it warns");
    assert!(warning.contains("WARN") && warning.contains("old.pem") && warning.contains("renew it"), "{warning}");
}
