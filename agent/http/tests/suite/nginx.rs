//! A real nginx in front of the agent, with the files of `deploy/nginx`.

use std::net::SocketAddr;

use http::StatusCode;
use tollgate::Agent;
use tollgate_http::Gateway;
use tollgate_servers::{Nginx, Proxy, free_port};

use crate::support::{Client, Sidecar};

const AGENT: &str = include_str!("../../../../deploy/nginx/tollgate.conf");
const QUESTION: &str = include_str!("../../../../deploy/nginx/tollgate-server.conf");
const RULES: &str = "
descriptors:
  ip: { client_ip: { trusted_hops: 1 } }
lists:
  deny: [{ ip: 192.0.2.0/24 }]
rules:
  - { name: pair, per: [ip, method, endpoint], quota: 2/min }
";

/// Starts nginx with the two files before a backend, and an agent behind a proxy that can hang.
async fn limited() -> (Sidecar, Proxy, Nginx, Client) {
    let rules = tollgate_rules::from_yaml("rules.yaml", RULES, 1).unwrap();
    let sidecar = Sidecar::behind(Gateway::Nginx, Agent::builder().rules(rules).start().unwrap()).await;
    let proxy = Proxy::start();
    proxy.forward_to(sidecar.address.port());
    let backend = free_port();
    let http = format!(
        "include FOLDER/tollgate.conf;
        server {{
            listen 127.0.0.1:{backend};
            location / {{ return 200 upstream; }}
            location /private {{ return 403 \"not yours\"; }}
            location /broken {{ return 500 broken; }}
        }}"
    );
    let server = format!(
        "include FOLDER/tollgate-server.conf;
        location / {{ proxy_pass http://127.0.0.1:{backend}; }}
        location /closed {{ deny all; }}"
    );
    let agent = AGENT.replace("127.0.0.1:8080", &format!("127.0.0.1:{}", proxy.port()));
    let nginx = Nginx::start(&http, &server, &[("tollgate.conf", &agent), ("tollgate-server.conf", QUESTION)]);
    let client = Client::connect(SocketAddr::from(([127, 0, 0, 1], nginx.port()))).await;
    (sidecar, proxy, nginx, client)
}

/// P1: nginx passes on what the agent admits, and a denial is a 429 with a body and the time of a retry. A client chooses neither
/// its path nor its address.
#[tokio::test(flavor = "multi_thread")]
async fn nginx_lets_pass_what_the_agent_admits() {
    let (_sidecar, _proxy, _nginx, mut client) = limited().await;
    for (path, remaining) in [("/users/7?page=1", "1"), ("/users/8", "0")] {
        let passed = client.ask("POST", path, &[], "body").await;
        assert_eq!((passed.status, &*passed.body), (StatusCode::OK, &b"upstream"[..]));
        assert_eq!((passed.header("x-ratelimit-limit"), passed.header("x-ratelimit-remaining")), ("2", remaining));
        assert_eq!(passed.header("ratelimit-policy"), r#""pair";q=2;w=60"#);
        assert!(!passed.headers.contains_key("retry-after"));
    }
    let forged = [
        ("x-original-uri", "/free"),
        ("x-original-url", "https://host/free"),
        ("x-original-method", "GET"),
        ("x-forwarded-uri", "/free"),
        ("x-forwarded-method", "GET"),
        ("x-forwarded-for", "9.9.9.9"),
    ];
    for headers in [&[][..], &forged] {
        let denied = client.ask("POST", "/users/9", headers, "body").await;
        assert_eq!((denied.status.as_u16(), denied.header("content-type")), (429, "application/problem+json"));
        let wait: u64 = denied.header("retry-after").parse().unwrap();
        assert_eq!((wait > 1, denied.header("x-ratelimit-remaining")), (true, "0"));
        let body = denied.json();
        assert_eq!((&body["status"], &body["detail"]), (&429.into(), &format!("try again in {wait} s").into()));
    }
    for (method, path) in [("GET", "/users/9"), ("HEAD", "/users/9"), ("DELETE", "/"), ("OPTIONS", "/%ff//x")] {
        let other = client.ask(method, path, &[], "").await;
        assert_eq!((other.status, other.header("x-ratelimit-remaining")), (StatusCode::OK, "1"), "{method} {path}");
    }
}

/// P1: answers that are not the agent's stay as they are: those of the backend, and a 403 of nginx.
#[tokio::test(flavor = "multi_thread")]
async fn answers_of_the_backend_and_of_nginx_stay_as_they_are() {
    let (_sidecar, _proxy, _nginx, mut client) = limited().await;
    for (path, status, body) in [("/private", 403, "not yours"), ("/broken", 500, "broken")] {
        let answer = client.ask("GET", path, &[], "").await;
        assert_eq!((answer.status.as_u16(), &*answer.body), (status, body.as_bytes()), "{path}");
    }
    let closed = client.ask("GET", "/closed", &[], "").await;
    assert_eq!((closed.status.as_u16(), closed.headers.contains_key("retry-after")), (403, false));
    let hidden = client.ask("GET", "/_tollgate", &[], "").await;
    assert_eq!(hidden.status, StatusCode::NOT_FOUND);
}

/// P1: calls pass while the agent hangs, and while it is stopped.
#[tokio::test(flavor = "multi_thread")]
async fn calls_pass_while_the_agent_hangs_or_is_stopped() {
    let (sidecar, proxy, _nginx, mut client) = limited().await;
    for _ in 0..2 {
        assert_eq!(client.ask("GET", "/users/1", &[], "").await.status, StatusCode::OK);
    }
    assert_eq!(client.ask("GET", "/users/1", &[], "").await.status, StatusCode::TOO_MANY_REQUESTS);
    proxy.set_stopped(true);
    for _ in 0..3 {
        let passed = client.ask("GET", "/users/1", &[], "").await;
        assert_eq!((passed.status, &*passed.body), (StatusCode::OK, &b"upstream"[..]), "the agent hangs");
    }
    proxy.set_stopped(false);
    assert_eq!(client.ask("GET", "/users/1", &[], "").await.status, StatusCode::TOO_MANY_REQUESTS);
    sidecar.stop.send(()).unwrap();
    sidecar.served.await.unwrap().unwrap();
    assert_eq!(client.ask("GET", "/users/1", &[], "").await.status, StatusCode::OK, "the agent is stopped");
}
