//! The division of partitions among aggregators: rendezvous hashing over the live members.
//!
//! Membership follows the presence records in the order of their log, by their append times. A peer is removed when
//! one's own heartbeats were read for a second and none of the peer's; a silent bus therefore removes nobody, and no
//! clocks are compared. A peer is added once it was heard for as long as it listens itself before it owns anything. An
//! unknown one that claims to count partitions already was never added, and its records are absurd; but they may also
//! follow honest ones that were refused in a flood, so whoever goes on to claim is added after a longer time. Two
//! owners of one partition for a moment are harmless, because signals carry offsets. A group protocol is not used: it
//! takes seconds to notice a death.

#[cfg(test)]
mod tests;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use tollgate_core::clock::Timestamp;
use tollgate_core::counter::Partition;
use tollgate_core::messages::presence::{Presence, Role};
use tollgate_core::newcomers::{Heard, Newcomers};
use tollgate_core::rendezvous;

/// Interval of an aggregator's heartbeats, in ms.
pub const HEARTBEAT_MS: u64 = 200;
/// Time of one's own heartbeats without any of a peer's after which the peer is removed, in ms. A new member listens
/// for the same time before it owns partitions.
pub(crate) const GONE_AFTER_MS: u64 = 1_000;
/// Time for which an unknown aggregator claims partitions before it is a peer, in ms. One forged record is not enough,
/// and two aggregators that do not know each other would both count for good.
const CLAIMED_MS: u64 = 3_000;
const PEERS_LEN_MAX: usize = 1_000;
/// Maximum number of peers that may come within seconds.
const NEWCOMERS_LEN_MAX: usize = 100;
/// Maximum number of removed peers that are remembered, because a suspended one may go on.
const REMOVED_LEN_MAX: usize = 1_000;

/// One life of an aggregator: its name and its start.
pub type MemberId = (Arc<str>, u64);

/// The owner of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartitionOwner {
    /// This aggregator.
    Own,
    /// A peer that has not restored the partition yet.
    PeerRestoring,
    /// A peer that counts the partition.
    PeerCounting,
}

/// The live aggregators, as one of them knows them.
#[derive(Clone, Debug)]
pub struct Membership {
    own: MemberId,
    /// The append times of this aggregator's first and newest heartbeat.
    own_heartbeats: Option<(Timestamp, Timestamp)>,
    /// The append time of the first heartbeat of this aggregator after the last gap.
    heard_since: Timestamp,
    peers: HashMap<MemberId, Peer>,
    newcomers: Newcomers<MemberId>,
    /// Unknown aggregators that claim partitions.
    claimants: Newcomers<MemberId>,
    /// Lives that were peers, the last one at the end.
    removed: VecDeque<MemberId>,
}

#[derive(Clone, Debug)]
struct Peer {
    /// The append time of the first own heartbeat after the peer's last.
    silent_since: Option<Timestamp>,
    http: Arc<str>,
    /// True if the peer may coordinate the budgets of regions.
    coordinates: bool,
    /// The partitions that the peer owns and has restored.
    partitions: Vec<Partition>,
}

impl Membership {
    /// Returns a membership without peers.
    #[must_use]
    pub fn new(own: MemberId) -> Self {
        let [newcomers, claimants] = [GONE_AFTER_MS, CLAIMED_MS].map(|ms| Newcomers::new(ms, NEWCOMERS_LEN_MAX));
        Self {
            own,
            own_heartbeats: None,
            heard_since: Timestamp::default(),
            peers: HashMap::new(),
            newcomers,
            claimants,
            removed: VecDeque::new(),
        }
    }

    /// Applies a record of `presence`.
    ///
    /// # Errors
    /// The reason for which the record cannot be true; it changes nothing.
    pub fn apply(&mut self, presence: &Presence, appended: Timestamp) -> Result<(), String> {
        if presence.role != Role::Aggregator {
            return Ok(());
        }
        let member = (presence.id.clone(), presence.epoch);
        if member == self.own {
            let (first, newest) = self.own_heartbeats.unwrap_or((appended, Timestamp::default()));
            if appended.ms_since(newest) >= GONE_AFTER_MS {
                self.heard_since = appended;
            }
            self.own_heartbeats = Some((first, appended));
            self.remove(|_, peer| appended.ms_since(*peer.silent_since.get_or_insert(appended)) >= GONE_AFTER_MS);
        } else if presence.leaving {
            self.remove(|peer, _| *peer == member);
        } else if self.peers.contains_key(&member) || self.admits(&member, presence, appended)? {
            let (http, partitions) = (presence.http.clone(), presence.partitions.clone());
            let coordinates = presence.coordinates;
            self.peers.insert(member, Peer { silent_since: None, http, coordinates, partitions });
        }
        Ok(())
    }

