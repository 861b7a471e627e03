//! One server for all hostile requests, and raw clients, each on a connection of its own.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tollgate::{Agent, Rule};
use tollgate_listen::{Address, ListenGroup, ListenSettings, Listener};

/// Units per hour of the key `k1`, under which all requests ask.
const QUOTA: &str = "1000000/h";
/// Maximum time for the end of a request.
pub(crate) const END_WAIT: Duration = Duration::from_mins(1);
/// Maximum time that the agent gives a client for the head of a request. It is longer than the time for a body, which has an answer.
const HEADER_TIMEOUT: Duration = Duration::from_secs(6);
/// Pause of a client that sends byte by byte.
const DRIP: Duration = Duration::from_millis(500);

/// Request that a client should not send, and its end.
#[derive(Clone)]
pub(crate) struct HostileRequest {
    pub(crate) name: &'static str,
    pub(crate) bytes: Vec<u8>,
    pub(crate) sending: Sending,
    pub(crate) expected: End,
    /// Units of `k1` that it validly asks for.
    pub(crate) charged: u64,
    /// True if it ends by a timeout of the agent.
    pub(crate) is_slow: bool,
}

/// Way in which a client sends.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sending {
    /// All bytes; then the client waits.
    Whole,
    /// All bytes; then the client sends its end.
    Ended,
    /// The last bytes one by one.
    Dripping(usize),
}

/// End of a hostile request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// An answer.
    Status(u16),
    /// A closed connection without an answer.
    Closed,
    /// Neither of both.
    Silent,
}

/// Agent that listens on a free port.
pub(crate) struct Target {
    address: SocketAddr,
}

impl HostileRequest {
    pub(crate) fn new(name: &'static str, bytes: impl Into<Vec<u8>>, status: u16) -> Self {
        let expected = End::Status(status);
        Self { name, bytes: bytes.into(), sending: Sending::Whole, expected, charged: 0, is_slow: false }
    }

    /// Returns a `POST` with this body.
    pub(crate) fn post(name: &'static str, path: &str, body: impl AsRef<[u8]>, status: u16) -> Self {
        let body = body.as_ref();
        let head = format!("POST {path} HTTP/1.1\r\nhost: t\r\ncontent-length: {}\r\n\r\n", body.len());
        Self::new(name, [head.as_bytes(), body].concat(), status)
    }

    /// Returns the request without its last byte.
    pub(crate) fn shortened(mut self) -> Self {
        self.bytes.pop();
        self
    }

    pub(crate) fn sent(self, sending: Sending) -> Self {
        Self { sending, ..self }
    }

    pub(crate) fn closed(self) -> Self {
        Self { expected: End::Closed, ..self }
    }

    pub(crate) fn slow(self) -> Self {
        Self { is_slow: true, ..self }
    }

    pub(crate) fn charging(self, charged: u64) -> Self {
        Self { charged, ..self }
    }
}

impl Target {
    /// Starts an agent.
    pub(crate) async fn start() -> Self {
        let mut rules = tollgate_rules::from_shorthand(&["1/s per ip"], 7).unwrap();
        rules.rules = vec![Rule::per("per-key", &["api_key"], QUOTA.parse().unwrap()).strict().into()];
        let agent = Agent::builder().node("gw-1").rules(rules).start().unwrap();
        let settings = ListenSettings { header_timeout: HEADER_TIMEOUT, ..ListenSettings::default() };
        let address = Address::Tcp(SocketAddr::from(([127, 0, 0, 1], 0)));
        let listener = Listener::bind(&address, &ListenGroup::new(settings, None)).await.unwrap();
        let address = listener.address().unwrap().tcp().unwrap();
        tokio::spawn(tollgate_listen::serve(listener, tollgate_http::router(agent), std::future::pending()));
        Self { address }
    }

    pub(crate) async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// Sends a call of one unit on a new connection, and returns the number of units that are left.
    pub(crate) async fn good_call(&self) -> u64 {
        let call = HostileRequest::post("a good call", "/check", r#"{"descriptors": {"api_key": "k1"}}"#, 200);
        let mut stream = self.connect().await;
        stream.write_all(&call.bytes).await.unwrap();
        let (status, body) = answer(&mut stream).await.expect("an answer");
        assert_eq!(status, 200, "{body}");
        body["remaining"].as_u64().expect("a number of units")
    }

    /// Sends a request on a new connection. Returns the fault if it has another end.
    pub(crate) async fn send(&self, request: &HostileRequest) -> Result<(), String> {
        let stream = self.connect().await;
        let (mut read, mut write) = stream.into_split();
        let (bytes, sending) = (request.bytes.clone(), request.sending);
        let sender = tokio::spawn(async move {
            let slow = if let Sending::Dripping(len) = sending { len } else { 0 };
            let (fast, slow) = bytes.split_at(bytes.len() - slow);
            // The server may have answered and closed before it has read all.
            let mut sent = write.write_all(fast).await;
            for byte in slow {
                tokio::time::sleep(DRIP).await;
                sent = sent.and(write.write_all(&[*byte]).await);
            }
            if sending == Sending::Ended {
                let _ = write.shutdown().await;
            }
            write
        });
        let end = match timeout(END_WAIT, answer(&mut read)).await {
            Err(_) => End::Silent,
            Ok(None) => End::Closed,
            Ok(Some((status, body))) => {
                let has_detail =
                    status < 400 || body.is_null() || body["detail"].is_string() || body["statuses"].is_array();
                assert!(has_detail, "{}: {status} without a reason: {body}", request.name);
                End::Status(status)
            }
        };
        sender.abort();
        let HostileRequest { name, expected, .. } = request;
        if end == *expected { Ok(()) } else { Err(format!("{name}: {end:?} instead of {expected:?}")) }
    }
}

/// Reads one answer: its status, and its body if that is JSON. Returns none if the connection ends without an answer.
pub(crate) async fn answer(stream: &mut (impl AsyncReadExt + Unpin)) -> Option<(u16, Value)> {
    let mut received = Vec::new();
    loop {
        if let Some(answer) = parsed(&received) {
            return Some(answer);
        }
        match stream.read_buf(&mut received).await {
            Ok(0) => break,
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => break,
            read => drop(read.unwrap()),
        }
    }
    assert!(received.is_empty(), "half an answer: {}", String::from_utf8_lossy(&received));
    None
}

/// Parses an answer; none if it is not complete.
fn parsed(received: &[u8]) -> Option<(u16, Value)> {
    let head_len = received.windows(4).position(|end| end == b"\r\n\r\n")? + 4;
    let head = String::from_utf8(received[..head_len].to_vec()).expect("a head is ASCII").to_lowercase();
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    let body_len: usize = length.map_or(0, |length| length.parse().expect("a length"));
    let body = received.get(head_len..head_len + body_len)?;
    Some((status, serde_json::from_slice(body).unwrap_or_default()))
}
