//! Traces of sampled requests in the log of calls.

use super::fleet_of_processes::Fleet;
use super::log;
use crate::support::wait_for;

const RULES: &str = "
rules:
  - { name: per-key, per: [api_key], quota: 100/min, deadline: 1s }
  - { name: total, per: [], quota: 1000/min, deadline: 1s }
";

/// H3: whichever way a gateway asks, the record of a sampled call has its trace and span. Other requests leave none.
#[test]
fn the_record_of_a_sampled_call_has_its_trace() {
    let fleet = Fleet::start("traces", RULES);
    let agent = fleet.agent("gw-1");
    wait_for("the bus", || (agent.metric("tollgate_bus_connected") == 1).then_some(()));
    let call = r#"{"descriptors": {"api_key": "k"}}"#;
    let batch = format!(r#"{{"calls": [{call}]}}"#);
    let envoy = r#"{"domain": "d", "descriptors": [{"entries": [{"key": "api_key", "value": "k"}]}]}"#;
    let asked = [
        ("GET", "/check", ""),
        ("GET", "/check/path", ""),
        ("POST", "/check", call),
        ("POST", "/batch", &*batch),
        ("POST", "/json", envoy),
    ];
    let mut client = agent.client();
    for (number, (method, path, body)) in (1..).zip(asked) {
        for (sampled, trace) in [("01", number), ("00", 100 + number)] {
            let parent = format!("00-{trace:032x}-{number:016x}-{sampled}");
            client.send(method, path, &[("traceparent", &*parent), ("x-api-key", "k")], body);
            assert_eq!(client.receive().status, 200, "{method} {path}");
        }
    }
    let bus = log::bus(&fleet.kafka.brokers());
    let traces =
        wait_for("all calls", || (log::calls_of(&bus, "gw-1") == 2 * asked.len() as u64).then(|| log::traces(&bus)));
    let expected = (1..=asked.len()).map(|number| format!("{number:032x}{number:016x}")).collect();
    assert_eq!(traces, expected);
}
