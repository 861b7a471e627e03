//! Traces of requests over `ext_authz` and the rate limit service: in the log of answers, in the decision log and in the records of
//! calls.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, Once};
use std::time::Duration;

use tollgate_bus::embedded::EmbeddedBus;
use tollgate_bus::{Bus, LogReader, ReadFrom, Topic};
use tollgate_core::clock::SystemClock;
use tollgate_core::messages::calls::Batch;
use tollgate_core::messages::decisions::DecisionEvent;
use tollgate_engine::{ADMISSIONS_ALL, DecisionSampler, DecisionSampling, SampledDenials};
use tollgate_servers::wait_for;
use tollgate_wire::Record;
use tracing::Level;
use tracing_subscriber::fmt::MakeWriter;

use super::*;
use crate::proto::envoy::service::auth::v3::CheckResponse;
use crate::proto::envoy::service::auth::v3::check_response::HttpResponse;

const RULES: &str = "
rules:
  - { name: per-key, per: [api_key], quota: 3/h }
  - { name: per-user, match: { domain: web }, per: [user], quota: 3/h }
";
const PARTITIONS: u32 = 2;

/// Log of the process. Its subscriber is that of all threads, because one of a thread may miss lines that another thread has met before.
static LOG: Mutex<Vec<u8>> = Mutex::new(Vec::new());
static SUBSCRIBED: Once = Once::new();

/// Agent whose log, decisions and records are read.
struct Traced {
    node: &'static str,
    router: Router,
    bus: EmbeddedBus,
    events: Arc<Mutex<Vec<DecisionEvent>>>,
}

impl Traced {
    fn start(node: &'static str) -> Self {
        let bus = EmbeddedBus::new(Arc::new(SystemClock::start()), PARTITIONS);
        let sampling = DecisionSampling {
            denials: SampledDenials::All,
            admissions: ADMISSIONS_ALL,
            lines_per_second_max: u32::MAX,
        };
        let events = Arc::<Mutex<Vec<_>>>::default();
        let taken = events.clone();
        let deliver = move |event| {
            taken.lock().unwrap().push(event);
            true
        };
        let rules = tollgate_rules::from_yaml("rules.yaml", RULES, 1).unwrap();
        let builder = Agent::builder().node(node).rules(rules).bus(bus.clone());
        let builder = builder.decision_log(Arc::new(DecisionSampler::new(sampling)), deliver);
        SUBSCRIBED.call_once(|| {
            let subscriber = tracing_subscriber::fmt().with_ansi(false).with_max_level(Level::TRACE);
            let subscriber = subscriber.with_writer(|| LOG.make_writer()).finish();
            tracing::subscriber::set_global_default(subscriber).expect("it is the only one");
        });
        Self { node, router: crate::router(builder.start().unwrap()), bus, events }
    }

    /// Asks by `ext_authz` about a request with these headers, with this metadata of the question; returns true for an admission.
    async fn authorize(&self, metadata: &[(&str, &str)], headers: &[(&str, &str)]) -> bool {
        let request = check_request(&[&[("x-api-key", "secret-key")][..], headers].concat()).encode_to_vec();
        let response: CheckResponse = ask_with(&self.router, CHECK, metadata, request).await.unwrap();
        matches!(response.http_response, Some(HttpResponse::OkResponse(_)))
    }

    /// Asks the rate limit service about two descriptors; returns true for an admission.
    async fn limit(&self, metadata: &[(&str, &str)]) -> bool {
        let asked = request(["u1", "u2"].map(|user| descriptor(&[("user", user)])).into()).encode_to_vec();
        let response: RateLimitResponse = ask_with(&self.router, SHOULD_RATE_LIMIT, metadata, asked).await.unwrap();
        response.overall_code() == Code::Ok
    }

    /// Returns the lines of the agent in the log of answers.
    fn lines(&self) -> Vec<String> {
        let log = String::from_utf8(LOG.lock().unwrap().clone()).unwrap();
        let node = format!("node=\"{}\"", self.node);
        let lines = log.lines().filter(|line| line.contains("tollgate::answers: answered") && line.contains(&node));
        lines.map(ToOwned::to_owned).collect()
    }

