//! The fleet: how many agents are active.
//!
//! Presence on the bus and the presence set in the store both count members; the larger number holds. While an agent receives
//! no heartbeat at all, not even its own, the last number stands, because the bus and the store may be unavailable.

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use parking_lot::Mutex;
use tollgate_core::clock::Timestamp;
use tollgate_core::counter::CounterId;
use tollgate_core::messages::presence::{GONE_AFTER_MS, INTERVAL_MS, Presence, Role};
use tollgate_core::rendezvous;

/// Number of agents that is assumed without any other number.
pub const FLEET_EXPECTED_DEFAULT: u32 = 10;
/// Time for which an agent listens before it relies on the members whose heartbeats it has received, in ms.
const LISTEN_FIRST_MS: u64 = 2 * INTERVAL_MS;
/// Maximum number of members. Heartbeats of further ones are ignored.
const FLEET_LEN_MAX: usize = 10_000;

/// Number of active agents, from presence.
pub(crate) struct Fleet {
    expected: u32,
    members: Mutex<Members>,
    active: AtomicU32,
}

/// Members and the time at which each was last heard.
#[derive(Default)]
struct Members {
    heard: HashMap<Arc<str>, Timestamp>,
    listening_since: Option<Timestamp>,
    /// The store's number of agents, and the time at which it was read.
    by_store: Option<(Timestamp, u32)>,
    /// True if the number comes from presence and is not only expected.
    known: bool,
}

impl Fleet {
    pub(crate) fn new(agents_expected: Option<NonZeroU32>) -> Self {
        let expected = agents_expected.map_or(FLEET_EXPECTED_DEFAULT, NonZeroU32::get);
        Self { expected, members: Mutex::default(), active: AtomicU32::new(expected) }
    }

    /// Applies a member's heartbeat.
    pub(crate) fn presence(&self, now: Timestamp, presence: &Presence) {
        if presence.role != Role::Agent {
            return;
        }
        let mut members = self.members.lock();
        members.listening_since.get_or_insert(now);
        if presence.leaving {
            members.heard.remove(&presence.id);
        } else if members.heard.len() < FLEET_LEN_MAX || members.heard.contains_key(&presence.id) {
            members.heard.insert(presence.id.clone(), now);
        }
        self.count(&mut members, now);
    }

    /// Returns true if the member was heard lately.
    pub(crate) fn knows(&self, id: &Arc<str>) -> bool {
        self.members.lock().heard.contains_key(id)
    }

    /// Applies the number of agents in the store's presence set.
    pub(crate) fn by_store(&self, now: Timestamp, agents: u32) {
        let mut members = self.members.lock();
        members.by_store = Some((now, agents));
        self.count(&mut members, now);
    }

    /// Removes members that have been silent for too long.
    pub(crate) fn tick(&self, now: Timestamp) {
        self.count(&mut self.members.lock(), now);
    }

    /// Returns the number of active agents, or the expected number before the first heartbeat.
    pub(crate) fn size(&self) -> NonZeroU32 {
        NonZeroU32::new(self.active.load(Ordering::Relaxed)).unwrap_or(NonZeroU32::MIN)
    }

    /// Returns the number of active agents if it comes from presence.
    pub(crate) fn known_size(&self) -> Option<NonZeroU32> {
        self.members.lock().known.then(|| self.size())
    }

    /// Returns the number of members that precede this one when the units of a counter are placed on single members. Members
    /// that are only counted may all precede it. Nothing if the member has not heard itself.
    pub(crate) fn place(&self, own: &str, counter: CounterId) -> Option<u32> {
        let members = self.members.lock();
        let (own, _) = members.heard.get_key_value(own)?;
        let weight = |member: &Arc<str>| rendezvous::weight(member, 0, counter.as_u128());
        let own = (weight(own), own);
        let before = members.heard.keys().filter(|member| (weight(member), *member) > own).count();
        let unheard = self.size().get().saturating_sub(u32::try_from(members.heard.len()).unwrap_or(u32::MAX));
        Some(u32::try_from(before).unwrap_or(u32::MAX).saturating_add(unheard))
    }

    fn count(&self, members: &mut Members, now: Timestamp) {
        members.heard.retain(|_, heard| now.ms_since(*heard) <= GONE_AFTER_MS);
        let by_store = members.by_store.filter(|(at, _)| now.ms_since(*at) <= GONE_AFTER_MS).map_or(0, |(_, n)| n);
        let by_bus = u32::try_from(members.heard.len()).unwrap_or(u32::MAX);
        let active = by_bus.max(by_store);
        if active == 0 {
            return;
        }
        // The store knows every member. On the bus, expected members may not have announced themselves yet.
        let listened_ms = members.listening_since.map_or(0, |since| now.ms_since(since));
        let unsure = by_store == 0 && listened_ms < LISTEN_FIRST_MS;
        let active = if unsure { active.max(self.expected) } else { active };
        self.active.store(active, Ordering::Relaxed);
        members.known = !unsure;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(ms: u64) -> Timestamp {
        Timestamp::from_ms(ms)
    }

    fn member(id: &str) -> Presence {
        Presence {
            id: id.into(),
            epoch: 1,
            region: "r".into(),
            role: Role::Agent,
            generation: 1,
            clock: at(0),
            open_breakers: Vec::new(),
            dropped_rows: 0,
            leaving: false,
            http: "".into(),
            partitions: Vec::new(),
        }
    }

    /// E7: the number of active agents follows those that join and leave.
    #[test]
    fn the_fleet_is_the_members_heard_lately() {
        let fleet = Fleet::new(NonZeroU32::new(7));
        assert_eq!(fleet.size().get(), 7);
        fleet.presence(at(1_000), &member("a"));
        fleet.presence(at(1_000), &member("b"));
        assert_eq!(fleet.size().get(), 7, "others may not have announced themselves yet");
        fleet.tick(at(3_000));
        assert_eq!(fleet.size().get(), 2);
        fleet.presence(at(16_500), &member("a"));
        assert_eq!(fleet.size().get(), 1);
        fleet.tick(at(90_000));
        assert_eq!(fleet.size().get(), 1, "silence of everyone proves nothing");
    }

    /// R8: a unit of a counter is placed on one agent, and all members agree on which.
    #[test]
    fn units_are_placed_on_different_members_and_none_on_a_stranger() {
        let ids = ["a", "b", "c", "d"];
        let fleet = Fleet::new(NonZeroU32::new(4));
        for id in ids {
            fleet.presence(at(1_000), &member(id));
        }
        fleet.tick(at(3_000));
        for counter in (0..20).map(CounterId::from_u128) {
            let mut places = ids.map(|id| fleet.place(id, counter).unwrap());
            places.sort_unstable();
            assert_eq!(places, [0, 1, 2, 3]);
        }
        let first = |counter| ids.iter().position(|id| fleet.place(id, CounterId::from_u128(counter)) == Some(0));
        assert!((0..20).any(|counter| first(counter) != first(0)), "not always the same member");
        assert_eq!(fleet.place("e", CounterId::from_u128(1)), None);
        fleet.by_store(at(3_000), 6);
        assert!(ids.iter().all(|id| fleet.place(id, CounterId::from_u128(1)) >= Some(2)), "two members are not known");
    }
}
