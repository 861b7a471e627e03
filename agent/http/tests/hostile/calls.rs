//! Hostile requests to the other paths: batches, requests in the form of Envoy, and corrections of calls.

use crate::exchange::HostileRequest;

const CALL: &str = r#"{"descriptors": {"api_key": "k1"}}"#;

pub(crate) fn requests() -> Vec<HostileRequest> {
    let batch =
        |name, calls: &str, status| HostileRequest::post(name, "/batch", format!("{{\"calls\": [{calls}]}}"), status);
    let envoy = |name, body: &str| HostileRequest::post(name, "/json", body, 400);
    let entry = r#"{"entries": [{"key": "api_key", "value": "k1"}]}"#;
    let entries = |text: &str| format!(r#"{{"domain": "web", "descriptors": [{text}]}}"#);
    let correction = |name, path, field: &str| {
        HostileRequest::post(name, path, format!(r#"{{"descriptors": {{"api_key": "k1"}}, {field}}}"#), 400)
    };
    let local = |name, path, header: &str| {
        let head = format!("POST {path} HTTP/1.1\r\nhost: t\r\n{header}\r\ncontent-length: 2\r\n\r\n{{}}");
        HostileRequest::new(name, head, 403)
    };
    vec![
        batch("a batch without calls", "", 400),
        batch("a batch of 1,000 calls", &vec![CALL; 1_000].join(","), 400),
        batch("a batch in a batch", r#"{"calls": []}"#, 400),
        batch("a batch with one bad call", &format!("{CALL}, {{}}"), 400),
        batch("a batch of two calls", &format!("{CALL}, {CALL}"), 200).charging(2),
        envoy("a request of Envoy without a domain", &format!(r#"{{"descriptors": [{entry}]}}"#)),
        envoy("a request of Envoy with an empty domain", &format!(r#"{{"domain": "", "descriptors": [{entry}]}}"#)),
        envoy("a request of Envoy without descriptors", &entries("")),
        envoy("a request of Envoy without entries", &entries(r#"{"entries": []}"#)),
        envoy("a request of Envoy with 65 descriptors", &entries(&vec![entry; 65].join(","))),
        envoy(
            "a request of Envoy with 2^64 - 1 hits",
            &entries(&entry.replace("]}", r#"], "hitsAddend": "18446744073709551615"}"#)),
        ),
        envoy("a request of Envoy with negative hits", &entries(&entry.replace("]}", r#"], "hitsAddend": -1}"#))),
        envoy(
            "a request of Envoy that brings a limit",
            &entries(&entry.replace("]}", r#"], "limit": {"requestsPerUnit": 0}}"#)),
        ),
        HostileRequest::post("a request of an unknown domain", "/json", entries(entry), 200).charging(1),
        correction("a settlement of 0 units", "/settle", r#""units": 0"#),
        correction("a settlement of -2^63 units", "/settle", r#""units": -9223372036854775808"#),
        correction("a refund without an id", "/settle", r#""units": -1000"#),
        correction("a refund of an unknown call", "/settle", r#""units": -1000, "id": "a-1""#),
        correction(
            "a refund with a forged id",
            "/settle",
            r#""units": -1000, "id": "gw-1-1-1a2-0-1a2-1-0-ffffffffffffffff""#,
        ),
        correction("a release of an unknown call", "/release", r#""id": "a-1""#),
        HostileRequest::post("a reset without a caller", "/reset", "{}", 400),
        local("a settlement from a page of a browser", "/settle", "origin: http://evil.example"),
        local("a release from a page of a browser", "/release", "origin: null"),
        local("a reset from a page of a browser", "/reset", "origin: http://evil.example"),
        local("an emergency through a proxy", "/emergency", "x-forwarded-for: 127.0.0.1"),
        local("an emergency through another proxy", "/emergency", "forwarded: for=127.0.0.1"),
    ]
}