    /// Waits until the records have so many calls, and returns their traces, as trace and span in hexadecimal digits.
    fn traces_of(&self, calls: usize) -> BTreeSet<String> {
        let mut reader = self.bus.reader(Topic::Calls, &[0, 1], ReadFrom::Oldest);
        let (mut rows, mut traces) = (0, BTreeSet::new());
        wait_for("all calls", || {
            for record in reader.poll(Duration::from_millis(100), 1_000) {
                let batch = Batch::decode(&record.payload).unwrap();
                rows += batch.rows.iter().filter(|row| row.home.is_some()).count();
                let digits = |byte: &u8| format!("{byte:02x}");
                traces
                    .extend(batch.traces.iter().map(|(_, trace)| trace.bytes().iter().map(digits).collect::<String>()));
            }
            (rows >= calls).then_some(())
        });
        assert_eq!(rows, calls);
        traces
    }
}

fn trace_parent(trace: u32, flags: &str) -> String {
    format!("00-{trace:032x}-{trace:016x}-{flags}")
}

/// H3, L8: the trace of a question stands in the line of its answer and in its decision, and that of a sampled one in the record.
#[tokio::test(flavor = "multi_thread")]
async fn an_answer_has_the_trace_of_its_request_in_log_decisions_and_records() {
    let agent = Traced::start("traced");
    let (of_client, of_metadata, not_sampled) = (trace_parent(1, "01"), trace_parent(2, "01"), trace_parent(3, "00"));
    let limited = trace_parent(4, "01");
    let mut admitted = Vec::new();
    for (metadata, headers) in [
        (&[][..], &[("traceparent", &*of_client)][..]),
        (&[("traceparent", &*of_metadata)], &[("traceparent", &*of_client)]),
        (&[("traceparent", &*not_sampled)], &[]),
        (&[], &[("traceparent", &*not_sampled)]),
    ] {
        admitted.push(agent.authorize(metadata, headers).await);
    }
    for _ in 0..4 {
        admitted.push(agent.limit(&[("traceparent", &*limited)]).await);
    }
    assert_eq!(admitted, [[true, true, true, false]; 2].concat());

    let of_limit = [&*limited; 8];
    let expected = [&[&*of_client, &*of_metadata, &*not_sampled, &*not_sampled][..], &of_limit].concat();
    let lines = agent.lines();
    assert_eq!(lines.len(), expected.len(), "{lines:?}");
    for (line, trace) in lines.iter().zip(&expected) {
        assert!(line.contains(&format!("traceparent=\"{trace}\"")) && line.contains("id=\"traced-"), "{trace}: {line}");
        assert!(!line.contains("secret"), "{line}");
    }
    let denied: Vec<_> = lines.iter().filter(|line| line.contains("allowed=false")).collect();
    assert!(
        denied.len() == 3 && denied[0].contains("rule=\"per-key\"") && denied[1].contains("rule=\"per-user\""),
        "{denied:?}"
    );

    let events = agent.events.lock().unwrap().clone();
    let traces: Vec<_> = events.iter().map(|event| event.trace.as_deref().unwrap_or_default()).collect();
    assert_eq!(traces, expected);
    let of_line = |line: &String, event: &DecisionEvent| line.contains(&format!("id=\"{}\"", event.id));
    assert!(lines.iter().zip(&events).all(|(line, event)| of_line(line, event)), "{lines:?} {events:?}");
    let denials: Vec<_> = events.iter().filter(|event| !event.allowed).collect();
    assert!(denials.len() == 3 && denials.iter().all(|event| event.limit.is_some()), "{denials:?}");

    let sampled = [1, 2, 4].map(|trace: u32| format!("{trace:032x}{trace:016x}"));
    let traces = tokio::task::block_in_place(|| agent.traces_of(expected.len()));
    assert_eq!(traces, BTreeSet::from(sampled));
}

/// An invalid trace is ignored, and does not displace that of the client's request.
#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_trace_is_left_out() {
    let agent = Traced::start("untraced");
    let (valid, invalid) = (trace_parent(5, "01"), trace_parent(0xab, "01").to_uppercase());
    assert!(agent.authorize(&[("traceparent", &*invalid)], &[]).await);
    assert!(agent.authorize(&[("traceparent", &*invalid)], &[("traceparent", &*valid)]).await);
    assert!(agent.limit(&[("traceparent", &*invalid)]).await);
    let traced: Vec<_> = agent.lines().iter().map(|line| line.contains("traceparent")).collect();
    assert_eq!(traced, [false, true, false, false]);
}
