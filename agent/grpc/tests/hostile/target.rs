//! One server for all hostile requests, and clients that ask it, each on a connection of its own.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::time::Duration;

use axum::body::Body;
use http::{HeaderMap, Request};
use http_body_util::BodyExt;
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;
use tollgate::{Agent, Rule};
use tollgate_listen::{Address, ListenGroup, ListenSettings, Listener};

use crate::raw;
use crate::requests::{END_WAIT, End, HostileFrames, HostileRequest, Service};
use crate::wire::message;

/// Units per hour of the key `k1`, under which all requests ask.
const QUOTA: &str = "1000000/h";
/// Maximum time that the agent gives a client for the first bytes of a connection.
const HEADER_TIMEOUT: Duration = Duration::from_secs(2);

/// Agent that listens on a free port.
pub(crate) struct Target {
    address: SocketAddr,
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
        tokio::spawn(tollgate_listen::serve(listener, tollgate_grpc::router(agent), std::future::pending()));
        Self { address }
    }

    pub(crate) async fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        stream
    }

    pub(crate) async fn client(&self) -> SendRequest<Body> {
        let stream = TokioIo::new(self.connect().await);
        let (sender, connection) = handshake(TokioExecutor::new(), stream).await.unwrap();
        tokio::spawn(connection);
        sender
    }

    /// Asks for one unit on a new connection, and returns the number of units that are left.
    pub(crate) async fn good_call(&self, service: Service) -> u64 {
        let request = service.request(message(service.good_message())).map(Body::from);
        let (end, body, _) = ask(&mut self.client().await, request).await;
        assert_eq!(end, End::Grpc(0));
        remaining(&body).expect("a header with the units that are left")
    }

    /// Sends a request on a new connection. Returns the fault if it has another end.
    pub(crate) async fn send(&self, hostile: &HostileRequest) -> Result<(), String> {
        let (parts, body) = hostile.request.clone().into_parts();
        let body = if hostile.is_slow { unending(body) } else { Body::from(body) };
        let (end, _, why) = ask(&mut self.client().await, Request::from_parts(parts, body)).await;
        let is_told = !matches!(end, End::Grpc(code) if code > 0) || !why.is_empty();
        assert!(is_told, "{}: {end:?} without a reason", hostile.name);
        fault(hostile.name, &end, &hostile.expected)
    }

    /// Sends frames on a new connection. Returns the fault if it has another end.
    pub(crate) async fn send_frames(&self, hostile: &HostileFrames) -> Result<(), String> {
        let end = raw::exchange(self.connect().await, &hostile.bytes, &hostile.expected).await;
        fault(hostile.name, &end, &hostile.expected)
    }
}

fn fault(name: &str, end: &End, expected: &End) -> Result<(), String> {
    if end == expected { Ok(()) } else { Err(format!("{name}: {end:?} instead of {expected:?}")) }
}

/// Returns a body that stays open behind these bytes.
pub(crate) fn unending(bytes: Vec<u8>) -> Body {
    use futures_util::StreamExt as _;
    let begin = futures_util::stream::iter([Ok::<_, Infallible>(bytes)]);
    Body::from_stream(begin.chain(futures_util::stream::pending()))
}

/// Sends a request. Returns its end, its body, and the reason of an error.
pub(crate) async fn ask(client: &mut SendRequest<Body>, request: Request<Body>) -> (End, Vec<u8>, String) {
    let end = |end| (end, Vec::new(), String::new());
    let Ok(answer) = tokio::time::timeout(END_WAIT, client.send_request(request)).await else {
        return end(End::Silent);
    };
    let Ok(answer) = answer else { return end(End::Closed) };
    let (parts, body) = answer.into_parts();
    let Ok(body) = body.collect().await else { return end(End::Closed) };
    let status = |headers: &HeaderMap| tonic::Status::from_header_map(headers);
    let trailers = body.trailers().cloned().unwrap_or_default();
    match status(&parts.headers).or_else(|| status(&trailers)) {
        Some(status) => {
            let code = u16::try_from(i32::from(status.code())).unwrap();
            (End::Grpc(code), body.to_bytes().to_vec(), status.message().to_owned())
        }
        None => end(End::Http(parts.status.as_u16())),
    }
}

/// Returns the units that are left, as the headers in an answer of both services tell them.
fn remaining(answer: &[u8]) -> Option<u64> {
    let name = b"x-ratelimit-remaining";
    let at = answer.windows(name.len()).rposition(|part| part == name)? + name.len();
    let (len, value) = answer.get(at + 1..)?.split_first()?;
    String::from_utf8_lossy(&value[..usize::from(*len)]).parse().ok()
}
