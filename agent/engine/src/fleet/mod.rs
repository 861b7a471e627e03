//! The fleet as one agent sees it: its members, and the part of each quota that this agent may take without the store.
//!
//! Two sources report members: heartbeats on the bus, and the presence set in the store. Both can fail, and one can
//! begin anew with an empty set, so a number is kept until it is disproved. While no heartbeat of this agent itself
//! comes back, the membership is *frozen*. The parts of the agents sum to one at most, except for agents that are cut
//! off from both sources, or that start while both are unavailable or while the presence set begins anew: the others
//! cannot know of these, and each of them adds its own part.
//!
//! A new agent has no part until all others have heard it, because they have divided the quota without it. It need not
//! wait where there are no others: if the presence set is old enough and names none, the agent has the whole quota at
//! once; if the set is young and names none, or if no other agent is expected, the part of the expected number.

mod streak;
mod namesake;
mod members;
mod part;
mod presence_set;
mod standing;
mod registry_news;
mod heard_agents;
mod state;
#[cfg(test)]
mod tests;

use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use tollgate_core::clock::Timestamp;
use tollgate_core::counter::CounterId;
use tollgate_core::messages::presence::{GONE_AFTER_MS, Presence, PresenceSet, Role};
use tollgate_core::newcomers::Heard;
use tollgate_core::rendezvous;

use crate::report::Notice;
use heard_agents::HeardAgents;
use members::Members;
pub use part::FleetPart;
use part::SharedPart;
use presence_set::BelievedSet;
pub(crate) use presence_set::newcomers_len_max;
pub(crate) use registry_news::RegistryNews;
use state::FleetState;
use streak::{PresenceSource, SILENT_MS};

/// Number of agents that is assumed without any other number.
pub const FLEET_EXPECTED_DEFAULT: u32 = 10;

/// Ids of agents in ascending order.
pub type AgentIds = Arc<Vec<Arc<str>>>;

pub(crate) struct Fleet {
    id: Arc<str>,
    epoch: Timestamp,
    expected: NonZeroU32,
    /// True if the expected number is the default one.
    is_default: bool,
    state: Mutex<FleetState>,
    part: SharedPart,
    agents: AtomicU32,
    is_frozen: AtomicBool,
    ids: ArcSwap<Vec<Arc<str>>>,
    heard: HeardAgents,
    registry: RegistryNews,
}

impl Fleet {
    /// Creates the fleet of an agent that starts now, with the other members that a former life knew.
    pub(crate) fn new(
        id: Arc<str>,
        epoch: Timestamp,
        agents_expected: Option<NonZeroU32>,
        saved: Option<Vec<Arc<str>>>,
    ) -> Self {
        let default = NonZeroU32::new(FLEET_EXPECTED_DEFAULT).unwrap_or(NonZeroU32::MIN);
        let expected = agents_expected.unwrap_or(default);
        let is_known = saved.is_some();
        let others = Members::saved(saved.unwrap_or_default(), &id);
        let set = BelievedSet::new(newcomers_len_max(agents_expected));
        let state = Mutex::new(FleetState { others, is_known, set, ..FleetState::default() });
        let fleet = Self {
            id,
            epoch,
            expected,
            is_default: agents_expected.is_none(),
            state,
            part: SharedPart::new(FleetPart::Nothing),
            agents: AtomicU32::new(0),
            is_frozen: AtomicBool::default(),
            ids: ArcSwap::default(),
            heard: HeardAgents::new(newcomers_len_max(agents_expected)),
            registry: RegistryNews::default(),
        };
        fleet.tick(epoch);
        fleet
    }

    /// Applies a heartbeat from the bus. A heartbeat of a former life of this agent is ignored.
    pub(crate) fn presence(&self, now: Timestamp, presence: &Presence) {
        if presence.role != Role::Agent {
            return;
        }
        let mut state = self.state.lock();
        if presence.id != self.id {
            state.others_on_bus.heard(now);
            state.others.heartbeat(now, presence);
        } else if presence.epoch == self.epoch.as_ms() && !presence.leaving {
            state.own[PresenceSource::Bus as usize].heard(now);
        } else if presence.epoch > self.epoch.as_ms() && !presence.leaving {
            state.namesake.heartbeat(now);
        }
    }

    /// Tells a member of the fleet from an agent that was heard for a moment only.
    pub(crate) fn hear(&self, appended: Timestamp, presence: &Presence) -> Heard {
        let is_known = presence.role != Role::Agent
            || presence.leaving
            || presence.id == self.id
            || self.state.lock().others.knows(&presence.id);
        if is_known { Heard::Member } else { self.heard.hear(appended, &presence.id) }
    }

