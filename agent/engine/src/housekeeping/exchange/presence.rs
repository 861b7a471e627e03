//! Announcements of the agent to the fleet.

use tollgate_core::clock::Timestamp;
use tollgate_core::messages::presence::{INTERVAL_MS, Presence, REFUSAL_LEN_MAX, Role};
use tollgate_core::rules::Numbering;

use super::{Exchange, ExchangeEffect};

/// Time after which a heartbeat that found no room is sent again, in ms.
const ANNOUNCE_AGAIN_MS: u64 = 100;

impl Exchange {
    /// Announces the agent each second, and at once when it loses the store or finds it, and when it has emptied a counter.
    /// Aggregators adapt to an outage of the store once it is announced.
    pub(super) fn announce_if_due(&mut self, now: Timestamp, effects: &mut Vec<ExchangeEffect>) {
        let is_degraded = self.engine.is_degraded();
        let has_reset = self.engine.store.resets().is_due();
        if now >= self.announce_at || is_degraded != self.announced_degraded || has_reset {
            self.announce_at = now.plus_ms(INTERVAL_MS);
            self.announced_degraded = is_degraded;
            effects.push(ExchangeEffect::Announce(self.presence(now)));
        }
    }

    /// Brings the next announcement forward, because the last one found no room.
    pub(super) fn announce_again(&mut self, now: Timestamp) {
        self.announce_at = now.plus_ms(ANNOUNCE_AGAIN_MS);
    }

    pub(super) fn presence(&self, now: Timestamp) -> Presence {
        let engine = &self.engine;
        let (generation, numbering) = engine.with_rules(|rules| (rules.generation, rules.numbering));
        Presence {
            id: engine.settings.node.clone(),
            epoch: engine.settings.epoch.as_ms(),
            region: engine.settings.region.clone(),
            role: Role::Agent,
            generation,
            clock: now,
            open_breakers: if engine.is_degraded() { vec!["store".into()] } else { Vec::new() },
            dropped_rows: engine.dropped_rows(),
            leaving: self.stopped,
            http: "".into(),
            partitions: Vec::new(),
            coordinates: false,
            emergency: engine.emergency(),
            resets: engine.store.resets().for_heartbeat(now),
            rules_refusal: engine.rejection().map_or("".into(), |reason| first_line(&reason).into()),
            rules_published: numbering == Numbering::Publication,
        }
    }
}

/// Returns the first line of a reason, up to the length that a heartbeat may have.
fn first_line(reason: &str) -> String {
    reason.lines().next().unwrap_or_default().chars().take(REFUSAL_LEN_MAX).collect()
}
