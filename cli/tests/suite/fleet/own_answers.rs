//! Own answers of rules at three agents over one real Redis: over HTTP, and by `ext_authz` over gRPC.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use tollgate_servers::{Redis, free_port};

use super::fleet_of_processes::Member;
use crate::support::file;

/// Each quota has one call for each agent. The deadline is one that a busy machine keeps.
const RULES: &str = r#"
defaults: { deadline: 1s }
rules:
  - name: own
    match: { api_key: own }
    per: [api_key]
    quota: 3/h
    consistency: strict
    answer: { status: 420, title: Calm down, message: "Wait, please.", fields: { plan: free, tries: 3 }, hide: [RateLimit, X-RateLimit-Reset] }
  - name: nested
    match: { api_key: nested }
    per: [api_key]
    quota: 3/h
    consistency: strict
    answer: { status: 503, body: nested, fields: { plan: paid }, hide: [RateLimit-Policy, X-RateLimit-Limit] }
"#;
/// Headers of which a rule hides some.
const HEADERS: [&str; 6] =
    ["ratelimit", "ratelimit-policy", "x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset", "retry-after"];

/// Agent with both surfaces.
struct Agent {
    node: String,
    member: Member,
    grpc: SocketAddr,
}

/// Answer of either surface.
struct Given {
    status: u64,
    /// Content type, and the node.
    named: [String; 2],
    /// Headers that are there, of [`HEADERS`].
    told: Vec<&'static str>,
    body: Value,
}

impl Agent {
    fn start(number: usize, redis: &Redis, rules: &Path) -> Self {
        let node = format!("gw-{number}");
        let [http, grpc] = [free_port(), free_port()].map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
        let (rules, http, grpc_text) = (rules.display().to_string(), http.to_string(), grpc.to_string());
        let args = ["agent", "--node", &node, "--redis", &redis.url(), "--rules", &rules, "--http", &http];
        let member = Member::start(args.iter().chain(&["--grpc", &grpc_text]).map(ToString::to_string).collect());
        member.wait_until_ready();
        Self { node, member, grpc }
    }

    fn over_http(&self, key: &str) -> Given {
        let answer = self.member.client().check(key);
        let header = |name: &str| answer.find(name).unwrap_or_default().to_owned();
        let told = HEADERS.into_iter().filter(|name| answer.find(name).is_some()).collect();
        let named = [header("content-type"), header("x-gateway-node")];
        Given { status: answer.status.into(), named, told, body: answer.json() }
    }

    /// Asks with curl, which writes the frames of gRPC as they are. Status 200 stands for an admission, which has no body.
    fn over_grpc(&self, key: &str) -> Given {
        let header = [field(1, b"x-api-key"), field(2, key.as_bytes())].concat();
        let http = [field(2, b"GET"), field(3, &header), field(4, b"/")].concat();
        let message = field(1, &field(4, &field(2, &http)));
        let len = u8::try_from(message.len()).unwrap();
        let frame = [&[0, 0, 0, 0, len][..], &message].concat();
        let sent = file(&format!("own-answers-{}-{key}.frame", self.node), "");
        std::fs::write(&sent, frame).unwrap();
        let url = format!("http://{}/envoy.service.auth.v3.Authorization/Check", self.grpc);
        let mut curl = Command::new("curl");
        curl.args(["-sS", "-m", "60", "--http2-prior-knowledge", "-H", "content-type: application/grpc"]);
        curl.args(["-H", "te: trailers", "--data-binary"]).arg(format!("@{}", sent.display())).arg(url);
        let asked = curl.output().expect("curl is missing; install it: apt-get install curl");
        assert!(asked.status.success() && asked.stdout.len() > 5, "{asked:?}");
        let answer = fields(&asked.stdout[5..]);
        let Some((_, _, denied)) = answer.iter().find(|(number, ..)| *number == 2) else {
            assert!(answer.iter().any(|(number, ..)| *number == 3), "{asked:?}");
            return Given { status: 200, named: Default::default(), told: Vec::new(), body: Value::Null };
        };
        let (mut status, mut headers, mut body) = (0, BTreeMap::new(), Value::Null);
        for (number, _, content) in fields(denied) {
            match number {
                1 => status = fields(content)[0].1,
                2 => {
                    let option = fields(content);
                    let texts = fields(option[0].2).into_iter().map(|(_, _, text)| str::from_utf8(text).unwrap());
                    let texts: Vec<_> = texts.collect();
                    headers.insert(texts[0].to_owned(), texts[1].to_owned());
                }
                _ => body = serde_json::from_slice(content).unwrap(),
            }
        }
        let named = ["content-type", "x-gateway-node"].map(|name| headers.get(name).cloned().unwrap_or_default());
        let told = HEADERS.into_iter().filter(|name| headers.contains_key(*name)).collect();
        Given { status, named, told, body }
    }
}

