//! A real Envoy that asks the agent by its rate limit filter or by `ext_authz`, with the configuration of `docs/gateways.md`.

use std::net::SocketAddr;

use http::{HeaderMap, Request, StatusCode};
use http_body_util::{BodyExt, Empty};
use hyper::body::Bytes;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tollgate::Agent;
use tollgate_servers::{Envoy, Proxy, free_port};

const DOCUMENT: &str = include_str!("../../../../docs/gateways.md");

const RATE_LIMIT: &str = "envoy.filters.http.ratelimit";
const EXTERNAL_AUTH: &str = "envoy.filters.http.ext_authz";
const PAIR: &str = "
descriptors:
  ip: { client_ip: { trusted_hops: 1 } }
rules:
  - { name: pair, per: [ip, method, endpoint], quota: 2/min }
";

/// Returns the last block of the document that has this text, indented by so many spaces.
fn block(text: &str, indent: usize) -> String {
    let blocks = DOCUMENT.split("```yaml\n").skip(1).filter_map(|block| block.split("```").next());
    let block = blocks.filter(|block| block.contains(text)).last().unwrap();
    block.trim_end().replace('\n', &format!("\n{}", " ".repeat(indent)))
}

/// Configuration of Envoy with a documented filter, and the documented route and cluster.
fn config(filter: &str, agent_port: u16) -> String {
    let cluster = block("name: tollgate_grpc\n", 2).replace("8081", &agent_port.to_string());
    format!(
        r#"
static_resources:
  listeners:
  - address: {{ socket_address: {{ address: 127.0.0.1, port_value: LISTENER_PORT }} }}
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: http
          use_remote_address: true
          route_config:
            response_headers_to_add:
            - header: {{ key: x-decided-by, value: "%DYNAMIC_METADATA({filter}:rule)%" }}
            virtual_hosts:
            - name: all
              domains: ["*"]
              {limits}
              routes:
              - match: {{ prefix: / }}
                route: {{ cluster: backend }}
          http_filters:
          {block}
          - name: envoy.filters.http.router
            typed_config: {{ "@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router }}
  - address: {{ socket_address: {{ address: 127.0.0.1, port_value: {backend} }} }}
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: backend
          route_config:
            response_headers_to_add:
            - header: {{ key: x-backend-sees, value: "%REQ(x-ratelimit-remaining)%" }}
            virtual_hosts:
            - name: all
              domains: ["*"]
              routes:
              - match: {{ prefix: / }}
                direct_response: {{ status: 200, body: {{ inline_string: upstream }} }}
          http_filters:
          - name: envoy.filters.http.router
            typed_config: {{ "@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router }}
  clusters:
  - name: backend
    load_assignment:
      cluster_name: backend
      endpoints: [{{ lb_endpoints: [{{ endpoint: {{ address: {{ socket_address: {{ address: 127.0.0.1, port_value: {backend} }} }} }} }}] }}]
  {cluster}
"#,
        backend = free_port(),
        limits = block("rate_limits:", 14),
        block = block(&format!("{filter}\n  typed_config"), 10),
    )
}

struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    body: Bytes,
}

/// Agent that listens until it is stopped.
struct Server {
    stop: oneshot::Sender<()>,
    served: JoinHandle<std::io::Result<()>>,
}

struct Client(SendRequest<Empty<Bytes>>);

impl Client {
    async fn connect(port: u16) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        let (client, connection) = handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        Self(client)
    }

    async fn get(&mut self, path: &str, key: &str) -> Answer {
        self.ask("GET", path, &[("x-api-key", key)]).await
    }

    async fn ask(&mut self, method: &str, path: &str, headers: &[(&str, &str)]) -> Answer {
        let request = Request::builder().method(method).uri(path).header("host", "shop");
        let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        self.0.ready().await.expect("the connection is alive");
        let (parts, body) = self.0.send_request(request.body(Empty::new()).unwrap()).await.unwrap().into_parts();
        Answer { status: parts.status, headers: parts.headers, body: body.collect().await.unwrap().to_bytes() }
    }
}

impl Answer {
    fn header(&self, name: &str) -> &str {
        self.headers.get(name).unwrap_or_else(|| panic!("no {name}: {:?}", self.headers)).to_str().unwrap()
    }
}

/// Starts an agent behind a proxy that can hang, and Envoy with a filter.
async fn limited(filter: &str, rules: &str) -> (Server, Proxy, Envoy, Client) {
    let rules = tollgate_rules::from_yaml("rules.yaml", rules, 1).unwrap();
    let agent = Agent::builder().node("gw-1").rules(rules).start().unwrap();
    let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
    let proxy = Proxy::start();
    proxy.forward_to(listener.local_addr().unwrap().port());
    let (stop, stopped) = oneshot::channel();
    let stopped = async move { drop(stopped.await) };
    let served = tokio::spawn(tollgate_listen::serve(listener, tollgate_grpc::router(agent), stopped));
    let envoy = Envoy::start(&config(filter, proxy.port()));
    let client = Client::connect(envoy.port()).await;
    (Server { stop, served }, proxy, envoy, client)
}

/// P1: Envoy's rate limit filter asks the agent over gRPC. Clients see its headers, and later filters the deciding rule.
#[tokio::test(flavor = "multi_thread")]
async fn the_rate_limit_filter_asks_the_agent() {
    let (_server, _proxy, _envoy, mut client) = limited(RATE_LIMIT, &block("name: per-key", 0)).await;
    for remaining in (0..3).rev() {
        let passed = client.get("/search", "k1").await;
        assert_eq!((passed.status, &*passed.body), (StatusCode::OK, &b"upstream"[..]));
        assert_eq!((passed.header("x-ratelimit-limit"), passed.header("x-gateway-node")), ("3", "gw-1"));
        assert_eq!(passed.header("x-ratelimit-remaining"), remaining.to_string());
        assert_eq!(passed.header("x-decided-by"), "per-key");
    }
    let denied = client.get("/search", "k1").await;
    assert_eq!((denied.status, denied.header("x-decided-by")), (StatusCode::TOO_MANY_REQUESTS, "per-key"));
    assert!(denied.header("retry-after").parse::<u64>().unwrap() >= 1);
    assert_eq!(client.get("/search", "k2").await.status, StatusCode::OK);
}

/// P1: calls pass while the agent hangs, and while it is stopped.
#[tokio::test(flavor = "multi_thread")]
async fn calls_pass_while_the_agent_hangs_or_is_stopped() {
    let (server, proxy, _envoy, mut client) = limited(RATE_LIMIT, &block("name: per-key", 0)).await;
    for expected in [StatusCode::OK, StatusCode::OK, StatusCode::OK, StatusCode::TOO_MANY_REQUESTS] {
        assert_eq!(client.get("/search", "k1").await.status, expected);
    }
    proxy.set_stopped(true);
    assert_eq!(client.get("/search", "k1").await.status, StatusCode::OK, "the agent hangs");
    proxy.set_stopped(false);
    server.stop.send(()).unwrap();
    server.served.await.unwrap().unwrap();
    for _ in 0..3 {
        assert_eq!(client.get("/search", "k1").await.status, StatusCode::OK, "the agent is stopped");
    }
}

/// P1: `ext_authz` over gRPC has the answers of `/check/PATH`. Clients choose neither the path nor the address that they are counted
/// under, and the backend sees no headers of answers that a client has made up.
#[tokio::test(flavor = "multi_thread")]
async fn external_authorization_asks_the_agent() {
    let (_server, proxy, _envoy, mut client) = limited(EXTERNAL_AUTH, PAIR).await;
    for (path, remaining) in [("/users/7?page=1", "1"), ("/users/8", "0")] {
        let passed = client.ask("POST", path, &[("x-ratelimit-remaining", "99")]).await;
        assert_eq!((passed.status, &*passed.body), (StatusCode::OK, &b"upstream"[..]));
        assert_eq!((passed.header("x-ratelimit-limit"), passed.header("x-ratelimit-remaining")), ("2", remaining));
        assert_eq!((passed.header("x-decided-by"), passed.headers.get("x-backend-sees")), ("pair", None));
    }
    let forged = [("x-forwarded-uri", "/free"), ("x-forwarded-method", "GET"), ("x-forwarded-for", "9.9.9.9")];
    for headers in [&[][..], &forged] {
        let denied = client.ask("POST", "/users/9", headers).await;
        assert_eq!((denied.status.as_u16(), denied.header("content-type")), (429, "application/problem+json"));
        let body: serde_json::Value = serde_json::from_slice(&denied.body).unwrap();
        assert_eq!((&body["rule"], &body["allowed"]), (&"pair".into(), &false.into()));
        assert!(denied.header("retry-after").parse::<u64>().unwrap() > 1);
    }
    for (method, path) in [("GET", "/users/9"), ("HEAD", "/users/9"), ("DELETE", "/"), ("OPTIONS", "/%ff//x")] {
        let other = client.ask(method, path, &[]).await;
        assert_eq!((other.status, other.header("x-ratelimit-remaining")), (StatusCode::OK, "1"), "{method} {path}");
    }
    proxy.set_stopped(true);
    assert_eq!(client.ask("POST", "/users/9", &[]).await.status, StatusCode::OK, "the agent hangs");
}
