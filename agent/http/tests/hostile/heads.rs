//! Broken and hostile heads: request lines, headers, framing, paths and queries.

use crate::exchange::{HostileRequest, Sending};

/// Longer than the default cap on the headers of a request.
const LONG: usize = 70_000;

pub(crate) fn requests() -> Vec<HostileRequest> {
    let (long, many) = ("a".repeat(LONG), "x: y\r\n".repeat(1_000));
    let get = |name, rest: &str, status| {
        HostileRequest::new(name, format!("GET /check HTTP/1.1\r\nhost: t\r\n{rest}"), status)
    };
    let line = |name, line: &str, status| HostileRequest::new(name, format!("{line}\r\nhost: t\r\n\r\n"), status);
    let framed = |name, framing: &str, body: &str, status| {
        let text = format!("POST /check HTTP/1.1\r\nhost: t\r\n{framing}\r\n\r\n{body}");
        HostileRequest::new(name, text, status)
    };
    let call = r#"{"descriptors": {"api_key": "k1"}}"#;
    vec![
        line("control characters", "\x00\x01\x02\x03", 400),
        line("no path", "GET", 400),
        line("no version", "GET /check", 400),
        line("an unknown version", "GET /check HTTP/9.9", 400),
        line("a method with a sign that none has", "G@T /check HTTP/1.1", 400),
        line("a method in lower case", "get /check HTTP/1.1", 405),
        line("a path with a space", "GET /check /settle HTTP/1.1", 400),
        line("a path with a control character", "GET /che\x01ck HTTP/1.1", 400),
        line("a tunnel", "CONNECT evil.example:80 HTTP/1.1", 404),
        line("options of the server", "OPTIONS * HTTP/1.1", 404),
        line("a trace", "TRACE /check HTTP/1.1", 405),
        line("the deletion of a check", "DELETE /check HTTP/1.1", 405),
        line("a proxied URL", "GET http://evil.example/settle HTTP/1.1", 405),
        line("an unknown path", "GET /chekc HTTP/1.1", 404),
        line("an escaped path", "GET /%63heck/../settle%00 HTTP/1.1", 404),
        line("an unknown status of denials", "GET /check?deny=200 HTTP/1.1", 400),
        line("an unknown wait", "GET /check?wait=999999 HTTP/1.1", 400),
        HostileRequest::new("a preface of HTTP/2 that breaks off", "PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n", 400),
        line("a long path", &format!("GET /{long} HTTP/1.1"), 431),
        HostileRequest::new("a long first line without an end", long.clone(), 431),
        get("a long header", &format!("x: {long}\r\n\r\n"), 431),
        get("a thousand headers", &format!("{many}\r\n"), 431),
        get("headers without an end", &many.repeat(20), 431),
        get("a header without a colon", "bad header\r\n\r\n", 400),
        get("a header without a name", ": x\r\n\r\n", 400),
        get("a space in the name of a header", "a b: x\r\n\r\n", 400),
        get("a space before the colon", "content-length : 5\r\n\r\n", 400),
        get("a folded header", "x: a\r\n b\r\n\r\n", 400),
        get("a zero byte in a header", "x: \0\r\n\r\n", 400),
        get("paths that contradict each other", "x-forwarded-uri: /a\r\nx-original-uri: /b\r\n\r\n", 400),
        HostileRequest::new("a forwarded path in bytes", b"GET /check HTTP/1.1\r\nx-forwarded-uri: /\xff\r\n\r\n", 200),
        get("a forwarded path that is none", "x-forwarded-uri: evil\r\n\r\n", 400),
        framed("two lengths", "content-length: 34\r\ncontent-length: 3", call, 400),
        framed("a list of two lengths", "content-length: 34, 3", call, 400),
        framed("a length with a sign", "content-length: +34", call, 400),
        framed("a negative length", "content-length: -1", call, 400),
        framed("a length in letters", "content-length: 0x22", call, 400),
        framed("a length past 64 bits", "content-length: 99999999999999999999", call, 400),
        framed("a length of 64 bits", "content-length: 18446744073709551615", call, 431),
        framed("a length of 10 GB", "content-length: 10000000000", call, 413),
        framed("an expected length of 10 GB", "content-length: 10000000000\r\nexpect: 100-continue", "", 413),
        framed("an unknown encoding", "transfer-encoding: cow", call, 400),
        framed("chunks that are not the last encoding", "transfer-encoding: chunked, gzip", call, 400),
        HostileRequest::new(
            "chunks in HTTP/1.0",
            format!("POST /check HTTP/1.0\r\ntransfer-encoding: chunked\r\n\r\n22\r\n{call}\r\n0\r\n\r\n"),
            400,
        ),
        framed("a chunk without a length", "transfer-encoding: chunked", "zz\r\n", 400),
        framed("a chunk past 64 bits", "transfer-encoding: chunked", "fffffffffffffffff\r\n", 400),
        framed(
            "a chunk that is longer than its length",
            "transfer-encoding: chunked",
            &format!("2\r\n{call}\r\n0\r\n\r\n"),
            400,
        ),
        framed(
            "an extension of a chunk without an end",
            "transfer-encoding: chunked",
            &format!("1;{}", "a".repeat(LONG)),
            400,
        ),
        framed("chunks that break off", "transfer-encoding: chunked", "5\r\n{\"de", 400).sent(Sending::Ended),
        framed("trailers without an end", "transfer-encoding: chunked", &format!("0\r\n{}", many.repeat(20)), 400),
    ]
}
