//! `tollgate ready`: exit codes, output, and the address that it asks.

use std::io::{Read, Write};
use std::net::TcpListener;

use crate::support::{Finished, Up, file, finish, tollgate};

fn ready(address: &str) -> Finished {
    finish(tollgate(&["ready"]).env("TOLLGATE_HTTP", address))
}

#[test]
fn a_ready_process_is_0_and_it_is_found_by_its_own_settings() {
    let up = Up::start(&[]);
    let port = up.address.port();
    let path = file("ready.yaml", &format!("http: 127.0.0.1:{port}\n"));
    for said in [
        ready(&up.address.to_string()),
        ready(&format!("0.0.0.0:{port}")), // as a container listens
        finish(&mut tollgate(&["ready", "--http", &up.address.to_string()])),
        finish(&mut tollgate(&["ready", "--config", path.to_str().unwrap()])),
    ] {
        assert_eq!((said.exit, &*said.out, &*said.err), (0, "ready\n", ""));
    }
}

#[test]
fn a_process_that_is_not_ready_is_1_with_the_missing_parts() {
    let agent = Up::of(&mut tollgate(&["agent", "--http", "127.0.0.1:0", "--redis", "redis://127.0.0.1:1"]));
    let said = ready(&agent.address.to_string());
    assert_eq!((said.exit, &*said.err), (1, ""));
    assert!(said.out.starts_with("not ready: no rules have been published yet"), "{}", said.out);
}

#[test]
fn when_nobody_or_another_program_answers_it_is_an_error_with_a_remedy() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap().to_string();
    drop(silent);
    let refused = ready(&address);
    assert_eq!((refused.exit, &*refused.out), (4, ""));
    assert!(refused.err.contains("no agent or aggregator answers at"), "{}", refused.err);
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = other.local_addr().unwrap().to_string();
    let answers = std::thread::spawn(move || {
        let (mut tcp, _) = other.accept().unwrap();
        let _ = tcp.read(&mut [0; 1 << 10]).unwrap();
        tcp.write_all(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n").unwrap();
    });
    let foreign = ready(&address);
    answers.join().unwrap();
    assert_eq!((foreign.exit, &*foreign.out), (1, ""));
    assert!(foreign.err.contains("404 Not Found: this is not the answer of an agent or aggregator"), "{}", foreign.err);
}
