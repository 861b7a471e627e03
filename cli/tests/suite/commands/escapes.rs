//! Texts of callers and of other programs on a terminal: none of them moves its cursor or colours what follows.

use std::io::{Read, Write};
use std::net::TcpListener;

use crate::support::{Finished, Up, file, finish, tollgate};

const HOSTILE: &str = "k=\u{1b}[31m\u{9b}2J\u{202e}x";

fn is_printable(said: &Finished) -> bool {
    let text = format!("{}{}", said.out, said.err);
    !text.chars().any(|c| c.is_control() && c != '\n' || c == '\u{202e}')
}

#[test]
fn what_a_user_wrote_is_shown_with_its_control_characters_escaped() {
    let rules = file("escapes.yaml", "rules: [{ name: a, per: [k], quota: 1/s }]");
    let rules = rules.to_str().expect("UTF-8");
    let up = Up::start(&["--rules", rules]);
    for args in [
        &["rules", "show", rules, HOSTILE][..],
        &["rules", "show", rules, HOSTILE, "--format", "json"],
        &["check", "--agent", &up.url(), HOSTILE],
        &["check", "--agent", &up.url(), HOSTILE, "--format", "json"],
        &["quota", "--agent", &up.url(), HOSTILE],
        &["check", &HOSTILE.replace('=', "")],
        &["check", "a=b", "--agent", HOSTILE],
        &["check", "a=b", "--cost", HOSTILE],
        &["rules", "validate", HOSTILE],
        &["up", "--limit", HOSTILE],
        &["nonsense\u{1b}[31m"],
    ] {
        let said = finish(&mut tollgate(args));
        assert!(is_printable(&said), "{args:?}: {} {}", said.out, said.err);
    }
    let shown = finish(&mut tollgate(&["rules", "validate", HOSTILE]));
    assert!(shown.err.contains("\\u{1b}[31m") && shown.err.contains("\\u{202e}"), "{}", shown.err);
    let json = finish(&mut tollgate(&["rules", "show", rules, HOSTILE, "--format", "json"]));
    let json: serde_json::Value = serde_json::from_str(&json.out).expect("JSON");
    assert_eq!(json["descriptors"][0]["name"], "k");
}

#[test]
fn what_a_server_answers_is_shown_with_its_control_characters_escaped() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    std::thread::spawn(move || {
        let allowed = "{\"allowed\": true, \"rule\": \"a\\u001b[31m\", \"id\": \"\\u009b2J\"}";
        let refused = "{\"detail\": \"no \\u001b[31m \\u202e\"}";
        for (status, body) in [("200 OK", allowed), ("400 Bad Request", refused)] {
            let mut connection = listener.accept().expect("a connection").0;
            let _ = connection.read(&mut [0; 4096]);
            let _ = write!(connection, "HTTP/1.1 {status}\r\ncontent-length: {}\r\n\r\n{body}", body.len());
        }
    });
    for (exit, text) in [(0, "a\\u{1b}[31m"), (1, "no \\u{1b}[31m \\u{202e}")] {
        let said = finish(&mut tollgate(&["check", "a=b", "--agent", &address]));
        assert!(said.exit == exit && is_printable(&said), "{} {}", said.out, said.err);
        assert!(format!("{}{}", said.out, said.err).contains(text), "{} {}", said.out, said.err);
    }
}
