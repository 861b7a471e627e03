//! Commands that ask a process over TLS.

use tollgate_servers::Certificates;

use super::{curl, healthz, start};
use crate::support::{finish, tollgate};

/// P3: HTTP/1.1 and HTTP/2 over TLS; so do `check` and `ready`. A plain client gets an alert and nothing else.
#[test]
fn an_agent_with_a_certificate_speaks_tls_only() {
    let certificates = Certificates::of("own");
    let up = start(&certificates, &["--limit", "1/h per api_key"]);
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
    let up = start(&certificates, &["--tls-client-ca", &ca, "--limit", "5/h per api_key"]);
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
    let mut up = start(&certificates, &["--regions", "2"]);
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
