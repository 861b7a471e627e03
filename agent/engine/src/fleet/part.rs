//! The part of each quota that an agent may admit while the store does not decide.

use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU64, Ordering};

/// Part of each quota that this agent may admit while the store does not decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FleetPart {
    /// The part of one of so many agents, which are known from presence or from the saved state.
    OneOf(NonZeroU32),
    /// The part of one of so many agents, which are only expected: neither presence nor a saved state tells.
    Expected(NonZeroU32),
    /// No part, because the other agents have all of it: this agent has just come, or the others do not hear it.
    Nothing,
}

/// Part that calls read without a lock.
#[derive(Debug)]
pub(super) struct SharedPart(AtomicU64);

impl FleetPart {
    /// Returns this agent's equal part of so many units, rounded down.
    #[must_use]
    pub fn of(self, units: u64) -> u64 {
        self.agents().map_or(0, |agents| units / u64::from(agents.get()))
    }

    /// Returns the number of agents that share the quota; none if this agent has no part.
    #[must_use]
    pub fn agents(self) -> Option<NonZeroU32> {
        match self {
            Self::OneOf(agents) | Self::Expected(agents) => Some(agents),
            Self::Nothing => None,
        }
    }
}

impl SharedPart {
    pub(super) fn new(part: FleetPart) -> Self {
        Self(AtomicU64::new(packed(part)))
    }

    pub(super) fn set(&self, part: FleetPart) {
        self.0.store(packed(part), Ordering::Relaxed);
    }

    pub(super) fn get(&self) -> FleetPart {
        let packed = self.0.load(Ordering::Relaxed);
        let agents = u32::try_from(packed >> 1).ok().and_then(NonZeroU32::new);
        let part = if packed & 1 == 0 { FleetPart::OneOf } else { FleetPart::Expected };
        agents.map_or(FleetPart::Nothing, part)
    }
}

/// Returns the number of agents, behind which a bit is 1 if they are only expected.
fn packed(part: FleetPart) -> u64 {
    let agents = part.agents().map_or(0, |agents| u64::from(agents.get()));
    agents << 1 | u64::from(matches!(part, FleetPart::Expected(_)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_shared_as_it_is() {
        let agents = |n| NonZeroU32::new(n).unwrap();
        let parts = [FleetPart::OneOf(agents(3)), FleetPart::Expected(agents(u32::MAX)), FleetPart::Nothing];
        for part in parts {
            assert_eq!(SharedPart::new(part).get(), part);
        }
        assert_eq!(parts.map(|part| part.of(100)), [33, 0, 0]);
    }
}
