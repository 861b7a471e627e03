//! Commands that ask another program than they expect: any JSON is not an answer.

use std::io::{Read, Write};
use std::net::TcpListener;

use crate::support::{finish, tollgate};

/// Answers each connection with this body, until the test ends.
fn foreign(status: &'static str, body: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    std::thread::spawn(move || {
        for mut connection in listener.incoming().map_while(Result::ok) {
            let _ = connection.read(&mut [0; 4096]);
            let _ = write!(connection, "HTTP/1.1 {status}\r\ncontent-length: {}\r\n\r\n{body}", body.len());
        }
    });
    address
}

#[test]
fn an_answer_that_a_command_does_not_expect_is_1_with_a_remedy() {
    let bodies =
        ["{}", "[]", "1", r#"{"status": "up"}"#, r#"{"allowed": 1, "rules": {}, "counters": [], "ready": "yes"}"#];
    for (status, body) in bodies.map(|body| ("200 OK", body)).into_iter().chain([
        ("503 Service Unavailable", "{}"),
        ("404 Not Found", r#"{"rules": [], "descriptors": [], "counters": [], "ledger": {}}"#),
    ]) {
        let address = foreign(status, body);
        for (args, flag) in [
            (&["check", "a=b", "--agent", &address][..], "--agent"),
            (&["quota", "a=b", "--agent", &address], "--agent"),
            (&["rules", "show", "a=b", "--agent", &address], "--agent"),
            (&["ready", "--http", &address], "--http"),
            (&["regions", "--aggregator", &address], "--aggregator"),
            (&["regions", "cut", "us", "--aggregator", &address], "--aggregator"),
            (&["regions", "heal", "us", "--aggregator", &address], "--aggregator"),
            (&["regions", "move", "us", "eu", "--aggregator", &address], "--aggregator"),
            (&["top", "--once", "--aggregator", &address], "--aggregator"),
        ] {
            let refused = finish(&mut tollgate(args));
            assert_eq!((refused.exit, &*refused.out), (1, ""), "{args:?} {body}: {}", refused.err);
            let told = refused.err.contains("is not the answer of an") && refused.err.contains(flag);
            assert!(told, "{args:?} {body}: {}", refused.err);
        }
    }
}
