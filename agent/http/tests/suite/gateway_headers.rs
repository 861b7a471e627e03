//! Headers that each gateway sets, and those that its client adds.

use tollgate::Agent;
use tollgate_http::Gateway;

use crate::support::Sidecar;

const RULES: &str = "
descriptors: { ip: { client_ip: { trusted_hops: 1 } } }
rules: [{ name: each, per: [ip, method, endpoint], quota: 9/min }]
";
const CLIENT: (&str, &str) = ("x-forwarded-for", "203.0.113.7");
const NGINX: [(&str, &str); 3] = [("x-original-method", "POST"), ("x-original-uri", "/users/17?page=2"), CLIENT];
const INGRESS: [(&str, &str); 3] =
    [("x-original-method", "POST"), ("x-original-url", "https://shop.example/users/17?page=2"), CLIENT];
const FORWARD: [(&str, &str); 4] = [
    ("x-forwarded-method", "POST"),
    ("x-forwarded-uri", "/users/17?page=2"),
    ("x-forwarded-host", "shop.example"),
    CLIENT,
];
/// Headers of nginx, and of the others, with which a client asks for another path.
const FORGED_ORIGINAL: [(&str, &str); 3] =
    [("x-original-method", "PUT"), ("x-original-uri", "/free"), ("x-original-url", "http://shop.example/free")];
const FORGED_FORWARDED: [(&str, &str); 2] = [("x-forwarded-method", "PUT"), ("x-forwarded-uri", "/free")];
/// Headers that no gateway sets.
const FORGED: [(&str, &str); 5] = [
    ("x-envoy-original-path", "/free"),
    ("x-envoy-external-address", "198.51.100.9"),
    ("x-http-method-override", "PUT"),
    ("x-rewrite-url", "/free"),
    ("x-real-ip", "198.51.100.9"),
];

type Header = (&'static str, &'static str);

/// P2: behind each gateway the client's request is counted by the headers that this gateway sets, and any others that the client adds
/// change nothing.
#[tokio::test]
async fn only_the_headers_of_the_gateway_are_believed() {
    let every = [&FORGED_ORIGINAL[..], &FORGED_FORWARDED, &FORGED].concat();
    let to_nginx = [&FORGED_FORWARDED[..], &FORGED].concat();
    let to_others = [&FORGED_ORIGINAL[..], &FORGED].concat();
    // The method and path of the request to the agent, the headers of the gateway, and those of its client.
    #[expect(clippy::type_complexity, reason = "a row of the table")]
    let cases: [(Gateway, &str, &str, &[Header], &[Header]); 10] = [
        (Gateway::Nginx, "GET", "/check", &NGINX, &to_nginx),
        (Gateway::Nginx, "GET", "/check", &INGRESS, &to_nginx),
        (Gateway::Traefik, "GET", "/check", &FORWARD, &to_others),
        (Gateway::Caddy, "GET", "/check", &FORWARD, &to_others),
        (Gateway::Haproxy, "HEAD", "/check", &FORWARD, &to_others),
        (Gateway::Envoy, "POST", "/check/users/17?page=2", &[CLIENT], &every),
        (Gateway::Any, "GET", "/check", &NGINX, &FORGED),
        (Gateway::Any, "GET", "/check", &INGRESS, &FORGED),
        (Gateway::Any, "GET", "/check", &FORWARD, &FORGED),
        (Gateway::Any, "POST", "/check/users/17?page=2", &[CLIENT], &every),
    ];
    let rules = tollgate_rules::from_yaml("rules.yaml", RULES, 1).unwrap();
    for (gateway, method, path, own, forged) in cases {
        let agent = Agent::builder().rules(rules.clone()).start().unwrap();
        let mut client = Sidecar::behind(gateway, agent).await.client().await;
        for (headers, remaining) in [(own.to_vec(), "8"), ([own, forged].concat(), "7"), ([forged, own].concat(), "6")]
        {
            let answer = client.ask(method, path, &headers, "").await;
            assert_eq!(answer.header("x-ratelimit-remaining"), remaining, "{gateway:?} {path} {headers:?}");
        }
        let call = r#"{"descriptors": {"ip": "203.0.113.7", "method": "POST", "endpoint": "/users/{id}"}}"#;
        assert_eq!(client.post(call).await.header("x-ratelimit-remaining"), "5", "{gateway:?} {path}");
    }
}

/// Contradictions are refused where no gateway is named, and where both forms are of the named one.
#[tokio::test]
async fn headers_that_contradict_each_other_are_refused() {
    let twice = [("x-forwarded-uri", "/a"), ("x-forwarded-uri", "/b")];
    let cases: [(Gateway, &[Header], u16); 7] = [
        (Gateway::Any, &[("x-forwarded-uri", "/a"), ("x-original-uri", "/b")], 400),
        (Gateway::Any, &[("x-forwarded-method", "GET"), ("x-original-method", "PUT")], 400),
        (Gateway::Any, &twice, 400),
        (Gateway::Traefik, &twice, 400),
        (Gateway::Nginx, &[("x-original-uri", "/a"), ("x-original-url", "http://h/b")], 400),
        (Gateway::Nginx, &twice, 200),
        (Gateway::Envoy, &twice, 200),
    ];
    for (gateway, headers, status) in cases {
        let rules = tollgate_rules::from_yaml("rules.yaml", RULES, 1).unwrap();
        let mut client = Sidecar::behind(gateway, Agent::builder().rules(rules).start().unwrap()).await.client().await;
        for path in ["/check", "/explain"] {
            assert_eq!(client.get(path, headers).await.status.as_u16(), status, "{gateway:?} {path} {headers:?}");
        }
    }
}

#[test]
fn a_gateway_has_one_name() {
    for gateway in Gateway::ALL {
        assert_eq!(gateway.as_str().parse(), Ok(gateway));
    }
    let error = "kong".parse::<Gateway>().unwrap_err();
    assert_eq!(error, "write nginx, envoy, traefik, caddy, haproxy, any");
}
