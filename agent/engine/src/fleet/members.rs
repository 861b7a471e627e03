//! The other agents of the fleet, with the times at which each source reported them.
//!
//! An agent stays a member until its absence is proved: it was silent for the removal time, and a source that reported
//! it before delivered this agent's own heartbeats for as long; the store's set must also be as old. Without such a
//! source, silence means that sources are unavailable, not that agents are gone.

use std::collections::HashMap;
use std::sync::Arc;

use foldhash::fast::RandomState;
use tollgate_core::clock::Timestamp;
use tollgate_core::messages::presence::{GONE_AFTER_MS, Presence};

use super::streak::PresenceSource;

/// Maximum number of other agents. Heartbeats of further ones are ignored.
pub(super) const MEMBERS_LEN_MAX: usize = 10_000;

/// Other agents, by id.
#[derive(Default)]
pub(super) struct Members {
    by_id: HashMap<Arc<str>, Member, RandomState>,
    /// True after an agent came or went, until [`Members::take_change`].
    is_changed: bool,
}

#[derive(Default)]
struct Member {
    /// Time at which each source reported it last; nothing if the source never did.
    heard: [Option<Timestamp>; PresenceSource::LEN],
    /// Store's time of its last announcement there. It is alive if this changes, whatever the store's clock says.
    announced: Option<Timestamp>,
    /// Start of its process.
    epoch: u64,
}

impl Members {
    /// Returns the members that a former life of the agent knew. Every source can prove that one of them has gone.
    pub(super) fn saved(ids: Vec<Arc<str>>, own: &str) -> Self {
        let saved = || Member { heard: [Some(Timestamp::default()); PresenceSource::LEN], ..Member::default() };
        let others = ids.into_iter().filter(|id| **id != *own).take(MEMBERS_LEN_MAX);
        Self { by_id: others.map(|id| (id, saved())).collect(), is_changed: true }
    }

    pub(super) fn len(&self) -> usize {
        self.by_id.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    pub(super) fn knows(&self, id: &Arc<str>) -> bool {
        self.by_id.contains_key(id)
    }

    pub(super) fn ids(&self) -> impl Iterator<Item = &Arc<str>> {
        self.by_id.keys()
    }

    /// Returns true if an agent came or went since the last call.
    pub(super) fn take_change(&mut self) -> bool {
        std::mem::take(&mut self.is_changed)
    }

    /// Applies a heartbeat of another agent from the bus. An agent that leaves is gone at once, unless it has started again.
    pub(super) fn heartbeat(&mut self, now: Timestamp, presence: &Presence) {
        if !presence.leaving {
            if let Some(member) = self.find_or_add(&presence.id) {
                member.heard[PresenceSource::Bus as usize] = Some(now);
                member.epoch = presence.epoch;
            }
        } else if self.by_id.get(&presence.id).is_some_and(|member| member.epoch == presence.epoch) {
            self.by_id.remove(&presence.id);
            self.is_changed = true;
        }
    }

    /// Applies the last announcement of another agent in the store.
    pub(super) fn announcement(&mut self, now: Timestamp, id: &Arc<str>, announced: Timestamp) {
        if let Some(member) = self.find_or_add(id)
            && member.announced.replace(announced) != Some(announced)
        {
            member.heard[PresenceSource::Store as usize] = Some(now);
        }
    }

    /// Removes the members whose absence is proved by a source that works.
    pub(super) fn remove_gone(&mut self, now: Timestamp, works: impl Fn(PresenceSource) -> bool) {
        let before = self.by_id.len();
        self.by_id.retain(|_, member| {
            let is_silent = member.heard.iter().flatten().all(|heard| now.ms_since(*heard) > GONE_AFTER_MS);
            let is_proved = || {
                PresenceSource::ALL.into_iter().any(|source| member.heard[source as usize].is_some() && works(source))
            };
            !(is_silent && is_proved())
        });
        self.is_changed |= self.by_id.len() != before;
    }

    fn find_or_add(&mut self, id: &Arc<str>) -> Option<&mut Member> {
        if !self.by_id.contains_key(id) {
            if self.by_id.len() >= MEMBERS_LEN_MAX {
                return None;
            }
            self.by_id.insert(id.clone(), Member::default());
            self.is_changed = true;
        }
        self.by_id.get_mut(id)
    }
}