/// Returns a short field of Protobuf with text, or with another message.
fn field(number: u8, content: &[u8]) -> Vec<u8> {
    let len = u8::try_from(content.len()).ok().filter(|len| *len < 0x80).expect("a short field");
    [&[number << 3 | 2, len][..], content].concat()
}

/// Returns the fields of a message of Protobuf: their numbers, and their numeric values or their contents.
fn fields(mut bytes: &[u8]) -> Vec<(u64, u64, &[u8])> {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let tag = varint(&mut bytes);
        let value = varint(&mut bytes);
        let len = if tag & 7 == 2 { usize::try_from(value).unwrap() } else { 0 };
        assert!([0, 2].contains(&(tag & 7)), "a field of another kind");
        let (content, rest) = bytes.split_at(len);
        found.push((tag >> 3, value, content));
        bytes = rest;
    }
    found
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let (mut value, mut shift) = (0, 0);
    while let Some((first, rest)) = bytes.split_first() {
        *bytes = rest;
        value |= u64::from(first & 0x7f) << shift;
        shift += 7;
        if *first < 0x80 {
            break;
        }
    }
    value
}

/// H3: of a quota that three agents share, each denies further calls with the answer of the rule, also one that it repeats, and both
/// surfaces give the same status, texts, fields and headers.
#[test]
fn each_agent_denies_with_the_answer_of_the_rule_over_http_and_grpc() {
    let (redis, rules) = (Redis::start(), file("own-answers.yaml", RULES));
    let agents = [1, 2, 3].map(|number| Agent::start(number, &redis, &rules));
    for (key, status, content_type, hidden, members) in [
        (
            "own",
            420,
            "application/problem+json",
            ["ratelimit", "x-ratelimit-reset"],
            json!({ "/title": "Calm down", "/detail": "Wait, please.", "/status": 420, "/plan": "free", "/tries": 3, "/rule": "own" }),
        ),
        (
            "nested",
            503,
            "application/json",
            ["ratelimit-policy", "x-ratelimit-limit"],
            json!({ "/error/code": "RATE_LIMIT_EXCEEDED", "/error/message": "Rate limit of 3 requests per 3600 seconds exceeded", "/error/details/limit": 3, "/plan": "paid" }),
        ),
    ] {
        let admitted = [agents[0].over_http(key), agents[1].over_grpc(key), agents[2].over_http(key)];
        assert_eq!(admitted.map(|given| given.status), [200; 3], "{key}");
        let shown: Vec<_> = HEADERS.into_iter().filter(|name| !hidden.contains(name)).collect();
        for agent in &agents {
            for given in [agent.over_http(key), agent.over_grpc(key), agent.over_http(key), agent.over_grpc(key)] {
                assert_eq!((given.status, &given.told), (status, &shown), "{key} at {}", agent.node);
                assert_eq!(given.named, [content_type, &agent.node]);
                for (pointer, expected) in members.as_object().unwrap() {
                    assert_eq!(given.body.pointer(pointer), Some(expected), "{pointer}: {}", given.body);
                }
            }
        }
    }
}
