//! The division of partitions among aggregators: rendezvous hashing over the live members.
//!
//! Membership follows the presence records in the order of their log, by their append times. A peer is removed when one's own
//! heartbeats were read for a second and none of the peer's; a silent bus therefore removes nobody, and no clocks are
//! compared. Two owners of one partition for a moment are harmless, because signals carry offsets. A group protocol is not
//! used: it takes seconds to notice a death.

use std::collections::HashMap;
use std::sync::Arc;

use tollgate_core::clock::Timestamp;
use tollgate_core::counter::Partition;
use tollgate_core::messages::presence::{Presence, Role};
use tollgate_core::rendezvous;

/// Interval of an aggregator's heartbeats, in ms.
pub const HEARTBEAT_MS: u64 = 200;
/// Time of one's own heartbeats without any of a peer's after which the peer is removed, in ms; also the time for which a new
/// member listens before it owns partitions.
const GONE_AFTER_MS: u64 = 1_000;
/// Maximum number of peers.
const PEERS_LEN_MAX: usize = 1_000;

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
    peers: HashMap<MemberId, Peer>,
}

#[derive(Clone, Debug)]
struct Peer {
    /// The append time of the first own heartbeat after the peer's last.
    silent_since: Option<Timestamp>,
    http: Arc<str>,
    /// The partitions that the peer owns and has restored.
    partitions: Vec<Partition>,
}

impl Membership {
    /// Returns a membership without peers.
    #[must_use]
    pub fn new(own: MemberId) -> Self {
        Self { own, own_heartbeats: None, peers: HashMap::new() }
    }

    /// Applies a record of `presence`.
    pub fn apply(&mut self, presence: &Presence, appended: Timestamp) {
        if presence.role != Role::Aggregator {
            return;
        }
        let member = (presence.id.clone(), presence.epoch);
        if member == self.own {
            let first = self.own_heartbeats.map_or(appended, |(first, _)| first);
            self.own_heartbeats = Some((first, appended));
            self.peers.retain(|_, peer| appended.ms_since(*peer.silent_since.get_or_insert(appended)) < GONE_AFTER_MS);
        } else if presence.leaving {
            self.peers.remove(&member);
        } else if self.peers.len() < PEERS_LEN_MAX || self.peers.contains_key(&member) {
            let (http, partitions) = (presence.http.clone(), presence.partitions.clone());
            self.peers.insert(member, Peer { silent_since: None, http, partitions });
        }
    }

    /// Returns whether this aggregator has listened long enough to know its peers; before that it owns nothing.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.own_heartbeats.is_some_and(|(first, newest)| newest.ms_since(first) >= GONE_AFTER_MS)
    }

    /// Returns the owner of a partition. Only the announcement of the owner itself proves that it counts: another peer may have
    /// crashed since its announcement.
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

    /// Returns the HTTP addresses of the peers.
    pub fn peer_addresses(&self) -> impl Iterator<Item = &Arc<str>> {
        self.peers.values().map(|peer| &peer.http).filter(|http| !http.is_empty())
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

#[cfg(test)]
mod tests {
    use super::*;

    const PARTITIONS: u32 = 16;

    fn at(ms: u64) -> Timestamp {
        Timestamp::from_ms(ms)
    }

    fn heartbeat(id: &str, leaving: bool) -> Presence {
        Presence {
            id: id.into(),
            epoch: 1,
            region: "r".into(),
            role: Role::Aggregator,
            generation: 0,
            clock: at(0),
            open_breakers: Vec::new(),
            dropped_rows: 0,
            leaving,
            http: format!("{id}:1").into(),
            partitions: vec![7],
        }
    }

    fn owned(membership: &Membership) -> Vec<Partition> {
        (0..PARTITIONS).filter(|partition| membership.owner(*partition) == PartitionOwner::Own).collect()
    }

    /// Heartbeats of these ids, every 200 ms of a span, applied to all memberships.
    fn apply(memberships: &mut [Membership], ids: &[&str], from_ms: u64, to_ms: u64) {
        for ms in (from_ms..=to_ms).step_by(200) {
            for id in ids {
                for membership in memberships.iter_mut() {
                    membership.apply(&heartbeat(id, false), at(ms));
                }
            }
        }
    }

    fn pair() -> [Membership; 2] {
        ["a", "b"].map(|id| Membership::new((id.into(), 1)))
    }

    #[test]
    fn each_partition_has_one_owner_once_all_have_listened() {
        let mut both = pair();
        apply(&mut both, &["a", "b"], 0, 800);
        assert!(both.iter().all(|one| owned(one).is_empty()), "a new member listens first");
        apply(&mut both, &["a", "b"], 1_000, 1_000);
        let (a, b) = (owned(&both[0]), owned(&both[1]));
        assert!(!a.is_empty() && !b.is_empty() && a.iter().all(|partition| !b.contains(partition)));
        assert_eq!(a.len() + b.len(), PARTITIONS as usize);
    }

    /// E7: a dead member's partitions move on within about a second, and only those.
    #[test]
    fn a_peer_that_is_silent_during_own_heartbeats_is_removed() {
        let mut both = pair();
        apply(&mut both, &["a", "b"], 0, 1_000);
        let before = owned(&both[0]);
        apply(&mut both[..1], &["a"], 1_200, 2_000);
        assert_eq!(owned(&both[0]), before, "not yet");
        apply(&mut both[..1], &["a"], 2_200, 2_200);
        assert_eq!(owned(&both[0]).len(), PARTITIONS as usize);
    }

    #[test]
    fn a_silent_bus_removes_nobody() {
        let mut both = pair();
        apply(&mut both, &["a", "b"], 0, 1_000);
        let before = owned(&both[0]);
        apply(&mut both, &["a", "b"], 60_000, 60_200);
        assert_eq!(owned(&both[0]), before);
    }

    #[test]
    fn a_peer_counts_the_partitions_that_it_announces() {
        let mut both = pair();
        apply(&mut both, &["a", "b"], 0, 800);
        assert_eq!(
            [6, 7].map(|partition| both[0].owner(partition)),
            [PartitionOwner::PeerRestoring, PartitionOwner::PeerCounting]
        );
    }

    #[test]
    fn only_the_owner_itself_announces_that_it_counts() {
        let is_heaviest = |id: &String| {
            ["a", "b"].iter().all(|other| weight(&((*other).into(), 1), 7) < weight(&(id.as_str().into(), 1), 7))
        };
        let owner = (0..100).map(|number| format!("c{number}")).find(is_heaviest).unwrap();
        let mut both = pair();
        apply(&mut both, &["a", "b"], 0, 1_000);
        both[0].apply(&Presence { partitions: Vec::new(), ..heartbeat(&owner, false) }, at(1_100));
        assert_eq!(both[0].owner(7), PartitionOwner::PeerRestoring, "b may have crashed since");
        both[0].apply(&heartbeat(&owner, false), at(1_200));
        assert_eq!(both[0].owner(7), PartitionOwner::PeerCounting);
    }

    #[test]
    fn a_peer_that_leaves_is_removed_at_once() {
        let mut both = pair();
        apply(&mut both, &["a", "b"], 0, 1_000);
        both[0].apply(&heartbeat("b", true), at(1_100));
        assert_eq!(owned(&both[0]).len(), PARTITIONS as usize);
    }
}
