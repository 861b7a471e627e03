//! TLS of a running agent: clients with and without certificates, replaced files, and files that cannot be used.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, date_time_ymd};
use serde_json::{Value, json};
use tempfile::TempDir;
use tollgate_core::clock::{Clock, SystemClock};

use crate::support::{Up, finish, tollgate, wait_for};

/// Requests of the client during a reload, each on a connection of its own.
const REQUESTS: usize = 300;
const DAY_S: u64 = 24 * 60 * 60;

/// Folder with certificates of one issuer.
struct Certificates {
    folder: TempDir,
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Certificates {
    fn of(issuer: &str) -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, issuer);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let certificates = Self { folder: tempfile::tempdir().unwrap(), issuer };
        certificates.write("ca.pem", &certificates.issuer.pem());
        certificates.issue("server", 2100);
        certificates
    }

    /// Writes a certificate that ends in this year, and its key.
    fn issue(&self, name: &str, year: i32) {
        self.issue_with(name, |params| params.not_after = date_time_ymd(year, 1, 1));
    }

    /// Writes a certificate of the server that ends at this Unix time, and its key.
    fn replace(&self, ends_s: u64) {
        self.issue_with("next", |params| params.not_after = date_time_ymd(1970, 1, 1) + Duration::from_secs(ends_s));
        for kind in ["key", "pem"] {
            self.write(&format!("server.{kind}"), &fs::read_to_string(self.path(&format!("next.{kind}"))).unwrap());
        }
    }

    fn issue_with(&self, name: &str, change: impl FnOnce(&mut CertificateParams)) {
        let names = ["localhost".to_owned(), "127.0.0.1".to_owned()];
        let mut params = CertificateParams::new(names).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        self.write(&format!("{name}.key"), &key.serialize_pem());
        self.write(&format!("{name}.pem"), &certificate.pem());
    }

    /// Replaces a file at once, as a tool for certificates does.
    fn write(&self, name: &str, text: &str) {
        let draft = self.folder.path().join("draft");
        std::fs::write(&draft, text).unwrap();
        std::fs::rename(draft, self.folder.path().join(name)).unwrap();
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    /// Starts an agent with these certificates, on all addresses of the machine.
    fn up(&self, flags: &[&str]) -> Up {
        let (certificate, key) = (self.text("server.pem"), self.text("server.key"));
        let mut command = tollgate(&["up", "--http", "0.0.0.0:0", "--tls-cert", &certificate, "--tls-key", &key]);
        Up::of(command.args(flags))
    }
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

/// P3: HTTP/1.1 and HTTP/2 over TLS; so do `check` and `ready`. A plain client gets an alert and nothing else.
#[test]
fn an_agent_with_a_certificate_speaks_tls_only() {
    let certificates = Certificates::of("own");
    let up = certificates.up(&["--limit", "1/h per api_key"]);
    let (ca, url) = (certificates.path("ca.pem"), healthz(up.address));
    for (flag, version) in [("--http1.1", "1.1"), ("--http2", "2")] {
        let asked = curl(&ca, &[flag, "-o", "/dev/null", "-w", "%{http_code} %{http_version}", &url]);
        assert_eq!(asked, Ok(format!("200 {version}")));
    }
    let plain = curl(&ca, &[&url.replace("https", "http")]);
    assert!(plain.is_err(), "{plain:?}");
    let address = format!("https://localhost:{}", up.address.port());
    let ca = ca.to_str().unwrap();
    let exits = [0, 3].map(|_| finish(&mut tollgate(&["check", "api_key=k1", "--agent", &address, "--ca", ca])).exit);
    assert_eq!(exits, [0, 3]);
    let ready = finish(&mut tollgate(&["ready", "--http", &address, "--ca", ca]));
    assert_eq!((ready.exit, &*ready.out), (0, "ready\n"), "{}", ready.err);
    let plain = finish(&mut tollgate(&["check", "api_key=k1", "--agent", &address]));
    assert!(plain.exit == 2 && plain.err.contains("add --ca FILE"), "{}", plain.err);
    let other = Certificates::of("other");
    let wrong = finish(&mut tollgate(&["check", "a=1", "--agent", &address, "--ca", &other.text("ca.pem")]));
    assert!(wrong.exit == 4 && wrong.err.contains("UnknownIssuer"), "{} {}", wrong.exit, wrong.err);
}

/// P3: with `--tls-client-ca`, each command that asks a process has a certificate of its own, and tells without one what to add. A
/// process that listens on all addresses is found by its own settings.
#[test]
fn commands_ask_with_a_certificate_of_the_client() {
    let certificates = Certificates::of("own");
    certificates.issue("client", 2100);
    let [ca, cert, key] = ["ca.pem", "client.pem", "client.key"].map(|name| certificates.text(name));
    let up = certificates.up(&["--tls-client-ca", &ca, "--limit", "5/h per api_key"]);
    let url = format!("https://localhost:{}", up.address.port());
    for command in [
        &["ready", "--http", &url][..],
        &["check", "api_key=k1", "--agent", &url],
        &["quota", "api_key=k1", "--agent", &url],
        &["rules", "show", "api_key=k1", "--agent", &url],
        &["top", "--once", "--aggregator", &url],
    ] {
        let asked = finish(tollgate(command).args(["--ca", &ca, "--cert", &cert, "--key", &key]));
        assert_eq!((asked.exit, &*asked.err), (0, ""), "{command:?}");
        let without = finish(tollgate(command).args(["--ca", &ca]));
        assert_eq!((without.exit, &*without.out), (1, ""), "{command:?}: {}", without.err);
        assert!(without.err.contains("add --cert FILE and --key FILE"), "{command:?}: {}", without.err);
        let wrong: [(&[&str], &str); 4] = [
            (&[], "add --ca FILE"),
            (&["--ca", &ca, "--cert", &cert], "add --key FILE"),
            (&["--ca", &ca, "--key", &key], "add --cert FILE"),
            (&["--ca", &ca, "--cert", &cert, "--key", &cert], "client.pem: it has no private key in PEM"),
        ];
        for (flags, told) in wrong {
            let refused = finish(tollgate(command).args(flags));
            assert!(refused.exit == 2 && refused.err.contains(told), "{command:?} {flags:?}: {}", refused.err);
        }
    }
    let plain = finish(&mut tollgate(&["ready", "--http", "127.0.0.1:1", "--cert", &cert, "--key", &key]));
    assert!(plain.exit == 2 && plain.err.contains("--cert is for TLS"), "{}", plain.err);
    let mut ready = tollgate(&["ready"]);
    ready.env("TOLLGATE_HTTP", up.address.to_string()).env("TOLLGATE_CA", &ca);
    let ready = finish(ready.env("TOLLGATE_CERT", &cert).env("TOLLGATE_KEY", &key));
    assert_eq!((ready.exit, &*ready.out, &*ready.err), (0, "ready\n", ""));
}

/// Regions over TLS: each command that is printed works with the issuers of the certificate, and says so without them.
#[test]
fn regions_are_asked_over_tls() {
    let certificates = Certificates::of("own");
    let mut up = certificates.up(&["--regions", "2"]);
    let address = format!("https://localhost:{}", up.address.port());
    let ca = certificates.text("ca.pem");
    let printed = std::iter::from_fn(|| Some(up.line())).find(|line| line.contains("regions cut us"));
    assert!(printed.is_some_and(|line| line.ends_with(" --ca FILE")), "the command lacks the issuers");
    for args in [&["regions"][..], &["regions", "cut", "us"]] {
        let asked = finish(tollgate(args).args(["--aggregator", &address, "--ca", &ca]));
        assert_eq!(asked.exit, 0, "{args:?}: {}", asked.err);
        let plain = finish(tollgate(args).args(["--aggregator", &address]));
        assert!(plain.exit == 2 && plain.err.contains("add --ca FILE"), "{args:?}: {}", plain.err);
    }
}

/// P1: a gRPC client over TLS is answered as over a plain connection.
#[test]
fn grpc_is_over_tls_too() {
    let certificates = Certificates::of("own");
    let mut up = certificates.up(&[]);
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
    let mut up = certificates.up(&["--tls-client-ca", &issuers]);
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
    let mut up = certificates.up(&[]);
    let mut log = up.log();
    let both = newer.path("both.pem");
    newer.write("both.pem", &[certificates.issuer.pem(), newer.issuer.pem()].concat());
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

/// Returns the text at a path of a process, whatever its certificate is.
fn get(address: SocketAddr, path: &str) -> String {
    let url = format!("https://localhost:{}{path}", address.port());
    curl(Path::new("/dev/null"), &["--insecure", &url]).unwrap()
}

/// Returns the state of a process, and the end of its certificate by its metrics.
fn health(address: SocketAddr) -> (Value, u64) {
    let metrics = get(address, "/metrics");
    let line = metrics.lines().find_map(|line| line.strip_prefix("tollgate_certificate_end_timestamp_seconds "));
    (serde_json::from_str(&get(address, "/healthz")).unwrap(), line.unwrap().parse().unwrap())
}

/// P3, K4: a certificate that ends within a week is told in `/healthz`, in a metric, and by one line of the log. Once it has ended, the
/// state is degraded. A renewed one ends the warning.
#[test]
fn the_end_of_a_certificate_is_told_until_it_is_renewed() {
    let certificates = Certificates::of("own");
    let now_s = SystemClock::start().now().as_ms() / 1_000;
    let mut up = certificates.up(&[]);
    let (state, ends_s) = health(up.address);
    assert_eq!((&state["status"], &state["certificate_warning"], ends_s), (&json!("ok"), &Value::Null, 4_102_444_800));
    let (mut log, mut lines) = (up.log(), Vec::new());
    for (ends_s, told, level, status, problems) in [
        (now_s + 7 * DAY_S / 2, "the certificate ends in 4 days", "WARN", "ok", json!([])),
        (now_s - 3 * DAY_S / 2, "the certificate expired 2 days ago", "WARN", "degraded", json!(["certificate"])),
        (now_s + 90 * DAY_S, "the certificate does not end soon any more", "INFO", "ok", json!([])),
    ] {
        certificates.replace(ends_s);
        lines.extend(log.by_ref().take_while(|line| !line.contains("TLS certificates reloaded")));
        let line = log.find(|line| line.contains(told)).expect("a line");
        assert!(line.contains(level), "{line}");
        let (state, of_metric) = health(up.address);
        let parts: Value =
            state["problems"].as_array().unwrap().iter().map(|problem| problem["part"].clone()).collect();
        assert_eq!((of_metric, &state["status"], parts), (ends_s, &json!(status), problems), "{state}");
        let warning = &state["certificate_warning"];
        if level == "INFO" {
            assert_eq!(warning, &Value::Null);
            continue;
        }
        assert!(line.contains("server.pem") && line.contains("renew it"), "{line}");
        assert_eq!(
            (warning["ends_ms"].as_u64(), &warning["file"]),
            (Some(ends_s * 1_000), &json!(certificates.text("server.pem")))
        );
        assert!(warning["why"].as_str().is_some_and(|why| why.contains(told) && why.contains("renew it")), "{warning}");
    }
    up.signal("TERM");
    lines.extend(log);
    let of_ends = ["the certificate ends", "the certificate expired", "does not end soon"];
    let repeated: Vec<_> = lines.iter().filter(|line| of_ends.iter().any(|text| line.contains(text))).collect();
    assert!(repeated.is_empty(), "each change has one line: {repeated:?}");
}

/// P3, K4: an aggregator tells the end of its certificate, too.
#[test]
fn an_aggregator_tells_the_end_of_its_certificate() {
    let certificates = Certificates::of("own");
    let ends_s = SystemClock::start().now().as_ms() / 1_000 + DAY_S / 2;
    certificates.replace(ends_s);
    let (certificate, key) = (certificates.text("server.pem"), certificates.text("server.key"));
    let args = [
        "aggregator",
        "--kafka",
        "127.0.0.1:1",
        "--http",
        "127.0.0.1:0",
        "--tls-cert",
        &certificate,
        "--tls-key",
        &key,
    ];
    let mut aggregator = Up::of(&mut tollgate(&args));
    let line = aggregator.log().find(|line| line.contains("the certificate ends in 1 days")).expect("a line");
    assert!(line.contains("WARN") && line.contains("server.pem"), "{line}");
    let (state, of_metric) = health(aggregator.address);
    assert_eq!(
        (of_metric, state["certificate_warning"]["ends_ms"].as_u64()),
        (ends_s, Some(ends_s * 1_000)),
        "{state}"
    );
    let parts: Vec<_> = state["problems"].as_array().unwrap().iter().map(|problem| &problem["part"]).collect();
    assert_eq!(parts, ["kafka"], "a warning is no failure");
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
