//! Support: agents, a listening axum server, and a client with a persistent connection.

use std::net::SocketAddr;

use axum::Router;
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::{BodyExt, Empty};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tollgate::Agent;

/// Client with one persistent connection, which ends with it.
pub(crate) struct Client {
    requests: SendRequest<Empty<Bytes>>,
    connection: JoinHandle<()>,
}

/// Response whose body is read.
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

/// Starts an agent without servers.
pub(crate) fn agent(rules: &str) -> Agent {
    let rules = tollgate_rules::from_yaml("rules.yaml", rules, 1).unwrap();
    Agent::builder().node("gw-1").rules(rules).start().unwrap()
}

/// Serves a router on a free port until the test ends.
pub(crate) async fn serve(router: Router) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let service = router.into_make_service_with_connect_info::<SocketAddr>();
    tokio::spawn(async { axum::serve(listener, service).await.unwrap() });
    address
}

impl Client {
    pub(crate) async fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).await.unwrap();
        let (requests, connection) = handshake(TokioIo::new(stream)).await.unwrap();
        let connection = tokio::spawn(async {
            let _ = connection.await;
        });
        Self { requests, connection }
    }

    /// Sends a request, and returns the response once its headers are there.
    pub(crate) async fn send(&mut self, path: &str, headers: &[(&str, &str)]) -> Response<Incoming> {
        let mut request = Request::get(path).header("host", "tollgate");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        self.requests.ready().await.expect("the connection is alive");
        self.requests.send_request(request.body(Empty::new()).unwrap()).await.unwrap()
    }

    pub(crate) async fn get(&mut self, path: &str, headers: &[(&str, &str)]) -> Answer {
        let (parts, body) = self.send(path, headers).await.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        Answer { status: parts.status, headers: parts.headers, body }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.connection.abort();
    }
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).expect("a JSON body")
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).unwrap_or_else(|| panic!("no {name}")).to_str().unwrap()
    }

    /// Returns the status, and the units left.
    pub(crate) fn left(&self) -> (u16, &str) {
        (self.status.as_u16(), self.header("x-ratelimit-remaining"))
    }
}