    /// Returns true if an unknown aggregator is a peer from now on.
    fn admits(&mut self, member: &MemberId, presence: &Presence, appended: Timestamp) -> Result<bool, String> {
        let was_peer = self.removed.contains(member);
        let is_absurd = self.is_settled() && !was_peer && !presence.partitions.is_empty();
        let heard = if is_absurd { &mut self.claimants } else { &mut self.newcomers }.hear(appended, member);
        let (id, epoch) = member;
        if heard == Heard::TooMany {
            return Err(format!("more than {NEWCOMERS_LEN_MAX} new aggregators within seconds, the last one is {id}"));
        }
        if is_absurd && heard == Heard::Newcomer {
            return Err(format!(
                "aggregator {id} (started at {epoch}) claims partitions that it cannot have restored, and is a peer if it goes on for {} s; if it is none of yours, find who else writes to the topic presence",
                CLAIMED_MS / 1_000
            ));
        }
        // A member that is heard while this aggregator listens may have been there before.
        Ok((heard == Heard::Member || was_peer || !self.is_settled()) && self.peers.len() < PEERS_LEN_MAX)
    }

    fn remove(&mut self, mut is_gone: impl FnMut(&MemberId, &mut Peer) -> bool) {
        for (member, _) in self.peers.extract_if(|member, peer| is_gone(member, peer)) {
            self.removed.push_back(member);
        }
        self.removed.drain(..self.removed.len().saturating_sub(REMOVED_LEN_MAX));
    }

    /// Returns whether this aggregator has listened long enough to know its peers; before that it owns nothing.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.own_heartbeats.is_some_and(|(first, newest)| newest.ms_since(first) >= GONE_AFTER_MS)
    }

    /// Returns true if every peer has heard this aggregator for long enough to know it. Before that it may own
    /// partitions, but announces none: a peer that came during a gap in its heartbeats would not believe it.
    #[must_use]
    pub fn is_known(&self) -> bool {
        self.own_heartbeats.is_some_and(|(_, newest)| newest.ms_since(self.heard_since) >= GONE_AFTER_MS)
    }

    /// Returns true if this life of an aggregator is a peer.
    #[must_use]
    pub fn has_peer(&self, member: &MemberId) -> bool {
        self.peers.contains_key(member)
    }

    /// Returns the owner of a partition. Only the announcement of the owner itself proves that it counts: another peer
    /// may have crashed since its announcement.
    #[must_use]
    pub fn owner(&self, partition: Partition) -> PartitionOwner {
        let heaviest = self.peers.iter().max_by_key(|(peer, _)| weight(peer, partition));
        let is_heavier = |(peer, _): &(&MemberId, &Peer)| weight(peer, partition) > weight(&self.own, partition);
        match heaviest {
            _ if self.is_settled() && !heaviest.as_ref().is_some_and(is_heavier) => PartitionOwner::Own,
            Some((_, peer)) if peer.partitions.contains(&partition) => PartitionOwner::PeerCounting,
            _ => PartitionOwner::PeerRestoring,
        }
    }

    /// Returns the names of the peers that may coordinate the budgets of regions.
    pub fn coordinating_peers(&self) -> impl Iterator<Item = &Arc<str>> {
        self.peers.iter().filter(|(_, peer)| peer.coordinates).map(|((name, _), _)| name)
    }

    /// Returns the HTTP addresses of the peers.
    pub fn peer_addresses(&self) -> impl Iterator<Item = &Arc<str>> {
        self.peers.values().map(|peer| &peer.http).filter(|http| !http.is_empty())
    }

    /// Returns the names of the peers.
    pub fn peer_names(&self) -> impl Iterator<Item = &Arc<str>> {
        self.peers.keys().map(|(name, _)| name)
    }

    /// Returns the number of live aggregators, this one included.
    #[must_use]
    pub fn members(&self) -> usize {
        1 + self.peers.len()
    }
}

/// The member with the greatest weight owns the partition.
fn weight(member: &MemberId, partition: Partition) -> (u64, &MemberId) {
    (rendezvous::weight(&member.0, member.1, partition.into()), member)
}
