//! What gateways and operators see of a sidecar, over real sockets.

use std::net::SocketAddr;

use http::{HeaderMap, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tollgate::store::{Answers, Store, StoreError};
use tollgate::{Agent, Rule, RuleSet};
use tollgate_common::clock::Timestamp;

const CALL: &str = r#"{"descriptors": {"api_key": "k1"}}"#;

/// A sidecar that listens.
struct Sidecar {
    address: SocketAddr,
    stop: oneshot::Sender<()>,
    served: JoinHandle<std::io::Result<()>>,
}

/// One connection to it, kept alive.
struct Client(SendRequest<Full<Bytes>>);

struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    body: Bytes,
}

/// A store that is away.
struct Away;

impl Store for Away {
    async fn take(&self, _: &[tollgate::enforce::Take]) -> Result<Answers, StoreError> {
        Err(StoreError::Unreachable)
    }

    async fn ping(&self) -> Result<Timestamp, StoreError> {
        Err(StoreError::Unreachable)
    }
}

impl Sidecar {
    /// In front of an agent with one rule: strict, 2/min, `per`.
    async fn start(per: &[&str]) -> Self {
        let mut rules = RuleSet::from_shorthand("1/s per ip", 7).unwrap();
        rules.rules = vec![Rule::per("pair", per, "2/min".parse().unwrap()).strict().into()];
        Self::of(Agent::builder().node("gw-1").rules(rules).start().unwrap()).await
    }

    async fn of<S: Store>(agent: Agent<S>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel();
        let shutdown = async {
            if stopped.await.is_err() {
                std::future::pending().await // nobody stops it: it lives as long as its test
            }
        };
        let served = tokio::spawn(tollgate_sidecar::serve(listener, tollgate_sidecar::router(agent), shutdown));
        Self { address, stop, served }
    }

    async fn client(&self) -> Client {
        let (client, connection) = handshake(TokioIo::new(self.tcp().await)).await.unwrap();
        tokio::spawn(connection);
        Client(client)
    }

    async fn tcp(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }
}

impl Client {
    async fn ask(&mut self, method: &str, path: &str, headers: &[(&str, &str)], body: impl Into<Bytes>) -> Answer {
        let mut request = Request::builder().method(method).uri(path).header("host", "tollgate");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::new(body.into())).unwrap();
        self.0.ready().await.expect("the connection is alive");
        let (parts, body) = self.0.send_request(request).await.unwrap().into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        Answer { status: parts.status, headers: parts.headers, body }
    }

    async fn get(&mut self, path: &str, headers: &[(&str, &str)]) -> Answer {
        self.ask("GET", path, headers, "").await
    }

    async fn post(&mut self, body: impl Into<Bytes>) -> Answer {
        self.ask("POST", "/check", &[], body).await
    }
}

impl Answer {
    fn json(&self) -> Value {
        serde_json::from_slice(&self.body).expect("a JSON body")
    }

    fn header(&self, name: &str) -> &str {
        self.headers.get(name).unwrap_or_else(|| panic!("no {name}")).to_str().unwrap()
    }

    /// The detail of a problem of this status.
    fn problem(&self, status: u16) -> String {
        assert_eq!((self.status.as_u16(), self.header("content-type")), (status, "application/problem+json"));
        let body = self.json();
        assert_eq!((body["status"].as_u64(), body["type"].as_str()), (Some(status.into()), Some("about:blank")));
        body["detail"].as_str().unwrap().to_owned()
    }
}

