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
/// Headers with which a client asks for another method or path.
const FORGED_METHOD: (&str, &str) = ("x-original-method", "PUT");
const FORGED_URI: (&str, &str) = ("x-original-uri", "/free");
const FORGED_URL: (&str, &str) = ("x-original-url", "http://shop.example/free");
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
    let to_others = [&[FORGED_METHOD, FORGED_URI, FORGED_URL][..], &FORGED].concat();
    let every = [&to_others[..], &FORGED_FORWARDED].concat();
    let to_nginx = [&[FORGED_URL][..], &FORGED_FORWARDED, &FORGED].concat();
    let to_ingress = [&[FORGED_URI][..], &FORGED_FORWARDED, &FORGED].concat();
    // The method and path of the request to the agent, the headers of the gateway, and those of its client.
    #[expect(clippy::type_complexity, reason = "a row of the table")]
    let cases: [(Gateway, &str, &str, &[Header], &[Header]); 10] = [
        (Gateway::Nginx, "GET", "/check", &NGINX, &to_nginx),
        (Gateway::IngressNginx, "GET", "/check", &INGRESS, &to_ingress),
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

/// Contradictions are refused where no gateway is named, and where the header of the named one has two values.
#[tokio::test]
async fn headers_that_contradict_each_other_are_refused() {
    let twice = [("x-forwarded-uri", "/a"), ("x-forwarded-uri", "/b")];
    let cases: [(Gateway, &[Header], u16); 9] = [
        (Gateway::Any, &[("x-forwarded-uri", "/a"), ("x-original-uri", "/b")], 400),
        (Gateway::Any, &[("x-forwarded-method", "GET"), ("x-original-method", "PUT")], 400),
        (Gateway::Any, &twice, 400),
        (Gateway::Traefik, &twice, 400),
        (Gateway::Any, &[("x-original-uri", "/a"), ("x-original-url", "http://h/b")], 400),
        (Gateway::Nginx, &[("x-original-uri", "/a"), ("x-original-uri", "/b")], 400),
        (Gateway::IngressNginx, &[("x-original-url", "http://h/a"), ("x-original-url", "http://h/b")], 400),
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

/// P1: `Host` and target of a request behind ingress-nginx are the client's, and no parser of URLs accepts each of them. Such a URL
/// once was the path itself.
#[tokio::test]
async fn a_url_that_no_parser_accepts_hides_no_path() {
    let rules = "rules: [{ name: login, match: { endpoint: /login }, per: [], quota: 2/min }]";
    let rules = tollgate_rules::from_yaml("rules.yaml", rules, 1).unwrap();
    for gateway in [Gateway::IngressNginx, Gateway::Any] {
        let agent = Agent::builder().rules(rules.clone()).start().unwrap();
        let mut client = Sidecar::behind(gateway, agent).await.client().await;
        for (url, status) in [
            ("https://shop.example/login?x=<", 200),
            ("https://shop.example:80:80/login", 200),
            ("https://shop.example/login?x=<", 429),
            ("https://shop.example:80:80/login", 429),
            ("https://shop.example?x/login", 400),
            ("shop.example/login", 400),
            ("login", 400),
        ] {
            let answer = client.get("/check", &[("x-original-url", url)]).await;
            assert_eq!(answer.status.as_u16(), status, "{gateway:?} {url}");
            if status == 400 {
                let reason = answer.problem(400);
                assert!(reason.starts_with("x-original-url is neither a path nor a URL with one; let the"), "{reason}");
            }
        }
    }
}

#[test]
fn a_gateway_has_one_name() {
    for gateway in Gateway::ALL {
        assert_eq!(gateway.as_str().parse(), Ok(gateway));
    }
    let error = "kong".parse::<Gateway>().unwrap_err();
    assert_eq!(error, "write nginx, ingress-nginx, envoy, traefik, caddy, haproxy, any");
}
