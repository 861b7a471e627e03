//! Announcements of the agent to the fleet.

use tollgate_core::clock::Timestamp;
use tollgate_core::messages::presence::{Presence, Role};

use super::Exchange;

impl Exchange {
    pub(super) fn presence(&self, now: Timestamp) -> Presence {
        let engine = &self.engine;
        Presence {
            id: engine.settings.node.clone(),
            epoch: engine.settings.epoch.as_ms(),
            region: engine.settings.region.clone(),
            role: Role::Agent,
            generation: engine.with_rules(|rules| rules.generation),
            clock: now,
            open_breakers: if engine.is_degraded() { vec!["store".into()] } else { Vec::new() },
            dropped_rows: engine.dropped_rows(),
            leaving: self.stopped,
            http: "".into(),
            partitions: Vec::new(),
            coordinates: false,
            emergency: engine.emergency(),
        }
    }
}