/// H1: an admission tells where the caller stands.
#[tokio::test]
async fn an_allowed_call_is_a_200_with_headers_and_body() {
    let mut client = Sidecar::start(&["api_key"]).await.client().await;
    let answer = client.get("/check", &[("x-api-key", "k1")]).await;
    assert_eq!((answer.status, answer.header("content-type")), (StatusCode::OK, "application/json"));
    assert_eq!(answer.header("x-gateway-node"), "gw-1");
    assert_eq!((answer.header("x-ratelimit-limit"), answer.header("x-ratelimit-remaining")), ("2", "1"));
    assert!(answer.header("x-ratelimit-reset").parse::<u64>().unwrap() > 1_700_000_000);
    assert!(answer.header("ratelimit").starts_with("\"pair\";r=1;t="));
    assert_eq!(answer.header("ratelimit-policy"), "\"pair\";q=2;w=60");
    assert_eq!(answer.header("cache-control"), "no-store");
    assert!(answer.headers.get("retry-after").is_none());
    let body = answer.json();
    assert_eq!((body["allowed"].as_bool(), body["rule"].as_str()), (Some(true), Some("pair")));
    assert_eq!((body["limit"].as_u64(), body["remaining"].as_u64()), (Some(2), Some(1)));
}

/// H2, H5: a denial says when to come back, in a form that any client can read.
#[tokio::test]
async fn a_denied_call_is_a_429_problem_that_says_when_to_return() {
    let mut client = Sidecar::start(&["api_key"]).await.client().await;
    assert_eq!(client.post(CALL).await.status, StatusCode::OK);
    assert_eq!(client.post(CALL).await.status, StatusCode::OK);
    let answer = client.post(CALL).await;
    assert_eq!((answer.status.as_u16(), answer.header("content-type")), (429, "application/problem+json"));
    let body = answer.json();
    let retry_after_ms = body["retry_after_ms"].as_u64().unwrap();
    assert!((1..=65_000).contains(&retry_after_ms));
    assert!(answer.header("retry-after").parse::<u64>().unwrap() * 1_000 >= retry_after_ms);
    assert_eq!((body["allowed"].as_bool(), body["status"].as_u64()), (Some(false), Some(429)));
    assert_eq!((answer.header("x-ratelimit-remaining"), answer.header("x-gateway-node")), ("0", "gw-1"));
}

