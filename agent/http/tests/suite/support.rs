//! Support: a listening agent, and a client with a persistent connection. Each answer of an agent is compared with `openapi.yaml`.

use std::net::SocketAddr;

use http::{HeaderMap, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tollgate::store::ChargeStore;
use tollgate::{Agent, Rule};
use tollgate_http::{Gateway, HttpSettings};
use tollgate_servers::ApiAnswer;

use crate::contract::contract;

pub(crate) const CALL: &str = r#"{"descriptors": {"api_key": "k1"}}"#;

/// Agent that listens on a free port.
pub(crate) struct Sidecar {
    pub(crate) address: SocketAddr,
    pub(crate) stop: oneshot::Sender<()>,
    pub(crate) served: JoinHandle<()>,
}

/// Client with one persistent connection.
pub(crate) struct Client {
    sender: SendRequest<Full<Bytes>>,
    /// True if an agent answers, and no gateway.
    is_of_agent: bool,
}

pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Sidecar {
    /// Starts an agent with one strict rule of 2/min with the given `per`.
    pub(crate) async fn start(per: &[&str]) -> Self {
        let mut rules = tollgate_rules::from_shorthand(&["1/s per ip"], 7).unwrap();
        rules.rules = vec![Rule::per("pair", per, "2/min".parse().unwrap()).strict().into()];
        Self::of(Agent::builder().node("gw-1").rules(rules).start().unwrap()).await
    }

    pub(crate) async fn of<S: ChargeStore>(agent: Agent<S>) -> Self {
        Self::behind(Gateway::Any, agent).await
    }

    pub(crate) async fn behind<S: ChargeStore>(gateway: Gateway, agent: Agent<S>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel();
        let shutdown = async {
            if stopped.await.is_err() {
                std::future::pending::<()>().await; // runs until the test ends
            }
        };
        let router = tollgate_http::router_over(HttpSettings::behind(gateway), agent);
        let served = tokio::spawn(tollgate_listen::serve(listener, router, shutdown));
        Self { address, stop, served }
    }

    pub(crate) async fn client(&self) -> Client {
        Client { is_of_agent: true, ..Client::connect(self.address).await }
    }

    pub(crate) async fn tcp(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }
}

impl Client {
    pub(crate) async fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).await.unwrap();
        let (sender, connection) = handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        Self { sender, is_of_agent: false }
    }

    pub(crate) async fn ask(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Answer {
        let mut request = Request::builder().method(method).uri(path).header("host", "tollgate");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::new(body.into())).unwrap();
        self.sender.ready().await.expect("the connection is alive");
        let (parts, body) = self.sender.send_request(request).await.unwrap().into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        let answer = Answer { status: parts.status, headers: parts.headers, body };
        if self.is_of_agent {
            contract()
                .check(method, path, &answer.described())
                .unwrap_or_else(|fault| panic!("{method} {path}: {fault}"));
        }
        answer
    }

    pub(crate) async fn get(&mut self, path: &str, headers: &[(&str, &str)]) -> Answer {
        self.ask("GET", path, headers, "").await
    }

    pub(crate) async fn post(&mut self, body: impl Into<Bytes>) -> Answer {
        self.ask("POST", "/check", &[], body).await
    }
}

impl Answer {
    /// Returns the answer as its description has it.
    pub(crate) fn described(&self) -> ApiAnswer<'_> {
        let headers = self.headers.iter().map(|(name, value)| (name.as_str(), value.to_str().unwrap()));
        ApiAnswer { status: self.status.as_u16(), headers: headers.collect(), body: &self.body, events: Vec::new() }
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).expect("a JSON body")
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).unwrap_or_else(|| panic!("no {name}")).to_str().unwrap()
    }

    /// Returns the detail of a problem response with this status.
    pub(crate) fn problem(&self, status: u16) -> String {
        assert_eq!((self.status.as_u16(), self.header("content-type")), (status, "application/problem+json"));
        let body = self.json();
        assert_eq!((body["status"].as_u64(), body["type"].as_str()), (Some(status.into()), Some("about:blank")));
        body["detail"].as_str().unwrap().to_owned()
    }
}
