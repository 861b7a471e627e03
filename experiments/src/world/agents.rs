//! An agent of the world: a limiter, and a clock that is off.

use std::num::NonZeroU32;
use std::sync::Arc;

use tollgate::RuleSet;
use tollgate_core::clock::Timestamp;
use tollgate_engine::{Engine, EngineSettings as AgentSettings, Exchange};

use super::Settings;

/// An agent of the world.
pub struct SimAgent {
    engine: Arc<Engine>,
    pub(super) exchange: Exchange,
    skew_ms: i64,
    probing: bool,
    /// Calls since the writer woke.
    waiting: u32,
}

impl SimAgent {
    pub(super) fn new(index: usize, skew_ms: i64, world: &Settings, rules: RuleSet) -> Self {
        let mut settings = AgentSettings::new(&format!("agent-{}", index + 1), world.start);
        settings.partitions = world.partitions;
        settings.counters_max = world.counters_max;
        settings.agents_expected = u32::try_from(world.skews_ms.len()).ok().and_then(NonZeroU32::new);
        let engine = Arc::new(Engine::new(settings, rules));
        Self { exchange: Exchange::new(engine.clone()), engine, skew_ms, probing: false, waiting: 0 }
    }

    /// The limiter.
    #[must_use]
    pub fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    /// The limiter, and what its clock says at this instant of true time.
    #[must_use]
    pub fn at(&self, now: Timestamp) -> (&Arc<Engine>, Timestamp) {
        (&self.engine, Timestamp::from_ms(now.as_ms().saturating_add_signed(self.skew_ms)))
    }

    /// Whether it must begin to look for the store and does not look yet.
    pub(super) fn starts_probing(&mut self) -> bool {
        let starts = !self.probing && self.engine.needs_store();
        self.probing |= starts;
        starts
    }

    /// Whether it must look again.
    pub(super) fn keeps_probing(&mut self) -> bool {
        self.probing = self.engine.needs_store();
        self.probing
    }

    /// One more call waits for the writer; how many do now.
    pub(super) fn waits_with(&mut self) -> u32 {
        self.waiting += 1;
        self.waiting
    }

    pub(super) fn woke(&mut self) {
        self.waiting = 0;
    }
}
