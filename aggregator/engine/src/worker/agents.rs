//! The agents of the fleet as their heartbeats describe them, for pages. Nothing is decided by them.

use std::collections::BTreeMap;
use std::sync::Arc;

use tollgate_core::clock::Timestamp;
use tollgate_core::messages::presence::{GONE_AFTER_MS, Presence, Role};
use tollgate_core::rules::{Generation, Quota};

/// Maximum number of agents; further ones are not shown.
const AGENTS_LEN_MAX: usize = 10_000;

/// The agents that are heard.
#[derive(Clone, Debug, Default)]
pub struct Agents(BTreeMap<Arc<str>, AgentState>);

/// State of an agent by its last heartbeat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentState {
    /// The region.
    pub region: Arc<str>,
    /// Generation of the rules in force.
    pub generation: Generation,
    /// Store nodes that do not answer it.
    pub open_breakers: Vec<Arc<str>>,
    /// Time of its clock less that of the bus, in ms, the delay of the heartbeat included.
    pub clock_offset_ms: i64,
    /// Number of rows that it failed to publish.
    pub dropped_rows: u64,
    /// Quota of the emergency switch, if it is on.
    pub emergency: Option<Quota>,
    /// Append time of the heartbeat.
    pub seen: Timestamp,
}

impl Agents {
    pub(super) fn apply(&mut self, presence: &Presence, appended: Timestamp) {
        self.0.retain(|_, agent| appended.ms_since(agent.seen) < GONE_AFTER_MS);
        if presence.role != Role::Agent {
            return;
        }
        if presence.leaving {
            self.0.remove(&presence.id);
        } else if self.0.len() < AGENTS_LEN_MAX || self.0.contains_key(&presence.id) {
            let ahead = presence.clock.ms_since(appended).cast_signed();
            let behind = appended.ms_since(presence.clock).cast_signed();
            let state = AgentState {
                region: presence.region.clone(),
                generation: presence.generation,
                open_breakers: presence.open_breakers.clone(),
                clock_offset_ms: ahead - behind,
                dropped_rows: presence.dropped_rows,
                emergency: presence.emergency.and_then(|switch| switch.quota),
                seen: appended,
            };
            self.0.insert(presence.id.clone(), state);
        }
    }

    /// Returns the agents by name.
    pub fn iter(&self) -> impl Iterator<Item = (&Arc<str>, &AgentState)> {
        self.0.iter()
    }
}
