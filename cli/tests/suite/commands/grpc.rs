//! The address of the gRPC services: chosen, by default, and taken by somebody else.

use std::net::{SocketAddr, TcpListener};

use tollgate_servers::free_port;

use crate::support::{Client, Up, finish, tollgate};

/// Returns the address of gRPC that the log tells.
fn grpc_of(up: &mut Up) -> SocketAddr {
    let line = up.log().find(|line| line.contains("gRPC")).expect("it logs the address");
    line.rsplit(' ').next().and_then(|address| address.parse().ok()).unwrap_or_else(|| panic!("{line}"))
}

/// P1: gRPC has the chosen address, or the next port; a client of HTTP is told which protocol it has.
#[test]
fn grpc_has_its_own_address() {
    let chosen = format!("127.0.0.1:{}", free_port());
    let mut up = Up::start(&["--grpc", &chosen]);
    assert_eq!(grpc_of(&mut up).to_string(), chosen);
    let answer = Client::connect(chosen.parse().unwrap()).unwrap().get("/check", &[]);
    assert_eq!((answer.status, answer.text()), (415, "this address speaks gRPC; HTTP is on the address of --http\n"));
    assert_eq!(up.client().check("k1").status, 200);
    let mut any = Up::start(&[]);
    assert_eq!(grpc_of(&mut any).ip(), any.address.ip());
}

/// I8: a chosen address that is in use is an error with its flag. The default one is left out with a warning, or by `--grpc off`.
#[test]
fn an_address_in_use_is_told_with_a_remedy() {
    let (listener, http) = loop {
        // A port before one that is taken.
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port() - 1;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            break (listener, format!("127.0.0.1:{port}"));
        }
    };
    let taken = listener.local_addr().unwrap();
    let refused = finish(&mut tollgate(&["up", "--http", "127.0.0.1:0", "--grpc", &taken.to_string()]));
    assert_eq!(refused.exit, 1, "{}", refused.err);
    assert!(
        refused.err.contains(&format!("{taken} is in use")) && refused.err.contains("--grpc 127.0.0.1:0"),
        "{}",
        refused.err
    );
    let mut up = Up::of(&mut tollgate(&["up", "--http", &http]));
    let warning = up.log().find(|line| line.contains("gRPC")).unwrap();
    assert!(
        warning.contains("WARN") && warning.contains("gRPC is not served") && warning.contains("--grpc off"),
        "{warning}"
    );
    assert_eq!(up.client().check("k1").status, 200);
    drop(up);
    let up = Up::of(&mut tollgate(&["up", "--http", &http, "--grpc", "off"]));
    up.signal("TERM");
    let (_, log) = up.end();
    assert!(!log.contains("gRPC"), "{log}");
    let mistyped = finish(&mut tollgate(&["up", "--grpc", "8081"]));
    assert_eq!(mistyped.exit, 2);
    assert!(mistyped.err.contains("write HOST:PORT, such as 127.0.0.1:8081, unix:PATH, or off"), "{}", mistyped.err);
}
