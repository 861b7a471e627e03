//! Agents of a fleet, by their heartbeats on Kafka.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tollgate_bus::LogReader;
use tollgate_bus::kafka::KafkaReader;
use tollgate_core::clock::Stopwatch;
use tollgate_core::messages::presence::{Presence, Role};
use tollgate_wire::Record;

const POLL_WAIT: Duration = Duration::from_millis(200);
const RECORDS_MAX: usize = 10_000;
/// Time that the reader has to connect.
const CONNECT_WAIT: Duration = Duration::from_secs(5);

/// Returns the newest heartbeat of each agent that a reader hears in this time. The time begins when the reader is connected.
pub(in super::super) fn heard_agents(reader: &mut KafkaReader, time: Duration) -> BTreeMap<Arc<str>, Presence> {
    let (mut agents, began, mut listened) = (BTreeMap::new(), Stopwatch::start(), Stopwatch::start());
    while listened.elapsed() < time {
        for record in reader.poll(POLL_WAIT, RECORDS_MAX) {
            let Ok(presence) = Presence::decode(&record.payload) else { continue };
            if presence.leaving {
                agents.remove(&presence.id);
            } else if presence.role == Role::Agent {
                agents.insert(presence.id.clone(), presence);
            }
        }
        if reader.next(0).is_none() && began.elapsed() < CONNECT_WAIT {
            listened = Stopwatch::start();
        }
    }
    agents
}
