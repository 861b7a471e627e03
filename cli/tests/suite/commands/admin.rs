//! Routes of operators: their own address, and requests for them beside decisions.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};

use tollgate_servers::scaled;

use crate::support::{Client, Up, wait_for};

/// Clients of the full test that ask for metrics.
const SCRAPERS: u64 = 300;
/// Requests that each of them sends before it reads an answer.
const PIPELINED: usize = 20;
/// Decisions that another client asks for meanwhile, one after the other.
const CHECKS: usize = 20;

/// Client that asks for metrics, and what it has received.
struct Scraper {
    stream: TcpStream,
    received: Vec<u8>,
}

impl Scraper {
    /// Returns the number of answers that have arrived, without waiting for others.
    fn arrived(&mut self) -> usize {
        self.stream.set_nonblocking(true).unwrap();
        let mut chunk = vec![0; 1 << 16];
        loop {
            match self.stream.read(&mut chunk) {
                Ok(len) if len > 0 => self.received.extend_from_slice(&chunk[..len]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                ended => panic!("the connection has ended: {ended:?}"),
            }
        }
        String::from_utf8_lossy(&self.received).matches("HTTP/1.1 200 OK").count()
    }
}

/// The routes of gateways are on `--http`, those of operators on `--admin`, and readiness on both.
#[test]
fn operators_have_an_address_of_their_own() {
    let mut up = Up::start(&["--limit", "10/min per api_key", "--admin", "127.0.0.1:0"]);
    let line = up.log().find(|line| line.contains("routes of operators")).unwrap();
    let address: SocketAddr = line.rsplit("http://").next().unwrap().parse().unwrap();
    let (mut gateway, mut operator) = (up.client(), Client::connect(address).unwrap());
    assert_eq!(gateway.check("k1").status, 200);
    assert_eq!((gateway.get("/readyz", &[]).status, operator.get("/readyz", &[]).status), (200, 200));
    for path in ["/healthz", "/metrics", "/explain", "/emergency", "/openapi.yaml"] {
        assert_eq!(operator.get(path, &[]).status, 200, "{path}");
        let refused = gateway.get(path, &[]);
        assert!(refused.status == 404 && refused.text().contains("address of --admin"), "{path}: {}", refused.text());
    }
    for path in ["/settle", "/release", "/emergency"] {
        gateway.send("POST", path, &[], "{}");
        assert_eq!(gateway.receive().status, 404, "{path}");
        operator.send("POST", path, &[], "{}");
        assert_eq!(operator.receive().status, 400, "{path}");
    }
    let refused = operator.get("/check", &[]);
    assert!(refused.status == 404 && refused.text().contains("address of --http"), "{}", refused.text());
}

/// Clients that send many requests for metrics at once get their answers one at a time, and other tasks run between two of them.
#[test]
fn requests_for_metrics_hold_up_no_check() {
    let up = Up::start(&["--limit", "1000000/min per api_key"]);
    let request = "GET /metrics HTTP/1.1\r\nhost: t\r\n\r\n".repeat(PIPELINED);
    let connect = |_| Scraper { stream: TcpStream::connect(up.address).unwrap(), received: Vec::new() };
    let mut scrapers: Vec<_> = (0..scaled(SCRAPERS)).map(connect).collect();
    let mut client = up.client();
    for scraper in &mut scrapers {
        scraper.stream.write_all(request.as_bytes()).unwrap();
    }
    for _ in 0..CHECKS {
        assert_eq!(client.check("k1").status, 200);
    }
    let early: usize = scrapers.iter_mut().map(Scraper::arrived).sum();
    let all = scrapers.len() * PIPELINED;
    assert!(early < all / 2, "{early} of {all} answers came before {CHECKS} decisions");
    wait_for("all answers", || (scrapers.iter_mut().map(Scraper::arrived).sum::<usize>() == all).then_some(()));
}
