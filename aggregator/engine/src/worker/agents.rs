//! The agents of the fleet as their heartbeats describe them, for pages. Nothing is decided by them.

use std::collections::BTreeMap;
use std::sync::Arc;

use tollgate_core::clock::Timestamp;
use tollgate_core::messages::presence::{GONE_AFTER_MS, INTERVAL_MS, Presence, Role};
use tollgate_core::rules::{Generation, Quota};

/// Maximum number of agents; further ones are not shown.
const AGENTS_LEN_MAX: usize = 10_000;

/// The agents that are heard.
#[derive(Clone, Debug, Default)]
pub struct Agents {
    agents: BTreeMap<Arc<str>, AgentState>,
    swept_at: Timestamp,
}

/// State of an agent by its last heartbeat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentState {
    /// The region.
    pub region: Arc<str>,
    /// Generation of the rules in force.
    pub generation: Generation,
    /// True if these rules are published ones.
    pub rules_published: bool,
    /// Reason why it refused newer rules; empty if it did not.
    pub rules_refusal: Arc<str>,
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
        if appended.as_ms().abs_diff(self.swept_at.as_ms()) >= INTERVAL_MS {
            self.swept_at = appended;
            self.agents.retain(|_, agent| appended.as_ms().abs_diff(agent.seen.as_ms()) < GONE_AFTER_MS);
        }
        if presence.role != Role::Agent {
            return;
        }
        if presence.leaving {
            self.agents.remove(&presence.id);
        } else if self.agents.len() < AGENTS_LEN_MAX || self.agents.contains_key(&presence.id) {
            let ahead = presence.clock.ms_since(appended).cast_signed();
            let behind = appended.ms_since(presence.clock).cast_signed();
            let state = AgentState {
                region: presence.region.clone(),
                generation: presence.generation,
                rules_published: presence.rules_published,
                rules_refusal: presence.rules_refusal.clone(),
                open_breakers: presence.open_breakers.clone(),
                clock_offset_ms: ahead - behind,
                dropped_rows: presence.dropped_rows,
                emergency: presence.emergency.and_then(|switch| switch.quota),
                seen: appended,
            };
            self.agents.insert(presence.id.clone(), state);
        }
    }

    /// Returns the agents by name.
    pub fn iter(&self) -> impl Iterator<Item = (&Arc<str>, &AgentState)> {
        self.agents.iter()
    }
}
