//! An agent of the world: a limiter, and a clock that is off.

use std::num::NonZeroU32;
use std::sync::Arc;

use prometheus_client::registry::Registry;
use tollgate::RuleSet;
use tollgate::limiter::{Limiter, Settings as AgentSettings};
use tollgate_common::clock::Timestamp;

use super::Settings;

/// An agent of the world.
pub struct SimAgent {
    limiter: Arc<Limiter>,
    skew_ms: i64,
    probing: bool,
    waiting: bool,
}

impl SimAgent {
    pub(super) fn new(index: usize, skew_ms: i64, world: &Settings, rules: RuleSet) -> Self {
        let mut settings = AgentSettings::new(&format!("agent-{}", index + 1), world.start);
        settings.partitions = world.partitions;
        settings.counters_max = world.counters_max;
        settings.agents_expected = u32::try_from(world.skews_ms.len()).ok().and_then(NonZeroU32::new);
        let limiter = Arc::new(Limiter::new(settings, rules, &mut Registry::default()));
        Self { limiter, skew_ms, probing: false, waiting: false }
    }

    /// The limiter.
    #[must_use]
    pub fn limiter(&self) -> &Arc<Limiter> {
        &self.limiter
    }

    /// The limiter, and what its clock says at this instant of true time.
    #[must_use]
    pub fn at(&self, now: Timestamp) -> (&Arc<Limiter>, Timestamp) {
        (&self.limiter, Timestamp::from_ms(now.as_ms().saturating_add_signed(self.skew_ms)))
    }

    /// Whether it must begin to look for the store: it is in debt and does not look yet.
    pub(super) fn starts_probing(&mut self) -> bool {
        let starts = !self.probing && self.limiter.is_in_debt();
        self.probing |= starts;
        starts
    }

    /// Whether it must look again.
    pub(super) fn keeps_probing(&mut self) -> bool {
        self.probing = self.limiter.is_in_debt();
        self.probing
    }

    /// Whether its writer must be woken: it has something and no one wakes it yet.
    pub(super) fn starts_waiting(&mut self) -> bool {
        !std::mem::replace(&mut self.waiting, true)
    }

    pub(super) fn woke(&mut self) {
        self.waiting = false;
    }
}
