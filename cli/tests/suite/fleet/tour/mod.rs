//! The documents as a newcomer follows them: each command is run as it is printed, in order, by a user without rights.
//!
//! They name the ports 8080, 8090, 8180 and 8280, which must be free.

mod document;
mod newcomer;

use std::net::{SocketAddr, TcpListener};

use document::{Block, blocks};
use newcomer::Newcomer;
use tollgate_servers::{Finished, Kafka, Redis};

use crate::support::{Client, wait_for};

const README: &str = include_str!("../../../../../README.md");
const REPLAY: &str = include_str!("../../../../../docs/replay.md");
const FLEET: &str = include_str!("../../../../../docs/fleet.md");
/// Pages about a running fleet.
const PAGES: [(&str, &str); 3] = [
    ("docs/rules.md", include_str!("../../../../../docs/rules.md")),
    ("docs/top.md", include_str!("../../../../../docs/top.md")),
    ("docs/operating.md", include_str!("../../../../../docs/operating.md")),
];
const PORTS: [u16; 4] = [8080, 8090, 8180, 8280];
const LOG_LINE: &str =
    "192.0.2.7 - - [02/Jan/2026:03:04:05 +0000] \"GET /search?q=tea HTTP/1.1\" 200 17 \"-\" \"curl/8\"\n";
const JSON_LINE: &str =
    r#"{"ts":"2026-01-02T03:04:05Z","remote":"192.0.2.7","url":"/search","headers":{"x-api-key":"k1"}}"#;

#[test]
fn the_documents_are_followed_as_they_stand() {
    for port in PORTS {
        let free = TcpListener::bind(("127.0.0.1", port));
        drop(free.unwrap_or_else(|error| panic!("port {port}: {error}; end the process that uses it")));
    }
    let (redis, kafka) = (Redis::start(), Kafka::start());
    let replaced = [
        ("broker:9092", kafka.brokers()),
        ("redis://10.0.0.5", redis.url()),
        ("http://10.0.0.7", "http://127.0.0.1".to_owned()),
        (" FILE", " rules.yaml".to_owned()),
        ("OLD NEW", "rules.yaml rules.yaml".to_owned()),
        (" GENERATION", " 1".to_owned()),
    ];
    let mut newcomer = Newcomer::arrive(&replaced);
    newcomer.write("access.log", &LOG_LINE.repeat(70));
    newcomer.write("app.jsonl", JSON_LINE);

    let mut rules = Vec::new();
    for block in blocks(README) {
        for (comment, text, said) in newcomer.run(&block) {
            is_good("README.md", &text, &said);
            let Some((_, rule)) = comment.rsplit_once("rule ") else { continue };
            let rule = rule.trim_end_matches('.');
            let named = [format!("\"rule\":\"{rule}\""), format!("\nrule         {rule}\n")];
            assert!(named.iter().any(|named| said.out.contains(named)), "{text}: {}", said.out);
            rules.push(rule.to_owned());
        }
    }
    assert_eq!(rules, ["per-key", "search", "search", "search", "login"], "the tour of the README");
    newcomer.end_what_runs();
    follow(&mut newcomer, "docs/replay.md", REPLAY);

    let is_own = |block: &&Block| block.commands.iter().any(|command| command.text.starts_with("tollgate aggregator "));
    newcomer.run(blocks(FLEET).iter().find(is_own).expect("processes of one's own"));
    let agent = SocketAddr::from(([127, 0, 0, 1], PORTS[0]));
    let mut agent = Client::connect(agent).expect("the agent listens");
    wait_for("the published rules", || (agent.get("/readyz", &[]).status == 200).then_some(()));
    (0..150).for_each(|_| drop(agent.check("k1")));
    (0..50).for_each(|_| drop(agent.check("k9")));
    let mut aggregator = Client::connect(SocketAddr::from(([127, 0, 0, 1], PORTS[1]))).expect("the aggregator listens");
    for path in ["/api/v1/callers?sort=denied", "/api/v1/usage?api_key=k9&minutes=60", "/api/v1/agents"] {
        wait_for(path, || {
            let answer = aggregator.get(path, &[]).json();
            answer.as_object()?.values().any(|of| of.as_array().is_some_and(|rows| !rows.is_empty())).then_some(())
        });
    }
    for (name, page) in PAGES {
        follow(&mut newcomer, name, page);
    }
    assert_eq!(agent.check("k1").json()["rule"], "lists.deny", "the last page has put k1 on the deny list");
    newcomer.end_what_runs();
}

fn follow(newcomer: &mut Newcomer, name: &str, page: &str) {
    for block in blocks(page) {
        newcomer.run(&block).iter().for_each(|(_, text, said)| is_good(name, text, said));
    }
}

/// Checks that a command succeeds, and says something.
fn is_good(document: &str, text: &str, Finished { exit, out, err }: &Finished) {
    assert_eq!(*exit, 0, "{document}: `{text}`: {out}{err}");
    let is_quiet = ["export ", "unset ", " > "].iter().any(|word| text.contains(word));
    assert!(is_quiet || !out.trim().is_empty(), "{document}: `{text}` says nothing: {err}");
    assert!(!text.starts_with("curl -i") || out.contains("200 OK"), "{document}: `{text}`: {out}");
}
