//! End of a certificate, as a process tells it.

use std::net::SocketAddr;
use std::path::Path;

use serde_json::{Value, json};
use tollgate_core::clock::{Clock, SystemClock};

use tollgate_servers::Certificates;

use super::{curl, replace, start};
use crate::support::{Up, tollgate};

const DAY_S: u64 = 24 * 60 * 60;

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

/// P3: a certificate that ends within a week is told in `/healthz`, in a metric, and by one line of the log. Once it has ended, the
/// state is degraded. A renewed one ends the warning.
#[test]
fn the_end_of_a_certificate_is_told_until_it_is_renewed() {
    let certificates = Certificates::of("own");
    let now_s = SystemClock::start().now().as_ms() / 1_000;
    let mut up = start(&certificates, &[]);
    let (state, ends_s) = health(up.address);
    assert_eq!((&state["status"], &state["certificate_warning"], ends_s), (&json!("ok"), &Value::Null, 4_102_444_800));
    let (mut log, mut lines) = (up.log(), Vec::new());
    for (ends_s, told, level, status, problems) in [
        (now_s + 7 * DAY_S / 2, "the certificate ends in 4 days", "WARN", "ok", json!([])),
        (now_s - 3 * DAY_S / 2, "the certificate expired 2 days ago", "WARN", "degraded", json!(["certificate"])),
        (now_s + 90 * DAY_S, "the certificate does not end soon any more", "INFO", "ok", json!([])),
    ] {
        replace(&certificates, ends_s);
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

/// P3: an aggregator tells the end of its certificate, too.
#[test]
fn an_aggregator_tells_the_end_of_its_certificate() {
    let certificates = Certificates::of("own");
    let ends_s = SystemClock::start().now().as_ms() / 1_000 + DAY_S / 2;
    replace(&certificates, ends_s);
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
