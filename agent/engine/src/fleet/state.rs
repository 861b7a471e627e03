//! State of the fleet by its heartbeats: what follows from them for the membership and for this agent's part.

use std::num::NonZeroU32;

use tollgate_core::clock::Timestamp;
use tollgate_core::messages::presence::{GONE_AFTER_MS, INTERVAL_MS};

use super::members::Members;
use super::namesake::Namesake;
use super::part::FleetPart;
use super::presence_set::BelievedSet;
use super::standing::Standing;
use super::streak::{PresenceSource, SILENT_MS, Streak};

/// Time between an agent's first heartbeat and the one with which it takes its part, in ms: two heartbeats, less the
/// difference of their delays. Every other agent has heard it by then.
const JOINED_AFTER_MS: u64 = 2 * INTERVAL_MS - 200;
/// Time without an own heartbeat, while others arrive, after which an agent gives its part up, in ms: before the others
/// remove it.
const MUTE_MS: u64 = GONE_AFTER_MS - INTERVAL_MS;

#[derive(Default)]
pub(super) struct FleetState {
    pub(super) others: Members,
    /// Own heartbeats, by source.
    pub(super) own: [Streak; PresenceSource::LEN],
    pub(super) others_on_bus: Streak,
    pub(super) standing: Standing,
    /// True if all members are known, and not only a part of them. It stays true, because members are removed one by
    /// one.
    pub(super) is_known: bool,
    pub(super) set: BelievedSet,
    pub(super) namesake: Namesake,
}

impl FleetState {
    fn own_lasted(&self, now: Timestamp, source: PresenceSource, ms: u64) -> bool {
        self.own[source as usize].lasted_ms(now) >= ms
    }

    fn own_lasts_anywhere(&self, now: Timestamp, ms: u64) -> bool {
        PresenceSource::ALL.into_iter().any(|source| self.own_lasted(now, source, ms))
    }

    fn hears_anyone(&self, now: Timestamp) -> bool {
        self.own.iter().chain([&self.others_on_bus]).any(|streak| streak.goes_on(now))
    }

    /// Returns true if the bus delivers heartbeats of others and has long not delivered one of this agent.
    fn is_mute(&self, now: Timestamp) -> bool {
        let since = self.own[PresenceSource::Bus as usize].last().max(self.others_on_bus.first());
        self.others_on_bus.goes_on(now) && now.ms_since(since) >= MUTE_MS
    }

    /// Returns true if the presence set, which was read lately, names no other agent.
    fn is_alone_in_set(&self, now: Timestamp) -> bool {
        self.others.is_empty() && !self.set.is_refused() && self.own[PresenceSource::Store as usize].goes_on(now)
    }

    pub(super) fn standing_at(&self, now: Timestamp) -> Standing {
        if self.is_mute(now) {
            Standing::Removed
        } else if self.own_lasts_anywhere(now, JOINED_AFTER_MS) || self.set.is_complete() && self.is_alone_in_set(now) {
            Standing::Joined
        } else {
            self.standing
        }
    }

    /// Returns true if every live member has been heard. On the bus, each of them sends as often as this agent. In the
    /// store, a member that is missing in a young set may not have found it yet.
    pub(super) fn knows_all(&self, now: Timestamp) -> bool {
        self.own_lasted(now, PresenceSource::Bus, JOINED_AFTER_MS)
            || self.set.is_complete() && self.own[PresenceSource::Store as usize].goes_on(now)
    }

    /// Returns the own part of so many agents. While nobody could be heard yet, the number of saved members is only an
    /// expected one.
    pub(super) fn part(
        &self,
        now: Timestamp,
        agents: NonZeroU32,
        expected: NonZeroU32,
        is_starting: bool,
    ) -> FleetPart {
        let hears_anyone = self.hears_anyone(now);
        let meets_nobody = self.is_alone_in_set(now) || self.others.is_empty() && expected == NonZeroU32::MIN;
        match self.standing {
            Standing::Removed => FleetPart::Nothing,
            Standing::New if hears_anyone && !meets_nobody => FleetPart::Nothing,
            Standing::New if !hears_anyone && is_starting => FleetPart::Expected(agents),
            _ if self.is_known => FleetPart::OneOf(agents),
            _ => FleetPart::Expected(agents),
        }
    }

    /// Returns true if the membership is frozen: after a while without own heartbeats, until several came back.
    pub(super) fn is_frozen(&self, now: Timestamp, was_frozen: bool, epoch: Timestamp) -> bool {
        let is_silent = !self.own.iter().any(|streak| streak.goes_on(now)) && now.ms_since(epoch) > SILENT_MS;
        self.is_known && (is_silent || was_frozen && !self.own_lasts_anywhere(now, JOINED_AFTER_MS))
    }
}
