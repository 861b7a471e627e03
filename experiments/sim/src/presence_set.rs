//! The set of live agents in the store of a simulation, with the clock that `fleet_registry.lua` keeps in it: a step of
//! the store's clock moves it by three heartbeats at most. As a key of Redis, the set is gone after the removal time by
//! the store's own clock.

use std::collections::BTreeMap;
use std::sync::Arc;

use tollgate_core::clock::Timestamp;
use tollgate_core::messages::presence::{GAP_MS_MAX, GONE_AFTER_MS, PresenceSet};

#[derive(Debug, Default)]
pub(super) struct SimPresenceSet {
    /// The id of each agent, and the set's time of its last announcement.
    agents: BTreeMap<usize, (Arc<str>, Timestamp)>,
    /// The set's time of its creation.
    created: Timestamp,
    /// The set's time of the last announcement.
    time: Timestamp,
    /// The store's time of the last announcement; nothing before the first one.
    seen: Option<Timestamp>,
}

impl SimPresenceSet {
    /// Announces an agent, or removes one that leaves, at a time of the store. Returns the live agents.
    pub(super) fn update(&mut self, store_now: Timestamp, agent: usize, is_leaving: bool) -> PresenceSet {
        match self.seen.filter(|seen| store_now.ms_since(*seen) <= GONE_AFTER_MS) {
            Some(seen) => self.time = self.time.plus_ms(store_now.ms_since(seen).min(GAP_MS_MAX)),
            None => *self = Self { created: store_now, time: store_now, ..Self::default() },
        }
        self.seen = Some(store_now);
        let time = self.time;
        let own_before = self.agents.remove(&agent);
        if !is_leaving {
            let id = own_before.as_ref().map_or_else(|| agent_id(agent).into(), |(id, _)| id.clone());
            self.agents.insert(agent, (id, time));
        }
        let own_before = own_before.map(|(_, announced)| announced);
        self.agents.retain(|_, (_, announced)| time.ms_since(*announced) <= GONE_AFTER_MS);
        let agents = self.agents.values().cloned().collect();
        PresenceSet { age_ms: time.ms_since(self.created), agents, own_before, ..PresenceSet::default() }
    }
}

pub(super) fn agent_id(index: usize) -> String {
    format!("agent-{}", index + 1)
}
