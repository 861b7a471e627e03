//! Flow: the admissions on one counter by agent, as far as this agent's part of the free units depends on them.
//!
//! A part is half in proportion to the agent's own admissions and half equal (flow-proportional share; Raghavan et al.,
//! "Cloud Control with Distributed Rate Limiting", SIGCOMM 2007). All agents with the same signal and the same number
//! of agents compute parts whose sum is at most what they divide: they cut it at the same places, in the order of the
//! signal.

use std::num::NonZeroU32;

/// Bits of a number of units beyond those that a proportion keeps: 24 bits.
const PROPORTION_SHIFT: u32 = 40;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Flow {
    /// Units of the agents before this one in the signal, and their number.
    units_before: u32,
    agents_before: u32,
    /// Units of this agent; 0 if the signal does not name it.
    own: u32,
    /// Units of all named agents.
    named: u32,
    others: u32,
}

impl Flow {
    /// Creates the flow of the named agents' units in the order of the signal, each with true if it is this agent.
    pub(crate) fn new(named: impl Iterator<Item = (u64, bool)> + Clone, others: u64) -> Self {
        let total = named.clone().map(|(units, _)| units).fold(others, u64::saturating_add);
        // Only the proportions matter.
        let scaled = |units: u64| {
            u32::try_from(units >> PROPORTION_SHIFT.saturating_sub(total.leading_zeros())).unwrap_or(u32::MAX)
        };
        let mut flow = Self { others: scaled(others), ..Self::default() };
        for (units, is_own) in named {
            if is_own {
                (flow.units_before, flow.own) = (flow.named, scaled(units));
            } else if flow.own == 0 {
                flow.agents_before += 1;
            }
            flow.named = flow.named.saturating_add(scaled(units));
        }
        flow
    }

    /// Returns this agent's part of some units; nothing if nobody has admitted any.
    pub(crate) fn part_of(&self, units: u64, agents: NonZeroU32) -> Option<u64> {
        let (agents, units) = (u128::from(agents.get()), u128::from(units));
        let wide = |units: u32| u128::from(units);
        let total = wide(self.named) + wide(self.others);
        if total == 0 {
            return None;
        }
        // Each agent has its own flow times the number of agents, and equally as much as all flows and those of others: the
        // weights of all agents add up to this.
        let (weights, equal) = (2 * total * agents, wide(self.others) + total);
        let part = if self.own == 0 {
            units * equal / weights
        } else {
            let cut =
                |flow: u128, count: u128| (units * (agents * flow + count * equal).min(weights)).div_ceil(weights);
            let (before, count) = (wide(self.units_before), wide(self.agents_before));
            cut(before + wide(self.own), count + 1) - cut(before, count)
        };
        Some(u64::try_from(part).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    /// Parts of the named agents, then of one that is not named.
    fn parts(named: &[u64], others: u64, agents: u32, units: u64) -> Vec<u64> {
        let agents = NonZeroU32::new(agents).unwrap();
        let part = |own: usize| {
            let named = named.iter().enumerate().map(|(index, units)| (*units, index == own));
            Flow::new(named, others).part_of(units, agents).unwrap()
        };
        (0..=named.len()).map(part).collect()
    }

    #[test]
    fn half_follows_the_flow_and_half_is_equal() {
        // Units of the named agents and of others, agents, units to divide; the parts.
        type Case = (&'static [u64], u64, u32, u64, &'static [u64]);
        let cases: [Case; 9] = [
            (&[1], 0, 3, 9, &[6, 1]),
            (&[1], 0, 3, 2, &[2, 0]),
            (&[1], 0, 3, 1, &[1, 0]),
            (&[3, 2, 2], 0, 3, 3, &[2, 1, 0, 0]),
            (&[4, 3, 2], 0, 3, 1, &[1, 0, 0, 0]),
            (&[50], 50, 100, 100, &[26, 0]),
            (&[1], 0, 1, 7, &[7, 3]),
            (&[5, 5], 0, 2, u64::MAX, &[1 << 63, (1 << 63) - 1, (1 << 62) - 1]),
            (&[u64::MAX], 0, 3, 9, &[6, 1]),
        ];
        for (named, others, agents, units, expected) in cases {
            let parts = parts(named, others, agents, units);
            assert_eq!(parts[..expected.len()], *expected, "{named:?} {others} {agents} {units}");
        }
        assert_eq!(Flow::new(std::iter::empty(), 0).part_of(9, NonZeroU32::MIN), None);
    }

    proptest! {
        /// The parts of agents with the same signal never exceed what they divide, and leave less than a unit for each
        /// agent.
        #[test]
        fn the_parts_add_up(
            agents in 1_u32..12,
            mut named in vec(1_u64..30, 0..12),
            others in 0_u64..20,
            units in 0_u64..60,
        ) {
            named.truncate(agents as usize);
            named.sort_unstable_by(|a, b| b.cmp(a));
            let mut parts = parts(&named, others + u64::from(named.is_empty()), agents, units);
            let unnamed = parts.pop().unwrap() * (u64::from(agents) - named.len() as u64);
            let sum = parts.iter().sum::<u64>() + unnamed;
            prop_assert!(sum <= units && sum + u64::from(agents) > units, "{}", sum);
        }
    }
}
