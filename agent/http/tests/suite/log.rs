//! Log of answers.

use std::sync::{Mutex, Once};

use tollgate::{Agent, Rule};
use tracing::Level;
use tracing_subscriber::fmt::MakeWriter;

use crate::support::{CALL, Sidecar};

const TRACE: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

/// Returns the lines of a node of this name about answers to requests with this `traceparent`, one for each way to ask. The
/// subscriber is that of the process, because one of a thread may miss lines that another thread has met before.
async fn lines(node: &str, trace: &str) -> Vec<String> {
    static LOG: Mutex<Vec<u8>> = Mutex::new(Vec::new());
    static SUBSCRIBED: Once = Once::new();
    SUBSCRIBED.call_once(|| {
        let subscriber =
            tracing_subscriber::fmt().with_ansi(false).with_max_level(Level::TRACE).with_writer(|| LOG.make_writer());
        tracing::subscriber::set_global_default(subscriber.finish()).expect("it is the only one");
    });
    let agent = Agent::builder().node(node).rule(Rule::per("per-key", &["api_key"], "100/min".parse().unwrap()));
    let mut client = Sidecar::of(agent.start().unwrap()).await.client().await;
    let headers = [("traceparent", trace), ("x-api-key", "k1")];
    let batch = format!(r#"{{"calls": [{CALL}]}}"#);
    let envoy = r#"{"domain": "d", "descriptors": [{"entries": [{"key": "api_key", "value": "k1"}]}]}"#;
    for (method, path, body) in [
        ("GET", "/check", ""),
        ("GET", "/check/path", ""),
        ("POST", "/check", CALL),
        ("POST", "/batch", &*batch),
        ("POST", "/json", envoy),
    ] {
        assert_eq!(client.ask(method, path, &headers, body.to_owned()).await.status, 200);
    }
    let log = String::from_utf8(LOG.lock().unwrap().clone()).unwrap();
    let is_of_node =
        |line: &&str| line.contains("tollgate::answers: answered") && line.contains(&format!("node=\"{node}\""));
    log.lines().filter(is_of_node).map(ToOwned::to_owned).collect()
}

/// H3: the line of an answer has the trace of its request, and no key.
#[tokio::test]
async fn an_answer_is_logged_with_the_trace_of_its_request() {
    let logged = lines("traced", TRACE).await;
    assert_eq!(logged.len(), 5, "{logged:?}");
    for line in &logged {
        for part in ["allowed=true", "status=200", "id=\"traced-", &format!("traceparent=\"{TRACE}\"")] {
            assert!(line.contains(part), "{part} is missing: {line}");
        }
        assert!(!line.contains("k1"), "{line}");
    }
    assert!(logged[2].contains("rule=\"per-key\""), "{}", logged[2]);
}

/// An invalid trace is ignored.
#[tokio::test]
async fn an_invalid_trace_is_left_out() {
    let logged = lines("untraced", &TRACE.to_uppercase()).await;
    assert!(logged.len() == 5 && logged.iter().all(|line| !line.contains("traceparent")), "{logged:?}");
}
