//! Stage of the scenarios: two agents and a backend, and the listener of a gateway between a client and both.

use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::thread::spawn;
use std::time::Duration;

use axum::Router;
use axum::routing::any;
use http::{HeaderMap, StatusCode};
use tokio::runtime::Runtime;
use tollgate_servers::free_port;

use super::page;
use crate::fleet::fleet_of_processes::Member;
use crate::support::{Client, file, wait_for};

/// Time after which a client gives up. A gateway without the timeouts of the page waits for longer.
const PATIENCE: Duration = Duration::from_secs(20);
/// Timeouts of the page, and those of the tests.
const TIMEOUTS: [(&str, &str); 3] = [("100ms", "2s"), ("50ms", "2s"), ("0.1s", "2s")];

/// Rules of all scenarios, to which the rule of the page for Envoy's rate limit filter is added. Calls to `/search` are limited by key, and calls to `/users/ID` by address and method.
const RULES: &str = "
descriptors:
  ip: { client_ip: { trusted_hops: 1 } }
lists:
  deny: [{ api_key: closed }]
rules:
  - { name: keyed, match: { endpoint: /search }, per: [api_key], quota: 3/min, consistency: strict }
  - { name: pair, match: { endpoint: '/users/{id}' }, per: [ip, method, endpoint], quota: 2/min, consistency: strict }
  - { name: visitors, match: { endpoint: / }, per: [ip], quota: 1M/min }
";

/// Two agents with one rules file, and a backend.
pub(crate) struct Stage {
    pub(crate) first: Member,
    pub(crate) second: Member,
    pub(crate) rules: PathBuf,
    /// Texts of the page and of the files that it names, each with the text that replaces it in a test.
    replaced: Vec<(String, String)>,
    /// Lines of the first agent, each with the line below it for the second one.
    second_agents: Vec<[&'static str; 2]>,
}

/// Listener of a gateway, and the limits of its protocol.
#[derive(Clone, Copy)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts of a protocol")]
pub(crate) struct Front {
    pub(crate) port: u16,
    /// True if the agent gets the client's request, and not only descriptors that the gateway has taken from it.
    pub(crate) has_request: bool,
    /// True if clients see the headers of the limit on calls that pass.
    pub(crate) shows_limit: bool,
    /// True if a denial has the body of an agent.
    pub(crate) has_body: bool,
    /// True if a second agent is asked when the first one ends a connection on which it was asked.
    pub(crate) repeats_questions: bool,
}

impl Stage {
    /// Starts the agents and the backend of a gateway.
    pub(crate) fn start(gateway: &str) -> Self {
        let of_domain = page::block("## Behind Envoy", "yaml", "match: { domain: web }").replace("rules:\n", "");
        let rules = file(&format!("gateways-{}.yaml", free_port()), &format!("{RULES}{of_domain}"));
        let mut replaced = TIMEOUTS.map(|(text, other)| (text.to_owned(), other.to_owned())).to_vec();
        let mut port = |page: u16, port: u16| {
            replaced.push((format!(":{page}"), format!(":{port}")));
            replaced.push((format!("port_value: {page}"), format!("port_value: {port}")));
            format!("127.0.0.1:{port}")
        };
        let mut agent = |pages: [u16; 2]| {
            let [http, grpc] = pages.map(|page| port(page, free_port()));
            let path = rules.display().to_string();
            let args = ["agent", "--http", &http, "--grpc", &grpc, "--gateway", gateway, "--rules", &path];
            Member::start(args.map(ToOwned::to_owned).to_vec())
        };
        let (first, second) = (agent([8080, 8081]), agent([8082, 8083]));
        port(8079, free_port());
        port(9000, backend());
        Self { first, second, rules, replaced, second_agents: Vec::new() }
    }

    /// Adds rules, and waits until the first agent has them.
    pub(crate) fn add_rules(&self, text: &str) {
        let generation = || self.first.get("/healthz")["generation"].as_u64().unwrap();
        let before = generation();
        let rules = fs::read_to_string(&self.rules).unwrap();
        let draft = self.rules.with_extension("draft");
        fs::write(&draft, rules + text).unwrap();
        fs::rename(&draft, &self.rules).unwrap();
        wait_for("the next rules", || (generation() > before).then_some(()));
    }

    /// Adds the second agent to configurations, as the page says.
    pub(crate) fn with_second_agent(mut self, gateway: &str) -> Self {
        self.second_agents.push(page::second_agent(gateway));
        self
    }

    /// Returns a text of the page with the ports and the timeouts of the test.
    pub(crate) fn adapt(&self, text: &str) -> String {
        let mut lines: Vec<String> = text.lines().map(ToOwned::to_owned).collect();
        for [first, second] in &self.second_agents {
            if let Some(number) = lines.iter().position(|line| line.trim() == *first) {
                lines.insert(number + 1, lines[number].replace(first, second));
            }
        }
        self.replaced.iter().fold(lines.join("\n") + "\n", |text, (page, other)| text.replace(page, other))
    }

    /// Adapts all files of a folder.
    pub(crate) fn adapt_files(&self, folder: &Path) {
        for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_file()) {
            let text = fs::read_to_string(&path).unwrap();
            fs::write(&path, self.adapt(&text)).unwrap();
        }
    }
}

impl Front {
    /// Returns a listener without limits of its protocol.
    pub(crate) fn new(port: u16) -> Self {
        Self { port, has_request: true, shows_limit: true, has_body: true, repeats_questions: true }
    }

    pub(crate) fn client(self) -> Client {
        let address = SocketAddr::from(([127, 0, 0, 1], self.port));
        wait_for("the gateway", || Client::connect(address)).give_up_after(PATIENCE)
    }
}

/// Starts a backend, which answers `upstream`, and returns its port. It shows one of the headers that it has got.
fn backend() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let port = listener.local_addr().unwrap().port();
    let answer = |headers: HeaderMap| async move {
        let seen = headers.get("x-ratelimit-remaining").map(|value| ("x-backend-sees", value.clone()));
        (HeaderMap::from_iter(seen.map(|(name, value)| (http::HeaderName::from_static(name), value))), "upstream")
    };
    let router = Router::new()
        .route("/private", any((StatusCode::FORBIDDEN, "not yours")))
        .route("/broken", any((StatusCode::INTERNAL_SERVER_ERROR, "broken")))
        .fallback(answer);
    spawn(move || {
        Runtime::new().unwrap().block_on(async {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            tollgate_listen::serve(listener, router, std::future::pending()).await;
        });
    });
    port
}
