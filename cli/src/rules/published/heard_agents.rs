//! Agents of a fleet, by their heartbeats on Kafka.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tollgate_bus::kafka::KafkaBus;
use tollgate_bus::{Bus, LogReader, ReadFrom, Topic};
use tollgate_core::clock::Stopwatch;
use tollgate_core::messages::presence::{Presence, Role};
use tollgate_wire::Record;

const POLL_WAIT: Duration = Duration::from_millis(200);
const RECORDS_MAX: usize = 10_000;

/// Returns the newest heartbeat of each agent that is heard in this time.
pub(in super::super) fn heard_agents(bus: &KafkaBus, time: Duration) -> BTreeMap<Arc<str>, Presence> {
    let mut reader = bus.reader(Topic::Presence, &[0], ReadFrom::Next);
    let (mut agents, listened) = (BTreeMap::new(), Stopwatch::start());
    while listened.elapsed() < time {
        for record in reader.poll(POLL_WAIT, RECORDS_MAX) {
            let Ok(presence) = Presence::decode(&record.payload) else { continue };
            if presence.leaving {
                agents.remove(&presence.id);
            } else if presence.role == Role::Agent {
                agents.insert(presence.id.clone(), presence);
            }
        }
    }
    agents
}
