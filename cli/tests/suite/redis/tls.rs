//! TLS to Redis: certificates of servers and clients, their faults, and their replacement while an agent runs.

use rcgen::{CertificateParams, date_time_ymd};
use tollgate_servers::{Certificates, Redis, free_port};

use super::{Log, agent, wait_for_store};
use crate::support::{Up, finish, tollgate};

/// Redis with a plain port, and a port with TLS that has the certificate `server`.
struct TlsRedis {
    redis: Redis,
    port: u16,
}

impl TlsRedis {
    fn start(certificates: &Certificates, asks_clients: &str) -> Self {
        let port = free_port();
        let [cert, key, ca] = ["server.pem", "server.key", "ca.pem"].map(|name| certificates.text(name));
        let settings = [
            ["--tls-port", &port.to_string()],
            ["--tls-cert-file", &cert],
            ["--tls-key-file", &key],
            ["--tls-ca-cert-file", &ca],
            ["--tls-auth-clients", asks_clients],
        ];
        Self { redis: Redis::start_with(&settings.concat()), port }
    }

    fn url(&self) -> String {
        format!("rediss://127.0.0.1:{}", self.port)
    }

    /// Uses other files from now on, as an operator does who renews the certificate of the server.
    fn renew(&self, certificates: &Certificates, name: &str) {
        let files = format!(
            "tls-cert-file {} tls-key-file {}",
            certificates.text(&format!("{name}.pem")),
            certificates.text(&format!("{name}.key"))
        );
        assert_eq!(self.redis.command(&format!("CONFIG SET {files}")), "+OK");
    }
}

fn for_name(name: &str) -> impl FnOnce(&mut CertificateParams) {
    let names = CertificateParams::new([name.to_owned()]).expect("a name").subject_alt_names;
    move |params| params.subject_alt_names = names
}

/// D7, N8: counters over TLS, by address and by name, and without the help of --redis-ca if the machine trusts the issuer.
#[test]
fn agents_count_over_tls() {
    let certificates = Certificates::of("own");
    let server = TlsRedis::start(&certificates, "no");
    let ca = certificates.text("ca.pem");
    wait_for_store(&agent(&server.url(), &["--redis-ca", &ca]));
    wait_for_store(&agent(&format!("rediss://localhost:{}", server.port), &["--redis-ca", &ca]));
    let args = ["agent", "--http", "127.0.0.1:0", "--limit", "9/h per api_key", "--redis", &server.url()];
    let trusting = Up::of(tollgate(&args).env("SSL_CERT_FILE", &ca));
    wait_for_store(&trusting);
    assert!(server.redis.scripts_run() > 0);
}

/// The issuers are read again for each attempt, so a corrected file is used without a restart.
#[test]
fn an_unknown_issuer_is_named_until_the_file_of_issuers_is_corrected() {
    let (certificates, other) = (Certificates::of("own"), Certificates::of("other"));
    let server = TlsRedis::start(&certificates, "no");
    let mut agent = agent(&server.url(), &["--redis-ca", &other.text("ca.pem")]);
    let told = Log::of(&mut agent).line("UnknownIssuer");
    assert!(told.contains(&server.url()) && told.contains("--redis-ca FILE"), "{told}");
    other.write("ca.pem", &certificates.issuer_pem());
    wait_for_store(&agent);
}

#[test]
fn a_certificate_that_has_ended_or_is_for_another_name_is_named_until_it_is_renewed() {
    let certificates = Certificates::of("own");
    certificates.issue("renewed", 2100);
    certificates.issue_with("old", |params| params.not_after = date_time_ymd(2020, 1, 1));
    certificates.issue_with("elsewhere", for_name("redis.example"));
    let server = TlsRedis::start(&certificates, "no");
    let ca = certificates.text("ca.pem");
    for (name, fault, remedy) in [
        ("old", "certificate expired", "renew the certificate of the server"),
        ("elsewhere", "redis.example", "connect by a name or an address that the certificate of the server has"),
    ] {
        server.renew(&certificates, name);
        let mut agent = agent(&server.url(), &["--redis-ca", &ca]);
        let told = Log::of(&mut agent).line(fault);
        assert!(told.contains(&server.url()) && told.contains(remedy), "{told}");
        server.renew(&certificates, "renewed");
        wait_for_store(&agent);
    }
}