    pub(crate) fn registry(&self) -> &RegistryNews {
        &self.registry
    }

    /// Applies the store's answer to an announcement of this agent; nothing if there was none.
    pub(crate) fn announced(&self, now: Timestamp, set: Option<&PresenceSet>) {
        let mut state = self.state.lock();
        state.namesake.announced(now, &self.id, set);
        let Some(set) = set else { return };
        let FleetState { own, others, set: known_set, .. } = &mut *state;
        own[PresenceSource::Store as usize].heard(now);
        let named = || set.agents.iter().filter(|(id, _)| *id != self.id);
        let new = named().map(|(id, _)| id).filter(|id| !others.knows(id));
        let is_believed = known_set.answered(now, set, new);
        for (id, announced) in named() {
            if is_believed || others.knows(id) {
                others.announcement(now, id, *announced);
            }
        }
    }

    /// Updates the members and this agent's part from the heartbeats. It must be called a few times a second. Returns
    /// the changes for the log.
    pub(crate) fn tick(&self, now: Timestamp) -> Vec<Notice> {
        let mut notices = Vec::new();
        let mut state = self.state.lock();
        notices.extend(state.set.take_notice());
        let (own, is_set_complete) = (state.own, state.set.is_complete());
        state.others.remove_gone(now, |source| {
            own[source as usize].lasted_ms(now) >= GONE_AFTER_MS && (source == PresenceSource::Bus || is_set_complete)
        });
        let standing = state.standing_at(now);
        if let Some(notice) = standing.notice_after(state.standing) {
            notices.push(notice);
        }
        state.standing = standing;
        notices.extend(state.namesake.notice(now));
        state.is_known |= state.knows_all(now);
        let agents = u32::try_from(state.others.len()).unwrap_or(u32::MAX).saturating_add(1);
        let agents = NonZeroU32::new(agents).unwrap_or(NonZeroU32::MIN);
        let agents = if state.is_known { agents } else { agents.max(self.expected) };
        self.agents.store(agents.get(), Ordering::Relaxed);
        let is_starting = now.ms_since(self.epoch) <= SILENT_MS;
        self.part.set(state.part(now, agents, self.expected, is_starting));
        let is_frozen = state.is_frozen(now, self.is_frozen(), self.epoch);
        if self.is_frozen.swap(is_frozen, Ordering::Relaxed) != is_frozen {
            notices.push(if is_frozen { Notice::FleetFrozen { agents } } else { Notice::FleetUnfrozen { agents } });
        }
        if state.others.take_change() {
            let mut ids: Vec<_> = state.others.ids().chain([&self.id]).cloned().collect();
            ids.sort_unstable();
            self.ids.store(Arc::new(ids));
        }
        notices
    }

    pub(crate) fn part(&self) -> FleetPart {
        self.part.get()
    }

    /// Returns true if the part is that of the default number of agents. This ends when a source
    /// names all members.
    pub(crate) fn is_guessed(&self) -> bool {
        self.is_default && matches!(self.part(), FleetPart::Expected(_))
    }

    /// Returns the number of agents, which is the expected one as long as it is larger and nothing else is known.
    pub(crate) fn size(&self) -> NonZeroU32 {
        NonZeroU32::new(self.agents.load(Ordering::Relaxed)).unwrap_or(NonZeroU32::MIN)
    }

    /// Returns the ids of the agents that were heard, this one included, in ascending order.
    pub(crate) fn ids(&self) -> AgentIds {
        self.ids.load_full()
    }

    /// Returns false for each agent that is no member. An agent that has heard no other one cannot tell, and returns
    /// true for all.
    pub(crate) fn are_members(&self, agents: &[Arc<str>]) -> Vec<bool> {
        let ids = self.ids.load();
        agents.iter().map(|agent| ids.is_empty() || ids.binary_search(agent).is_ok()).collect()
    }

    /// Returns the number of agents that precede this one when the units of a counter are placed on single agents. None
    /// if the members are not known, or if this agent has no part.
    pub(crate) fn rank(&self, counter: CounterId) -> Option<u32> {
        let FleetPart::OneOf(_) = self.part() else { return None };
        let weight = |id: &Arc<str>| rendezvous::weight(id, 0, counter.as_u128());
        let own = (weight(&self.id), &self.id);
        let before = self.ids.load().iter().filter(|id| (weight(id), *id) > own).count();
        u32::try_from(before).ok()
    }

    /// Returns true if the members are known from presence or from the saved state.
    pub(crate) fn is_known(&self) -> bool {
        self.state.lock().is_known
    }

    /// Returns true while no member is removed, because no own heartbeat comes back.
    pub(crate) fn is_frozen(&self) -> bool {
        self.is_frozen.load(Ordering::Relaxed)
    }
}