/// A14: a call may cost more than one unit, and is charged whole or not at all.
#[tokio::test]
async fn a_cost_in_the_body_is_charged() {
    let mut client = Sidecar::start(&["api_key"]).await.client().await;
    let call = |cost: u64| format!(r#"{{"descriptors": {{"api_key": "k1"}}, "cost": {cost}}}"#);
    assert_eq!(client.post(call(3)).await.status.as_u16(), 429);
    assert_eq!(client.post(call(2)).await.status, StatusCode::OK);
    assert_eq!(client.post(call(1)).await.status.as_u16(), 429);
    assert_eq!(client.post(call(tollgate_sidecar::COST_MAX)).await.status.as_u16(), 429);
}

/// P2: a request is counted by its peer, its method and its path.
#[tokio::test]
async fn a_request_is_described_by_itself() {
    let sidecar = Sidecar::start(&["ip", "method", "endpoint"]).await;
    let mut client = sidecar.client().await;
    for remaining in ["1", "0"] {
        assert_eq!(client.get("/check?x=1", &[]).await.header("x-ratelimit-remaining"), remaining);
    }
    assert_eq!(client.ask("HEAD", "/check", &[], "").await.header("x-ratelimit-remaining"), "1", "another method");
    let same = client.ask("POST", "/check", &[], r#"{"descriptors": {"ip": "127.0.0.1", "method": "GET", "endpoint": "/check"}}"#);
    assert_eq!(same.await.status.as_u16(), 429);
}

/// P1: gateways that ask by subrequest say which request they hold back.
#[tokio::test]
async fn a_gateway_asks_about_the_request_that_it_holds_back() {
    let mut client = Sidecar::start(&["method", "endpoint"]).await.client().await;
    let traefik = [("x-forwarded-method", "POST"), ("x-forwarded-uri", "/users/17?page=2")];
    let nginx = [("x-original-method", "post"), ("x-original-uri", "http://shop.example/users/18")];
    assert_eq!(client.get("/check", &traefik).await.header("x-ratelimit-remaining"), "1");
    assert_eq!(client.get("/check", &nginx).await.header("x-ratelimit-remaining"), "0");
    assert_eq!(client.get("/check", &traefik).await.status.as_u16(), 429);
    assert_eq!(client.get("/check", &[]).await.status, StatusCode::OK, "another endpoint");
}

/// A client that sends the header which the gateway does not set cannot choose where it is counted.
#[tokio::test]
async fn headers_that_contradict_each_other_are_refused() {
    let mut client = Sidecar::start(&["endpoint"]).await.client().await;
    let forged = [("x-original-uri", "/search"), ("x-forwarded-uri", "/free")];
    let detail = client.get("/check", &forged).await.problem(400);
    assert!(detail.contains("contradict each other; have the gateway set one and clear the other"), "{detail}");
    let twice = [("x-forwarded-uri", "/search"), ("x-forwarded-uri", "/free")];
    client.get("/check", &twice).await.problem(400);
    let agreeing = [("x-original-uri", "/search"), ("x-forwarded-uri", "/search")];
    assert_eq!(client.get("/check", &agreeing).await.status, StatusCode::OK);
}

#[tokio::test]
async fn what_is_no_call_is_a_400_and_the_connection_lives_on() {
    let mut client = Sidecar::start(&["api_key"]).await.client().await;
    for (body, reason) in [
        ("{\n  \"descriptors\": {\"api_key\" \"k1\"}\n}", "expected `:` at line 2 column 29"),
        (r#"{"descriptors": {"api_key": "k1"}, "costs": 1}"#, "unknown field `costs`"),
        (r#"{"descriptors": {"api_key": "k1"}, "cost": 0}"#, "expected a cost, a whole number from 1"),
        ("", "EOF while parsing a value at line 1 column 0"),
    ] {
        let detail = client.post(body).await.problem(400);
        assert!(detail.contains(reason) && detail.contains("; send {"), "{detail}");
    }
    assert_eq!(client.post(CALL).await.header("x-ratelimit-remaining"), "1", "nothing was charged on the way");
}

#[tokio::test]
async fn a_body_past_the_cap_is_a_413_and_the_connection_lives_on() {
    let mut client = Sidecar::start(&["api_key"]).await.client().await;
    let padded = |len: usize| format!("{CALL}{}", " ".repeat(len - CALL.len()));
    assert_eq!(client.post(padded(tollgate_sidecar::BODY_LEN_MAX)).await.status, StatusCode::OK);
    let detail = client.post(padded(tollgate_sidecar::BODY_LEN_MAX + 1)).await.problem(413);
    assert!(detail.contains("longer than 65536 bytes"), "{detail}");
    assert_eq!(client.post(CALL).await.status, StatusCode::OK);
}

#[tokio::test]
async fn an_unknown_path_or_method_is_told_what_there_is() {
    let mut client = Sidecar::start(&["api_key"]).await.client().await;
    let detail = client.ask("POST", "/chekc", &[], CALL).await.problem(404);
    assert_eq!(detail, "there is no `/chekc` here; ask /check, /healthz, /readyz or /metrics");
    let answer = client.ask("DELETE", "/check", &[], CALL).await;
    assert_eq!(answer.problem(405), "/check does not take DELETE; use GET, HEAD or POST");
    assert_eq!(answer.header("allow"), "GET,HEAD,POST");
    assert_eq!(client.ask("POST", "/metrics", &[], "x").await.problem(405), "/metrics does not take POST; use GET or HEAD");
    assert_eq!(client.post(CALL).await.status, StatusCode::OK);
}

#[tokio::test]
async fn health_tells_node_and_generation() {
    let mut client = Sidecar::start(&["api_key"]).await.client().await;
    let health = client.get("/healthz", &[]).await;
    assert_eq!((health.status, health.header("content-type")), (StatusCode::OK, "application/json"));
    let health = health.json();
    assert_eq!((health["status"].as_str(), health["node"].as_str()), (Some("ok"), Some("gw-1")));
    assert_eq!((health["generation"].as_u64(), health["rules"].as_u64()), (Some(7), Some(1)));
    assert_eq!((health["degraded"].as_bool(), health["version"].as_str()), (Some(false), Some(env!("CARGO_PKG_VERSION"))));
    let ready = client.get("/readyz", &[]).await;
    assert_eq!((ready.status, ready.json()["ready"].as_bool()), (StatusCode::OK, Some(true)));
}

/// H4: an agent without its store is alive and limits, but says that it is not what it should be.
#[tokio::test]
async fn an_agent_without_its_store_is_alive_but_not_ready() {
    let rule = Rule::per("pair", &["api_key"], "2/min".parse().unwrap());
    let agent = Agent::builder().rule(rule).store(std::sync::Arc::new(Away)).start_with_store().unwrap();
    let mut client = Sidecar::of(agent).await.client().await;
    let ready = client.get("/readyz", &[]).await;
    assert_eq!(ready.status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(ready.json()["missing"][0].as_str().unwrap().contains("store"));
    assert_eq!(client.post(CALL).await.header("x-ratelimit-policy"), "degraded");
    let health = client.get("/healthz", &[]).await;
    assert_eq!((health.status, health.json()["degraded"].as_bool()), (StatusCode::OK, Some(true)));
}

#[tokio::test]
async fn metrics_are_open_metrics_and_count_decisions() {
    let mut client = Sidecar::start(&["api_key"]).await.client().await;
    assert_eq!(client.post(CALL).await.status, StatusCode::OK);
    let metrics = client.get("/metrics", &[]).await;
    assert_eq!(metrics.header("content-type"), "application/openmetrics-text; version=1.0.0; charset=utf-8");
    let text = String::from_utf8(metrics.body.to_vec()).unwrap();
    let line = r#"tollgate_decisions_total{rule="pair",outcome="allowed",source="store"} 1"#;
    assert!(text.lines().any(|l| l == line) && text.ends_with("# EOF\n"), "{text}");
}

/// A request that the server has begun to read is answered after the shutdown has begun, and only then is the end.
#[tokio::test]
async fn a_request_under_way_is_answered_before_the_end() {
    let sidecar = Sidecar::start(&["api_key"]).await;
    let mut tcp = sidecar.tcp().await;
    let head = format!("POST /check HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\ncontent-length: {}\r\n\r\n", CALL.len());
    tcp.write_all(head.as_bytes()).await.unwrap();
    let mut go_on = [0; 25];
    tcp.read_exact(&mut go_on).await.unwrap();
    assert_eq!(&go_on, b"HTTP/1.1 100 Continue\r\n\r\n");
    sidecar.stop.send(()).unwrap();
    while TcpStream::connect(sidecar.address).await.is_ok() {
        tokio::task::yield_now().await; // until the shutdown has closed the door
    }
    assert!(!sidecar.served.is_finished());
    tcp.write_all(CALL.as_bytes()).await.unwrap();
    let mut answer = String::new();
    tcp.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    sidecar.served.await.unwrap().unwrap();
}

/// Idle connections, used and unused, are closed at once: in virtual time nothing is waited for.
#[tokio::test]
async fn idle_connections_do_not_delay_the_end() {
    let sidecar = Sidecar::start(&["api_key"]).await;
    let (_unused, mut used) = (sidecar.tcp().await, sidecar.client().await);
    assert_eq!(used.post(CALL).await.status, StatusCode::OK);
    sidecar.stop.send(()).unwrap();
    let served = tokio::time::timeout(tollgate_sidecar::DRAIN_WAIT / 2, sidecar.served).await;
    served.expect("closed at once").unwrap().unwrap();
}

/// Who begins a request and never ends it cannot keep the server up.
#[tokio::test]
async fn an_unfinished_request_is_given_up() {
    let sidecar = Sidecar::start(&["api_key"]).await;
    let mut tcp = sidecar.tcp().await;
    tcp.write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\nGET /che").await.unwrap();
    let mut first = [0; 1];
    tcp.read_exact(&mut first).await.unwrap();
    tokio::time::pause(); // time goes on only when nothing else can
    sidecar.stop.send(()).unwrap();
    sidecar.served.await.unwrap().unwrap();
}
