//! An agent of the world: a limiter, and a clock that is off.

use std::num::NonZeroU32;
use std::sync::Arc;

use tollgate::RuleSet;
use tollgate_core::clock::Timestamp;
use tollgate_engine::{Engine, EngineSettings as AgentSettings};

use super::Settings;

/// How often an agent does its housekeeping, in ms.
const HOUSEKEEPING_MS: u64 = 100;

/// An agent of the world.
pub struct SimAgent {
    engine: Arc<Engine>,
    skew_ms: i64,
    probing: bool,
    /// Calls since the writer woke.
    waiting: u32,
    kept_house_at: Timestamp,
}

impl SimAgent {
    pub(super) fn new(index: usize, skew_ms: i64, world: &Settings, rules: RuleSet) -> Self {
        let mut settings = AgentSettings::new(&format!("agent-{}", index + 1), world.start);
        settings.partitions = world.partitions;
        settings.counters_max = world.counters_max;
        settings.agents_expected = u32::try_from(world.skews_ms.len()).ok().and_then(NonZeroU32::new);
        let engine = Arc::new(Engine::new(settings, rules));
        Self { engine, skew_ms, probing: false, waiting: 0, kept_house_at: Timestamp::default() }
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

    /// Whether the limiter's housekeeping is due; if so, it is taken for done.
    pub(super) fn is_due_for_housekeeping(&mut self, now: Timestamp) -> bool {
        let due = now.ms_since(self.kept_house_at) >= HOUSEKEEPING_MS;
        if due {
            self.kept_house_at = now;
        }
        due
    }
}
