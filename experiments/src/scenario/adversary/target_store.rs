//! Behaviour of the store of a fleet during attacks.
//!
//! A late store answers one agent after the other late, so often that an attack may choose. After each of these times, it answers a call
//! of another caller in time, so that no breaker opens: an open breaker has the bound of a store that is lost.

use tollgate::Call;
use tollgate_sim::{Cut, Faults, Simulation, StoreState};

use crate::scenario::fleet::CALLER;

/// Times from the beginning of the attacks to the loss of the store, and to its return, in ms.
pub(super) const LOST_MS: u64 = 12_900;
const RETURNS_MS: u64 = 22_900;
/// Beginning of the names of callers that do not attack.
pub(super) const OTHER_CALLER: &str = "other-";
/// Time in which the store answers an agent late, in ms: too short for the misses that open a breaker; and the interval at which it
/// does so for the same agent.
const LATE_FOR_MS: u64 = 20;
pub(super) const LATE_EACH_MS: u64 = 120;

/// Behaviour of the store during the attacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TargetStore {
    InTime,
    Late,
    LostForTime,
}

/// A change of the store.
pub(super) enum StoreChange {
    To(StoreState),
    /// Its answers to an agent are so much later, in ms.
    LateFor(usize, u64),
}

impl TargetStore {
    /// Returns the changes of the store of so many agents, with their times in ms, in order.
    pub(super) fn changes(self, agents: usize, end_ms: u64) -> Vec<(u64, StoreChange)> {
        let mut changes = Vec::new();
        match self {
            Self::InTime => {}
            Self::LostForTime => {
                changes.push((LOST_MS, StoreChange::To(StoreState::Silent)));
                changes.push((RETURNS_MS, StoreChange::To(StoreState::Up)));
            }
            Self::Late => {
                for agent in 0..agents {
                    let from_ms = late_from(agent, agents);
                    let begins = (0..end_ms / LATE_EACH_MS).map(|interval| interval * LATE_EACH_MS + from_ms);
                    changes.extend(begins.flat_map(|begin_ms| {
                        let late = StoreChange::LateFor(agent, Faults::LATE_MS);
                        [(begin_ms, late), (begin_ms + LATE_FOR_MS, StoreChange::LateFor(agent, 0))]
                    }));
                }
                changes.sort_by_key(|(at_ms, _)| *at_ms);
            }
        }
        changes
    }
}

impl StoreChange {
    pub(super) fn apply(self, sim: &mut Simulation<'static>) {
        match self {
            Self::To(state) => sim.set_store(state),
            Self::LateFor(agent, store_late_ms) => {
                sim.set_cut(agent, Cut { store_late_ms, ..Cut::default() });
                if store_late_ms == 0 {
                    // Its counter is a new one, so the store is asked.
                    let other = format!("{OTHER_CALLER}{}-{agent}", sim.now().as_ms());
                    sim.check(agent, vec![Call::new().with(CALLER, other)]);
                }
            }
        }
    }
}

/// Returns the time after which the store is late for an agent in each interval, in ms: for one agent after the other.
pub(super) fn late_from(agent: usize, agents: usize) -> u64 {
    LATE_EACH_MS * agent as u64 / agents as u64
}