#[test]
fn a_server_that_asks_for_a_certificate_gets_one() {
    let certificates = Certificates::of("own");
    certificates.issue("client", 2100);
    let server = TlsRedis::start(&certificates, "yes");
    let [ca, cert, key] = ["ca.pem", "client.pem", "client.key"].map(|name| certificates.text(name));
    let mut without = agent(&server.url(), &["--redis-ca", &ca]);
    let told = Log::of(&mut without).line("--redis-cert FILE and --redis-key FILE");
    assert!(told.contains(&server.url()), "{told}");
    let mut with = agent(&server.url(), &["--redis-ca", &ca, "--redis-cert", &cert, "--redis-key", &key]);
    wait_for_store(&with);
    // A client whose certificate is refused by its issuer.
    let other = Certificates::of("other");
    other.issue("client", 2100);
    let [cert, key] = ["client.pem", "client.key"].map(|name| other.text(name));
    let mut refused = agent(&server.url(), &["--redis-ca", &ca, "--redis-cert", &cert, "--redis-key", &key]);
    Log::of(&mut refused).line("give a certificate that the server's issuers have signed");
    certificates.replace("client", "server");
    other.write("client.pem", &std::fs::read_to_string(certificates.path("client.pem")).expect("a file"));
    other.write("client.key", &std::fs::read_to_string(certificates.path("client.key")).expect("a file"));
    wait_for_store(&refused);
    // The other remedy that the line names.
    assert_eq!(server.redis.command("CONFIG SET tls-auth-clients no"), "+OK");
    wait_for_store(&without);
    with.signal("TERM");
    Log::of(&mut with).line("connected to Redis");
}

#[test]
fn a_port_with_tls_and_one_without_are_told_apart() {
    let certificates = Certificates::of("own");
    let server = TlsRedis::start(&certificates, "no");
    let ca = certificates.text("ca.pem");
    let mut plain =
        agent(&server.url().replace(&server.port.to_string(), &server.redis.port().to_string()), &["--redis-ca", &ca]);
    Log::of(&mut plain).line("write redis:// for a port without TLS");
    wait_for_store(&agent(&server.redis.url(), &[]));
    let mut tls = agent(&server.url().replace("rediss", "redis"), &[]);
    Log::of(&mut tls).line("rediss://");
    wait_for_store(&agent(&server.url(), &["--redis-ca", &ca]));
}

#[test]
fn files_that_cannot_be_used_end_the_start() {
    let certificates = Certificates::of("own");
    let [ca, cert, key] = ["ca.pem", "server.pem", "server.key"].map(|name| certificates.text(name));
    certificates.write("empty", "");
    let empty = certificates.text("empty");
    for (url, flags, said) in [
        ("rediss://h", &["--redis-ca", "/none"][..], "/none: No such file"),
        ("rediss://h", &["--redis-ca", &empty], "it has no certificate in PEM"),
        ("rediss://h", &["--redis-ca", &ca, "--redis-cert", &cert], "give both files"),
        (
            "rediss://h",
            &["--redis-ca", &ca, "--redis-cert", &ca, "--redis-key", &key],
            "it is not the key of the certificate",
        ),
        ("redis://h", &["--redis-ca", &ca], "write rediss://"),
    ] {
        let args = ["agent", "--http", "127.0.0.1:0", "--limit", "9/h per api_key", "--redis", url];
        let finished = finish(tollgate(&args).args(flags));
        assert_eq!(finished.exit, 2, "{flags:?}: {}", finished.err);
        assert!(finished.err.contains(said), "{flags:?}: {}", finished.err);
    }
}
