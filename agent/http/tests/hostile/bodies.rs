//! Bodies that are no call: not JSON, of another form, too long, or with fields out of their range.

use crate::exchange::{HostileRequest, Sending};

/// Longest body that is read and discarded.
const DISCARDED: usize = 1 << 20;

pub(crate) fn requests() -> Vec<HostileRequest> {
    let check = |name, body: &str, status| HostileRequest::post(name, "/check", body, status);
    let call =
        |name, rest: &str, status| check(name, &format!(r#"{{"descriptors": {{"api_key": "k1"}}{rest}}}"#), status);
    let descriptors = |name, text: &str| check(name, &format!(r#"{{"descriptors": {{{text}}}}}"#), 400);
    let many = |len: usize| (0..len).map(|number| format!(r#""d{number}": "v""#)).collect::<Vec<_>>().join(", ");
    vec![
        check("an empty body", "", 400),
        check("a body of spaces", &" ".repeat(60_000), 400),
        check("half of a JSON text", r#"{"descriptors": {"api_key""#, 400),
        check("a JSON text of another form", "[1, 2]", 400),
        check("a mark of the order of bytes", "\u{feff}{\"descriptors\": {\"api_key\": \"k1\"}}", 400),
        HostileRequest::post(
            "a body that is no UTF-8",
            "/check",
            b"{\"descriptors\": {\"api_key\": \"\xff\xfe\"}}",
            400,
        ),
        HostileRequest::post("half of a surrogate pair", "/check", br#"{"descriptors": {"api_key": "\ud800"}}"#, 400),
        check("30,000 nested lists", &"[".repeat(30_000), 400),
        check("10,000 nested objects", &r#"{"descriptors":"#.repeat(4_000), 400),
        call("two calls", r#"} {"descriptors": {}"#, 400),
        call("descriptors twice", r#", "descriptors": {}"#, 400),
        call("a field of another path", r#", "units": 5"#, 400),
        call("a negative cost", r#", "cost": -1"#, 400),
        call("a cost past 2^53", r#", "cost": 9007199254740993"#, 400),
        call("a cost of 2^64 - 1", r#", "cost": 18446744073709551615"#, 400),
        call("a cost past all numbers", r#", "cost": 1e999"#, 400),
        call("a cost of 50,000 digits", &format!(r#", "cost": {}"#, "9".repeat(50_000)), 400),
        call("a cost above the quota", r#", "cost": 9007199254740992"#, 403),
        call("a call without a cost", r#", "cost": 0"#, 200),
        call("an empty id", r#", "id": """#, 400),
        call("a long id", &format!(r#", "id": "{}""#, "i".repeat(60_000)), 400),
        descriptors("a descriptor without a name", r#""": "k1""#),
        descriptors("a descriptor with a long name", &format!(r#""{}": "k1""#, "n".repeat(60_000))),
        descriptors("a descriptor that is null", r#""api_key": null"#),
        descriptors("a descriptor that is an object", r#""api_key": {"api_key": "k1"}"#),
        descriptors("a descriptor twice", r#""api_key": "k1", "api_key": "k2""#),
        descriptors("33 descriptors", &many(33)),
        descriptors("4,000 descriptors", &many(4_000)),
        HostileRequest::post("10,000 descriptors", "/check", format!("{{\"descriptors\": {{{}}}}}", many(10_000)), 413),
        descriptors("a value of 60,000 bytes", &format!(r#""api_key": "{}""#, "v".repeat(60_000))),
        HostileRequest::post("a value of 1 MB", "/check", vec![b'v'; DISCARDED], 413),
        HostileRequest::post("more than what is discarded", "/check", vec![b'v'; DISCARDED + 1], 413),
        HostileRequest::post("a long body that nobody reads", "/nowhere", vec![b'v'; 100_000], 404),
        HostileRequest::post("a body that is shorter than its length", "/check", "{\"descriptors\": {}}", 400)
            .shortened()
            .sent(Sending::Ended),
        HostileRequest::post("a body that never ends", "/check", "{\"descriptors\": {}}", 408).shortened().slow(),
        HostileRequest::post("a body byte by byte", "/check", "{\"descriptors\": {}}", 408)
            .sent(Sending::Dripping(19))
            .slow(),
    ]
}
