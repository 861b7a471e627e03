//! A real Envoy in front of the agent, with the filter of `docs/gateways.md`.

use http::StatusCode;
use tollgate::Agent;
use tollgate_http::Gateway;
use tollgate_servers::Envoy;

use crate::support::{Client, Sidecar};

const DOCUMENT: &str = include_str!("../../../../docs/gateways.md");
const RULES: &str = "
descriptors:
  ip: { client_ip: { trusted_hops: 1 } }
rules:
  - { name: pair, per: [ip, method, endpoint], quota: 2/min }
";

/// Configuration of Envoy with the documented filter; the gateway's own routes answer `upstream`.
fn config(agent_port: u16) -> String {
    let filter = DOCUMENT.split("```yaml\n").find(|block| block.contains("envoy.filters.http.ext_authz")).unwrap();
    let filter = filter.split("```").next().unwrap().replace('\n', "\n          ");
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
            virtual_hosts:
            - name: all
              domains: ["*"]
              routes:
              - match: {{ prefix: / }}
                direct_response: {{ status: 200, body: {{ inline_string: upstream }} }}
          http_filters:
          {filter}
          - name: envoy.filters.http.router
            typed_config: {{ "@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router }}
  clusters:
  - name: tollgate
    load_assignment:
      cluster_name: tollgate
      endpoints:
      - lb_endpoints:
        - endpoint: {{ address: {{ socket_address: {{ address: 127.0.0.1, port_value: {agent_port} }} }} }}
"#
    )
}

/// P1: Envoy asks about each request, of any method and path. Clients see the headers and the denial, and cannot choose the
/// path or the address that they are counted under.
#[tokio::test(flavor = "multi_thread")]
async fn envoy_lets_pass_what_the_agent_admits() {
    let rules = tollgate_rules::from_yaml("rules.yaml", RULES, 1).unwrap();
    let sidecar = Sidecar::behind(Gateway::Envoy, Agent::builder().rules(rules).start().unwrap()).await;
    let envoy = Envoy::start(&config(sidecar.address.port()));
    let mut client = Client::connect(([127, 0, 0, 1], envoy.port()).into()).await;
    for (path, remaining) in [("/users/7?page=1", "1"), ("/users/8", "0")] {
        let passed = client.ask("POST", path, &[], "body").await;
        assert_eq!((passed.status, &*passed.body), (StatusCode::OK, &b"upstream"[..]));
        assert_eq!(passed.header("server"), "envoy");
        assert_eq!((passed.header("x-ratelimit-limit"), passed.header("x-ratelimit-remaining")), ("2", remaining));
        assert_eq!(passed.header("ratelimit-policy"), r#""pair";q=2;w=60"#);
    }
    let forged = [("x-forwarded-uri", "/free"), ("x-forwarded-method", "GET"), ("x-forwarded-for", "9.9.9.9")];
    for headers in [&[][..], &forged] {
        let denied = client.ask("POST", "/users/9", headers, "body").await;
        assert_eq!((denied.status.as_u16(), &denied.json()["rule"]), (429, &"pair".into()));
        assert!(denied.header("retry-after").parse::<u64>().unwrap() > 1);
    }
    for (method, path) in [("GET", "/users/9"), ("HEAD", "/users/9"), ("DELETE", "/"), ("OPTIONS", "/%ff//x")] {
        let other = client.ask(method, path, &[], "").await;
        assert_eq!((other.status, other.header("x-ratelimit-remaining")), (StatusCode::OK, "1"), "{method} {path}");
    }
    sidecar.stop.send(()).unwrap();
    sidecar.served.await.unwrap().unwrap();
    let alone = client.ask("POST", "/users/9", &[], "").await;
    assert_eq!(alone.status, StatusCode::OK, "a call passes while the agent is away");
}
