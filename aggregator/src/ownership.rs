//! Which partitions an aggregator counts: rendezvous hashing over those who are there.
//!
//! Pure: it hears the presence of aggregators in the order of their log and goes by the times at which the records were
//! appended. A member is gone when one has read one's own heartbeats for a second and none of its; so a silent bus kills
//! nobody, and no clocks are compared. Two owners for a moment are harmless, since what they say carries offsets; that is
//! why no group protocol is needed, which would take seconds more to notice a death.
//! Thaler and Ravishankar, "A Name-Based Mapping Scheme for Rendezvous", 1996.

use std::collections::HashMap;
use std::hash::Hasher;
use std::sync::Arc;

use siphasher::sip::SipHasher24;
use tollgate_core::clock::Timestamp;
use tollgate_core::counter::Partition;
use tollgate_core::messages::presence::{Presence, Role};

/// How often an aggregator shows itself, in ms.
pub const HEARTBEAT_MS: u64 = 200;
/// After so much of one's own heartbeats and none of its, a member is gone; and so long a newcomer listens first, in ms.
const GONE_AFTER_MS: u64 = 1_000;
/// The most members that are told apart.
const MEMBERS_LEN_MAX: usize = 1_000;

/// One life of an aggregator.
pub type Member = (Arc<str>, u64);

/// Who is there, as one of them sees it.
#[derive(Clone, Debug)]
pub struct Ownership {
    me: Member,
    /// When the first of one's own heartbeats was appended, and the newest.
    own: Option<(Timestamp, Timestamp)>,
    others: HashMap<Member, Other>,
}

/// What is known of another one.
#[derive(Clone, Debug)]
struct Other {
    /// The first of one's own heartbeats after its last.
    silent_since: Option<Timestamp>,
    http: Arc<str>,
    /// The partitions that it says are its own and restored.
    partitions: Vec<Partition>,
}

impl Ownership {
    /// Nobody is there yet.
    #[must_use]
    pub fn new(me: Member) -> Self {
        Self { me, own: None, others: HashMap::new() }
    }

    /// Hears a record of `presence`.
    pub fn heard(&mut self, presence: &Presence, appended: Timestamp) {
        if presence.role != Role::Aggregator {
            return;
        }
        let member = (presence.id.clone(), presence.epoch);
        if member == self.me {
            let first = self.own.map_or(appended, |(first, _)| first);
            self.own = Some((first, appended));
            self.others
                .retain(|_, other| appended.ms_since(*other.silent_since.get_or_insert(appended)) < GONE_AFTER_MS);
        } else if presence.leaving {
            self.others.remove(&member);
        } else if self.others.len() < MEMBERS_LEN_MAX || self.others.contains_key(&member) {
            let (http, partitions) = (presence.http.clone(), presence.partitions.clone());
            self.others.insert(member, Other { silent_since: None, http, partitions });
        }
    }

    /// Whether this one has listened long enough to know the others.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.own.is_some_and(|(first, newest)| newest.ms_since(first) >= GONE_AFTER_MS)
    }

    /// Whether a partition is this one's to count.
    #[must_use]
    pub fn owns(&self, partition: Partition) -> bool {
        let mine = weight(&self.me, partition);
        self.is_settled() && self.others.keys().all(|other| weight(other, partition) < mine)
    }

    /// Whether another one counts a partition and is restored.
    #[must_use]
    pub fn is_counted_elsewhere(&self, partition: Partition) -> bool {
        self.others.values().any(|other| other.partitions.contains(&partition))
    }

    /// Where the others answer over HTTP.
    pub fn others(&self) -> impl Iterator<Item = &Arc<str>> {
        self.others.values().map(|other| &other.http).filter(|http| !http.is_empty())
    }

    /// How many are there, this one included.
    #[must_use]
    pub fn members(&self) -> usize {
        1 + self.others.len()
    }
}

/// The greatest weight owns. The same on every machine and in every version.
fn weight(member: &Member, partition: Partition) -> (u64, &Member) {
    let mut hasher = SipHasher24::new();
    hasher.write(member.0.as_bytes());
    hasher.write_u64(member.1);
    hasher.write_u32(partition);
    (hasher.finish(), member)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARTITIONS: u32 = 16;

    fn at(ms: u64) -> Timestamp {
        Timestamp::from_ms(ms)
    }

    fn shows(id: &str, leaving: bool) -> Presence {
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

    fn owned(ownership: &Ownership) -> Vec<Partition> {
        (0..PARTITIONS).filter(|partition| ownership.owns(*partition)).collect()
    }

    /// Heartbeats of these, each 200 ms of a span, heard by all of `who`.
    fn hear(who: &mut [Ownership], ids: &[&str], from_ms: u64, to_ms: u64) {
        for ms in (from_ms..=to_ms).step_by(200) {
            for id in ids {
                for one in who.iter_mut() {
                    one.heard(&shows(id, false), at(ms));
                }
            }
        }
    }

    fn pair() -> [Ownership; 2] {
        ["a", "b"].map(|id| Ownership::new((id.into(), 1)))
    }

    #[test]
    fn each_partition_has_one_owner_once_all_have_listened() {
        let mut both = pair();
        hear(&mut both, &["a", "b"], 0, 800);
        assert!(both.iter().all(|one| owned(one).is_empty()), "a newcomer listens first");
        hear(&mut both, &["a", "b"], 1_000, 1_000);
        let (a, b) = (owned(&both[0]), owned(&both[1]));
        assert!(!a.is_empty() && !b.is_empty() && a.iter().all(|partition| !b.contains(partition)));
        assert_eq!(a.len() + b.len(), PARTITIONS as usize);
    }

    /// E7: a dead member's partitions move on within about a second, and only those.
    #[test]
    fn who_is_silent_while_one_hears_oneself_is_gone() {
        let mut both = pair();
        hear(&mut both, &["a", "b"], 0, 1_000);
        let before = owned(&both[0]);
        hear(&mut both[..1], &["a"], 1_200, 2_000);
        assert_eq!(owned(&both[0]), before, "not yet");
        hear(&mut both[..1], &["a"], 2_200, 2_200);
        assert_eq!(owned(&both[0]).len(), PARTITIONS as usize);
    }

    #[test]
    fn a_silent_bus_kills_nobody() {
        let mut both = pair();
        hear(&mut both, &["a", "b"], 0, 1_000);
        let before = owned(&both[0]);
        hear(&mut both, &["a", "b"], 60_000, 60_200);
        assert_eq!(owned(&both[0]), before);
    }

    #[test]
    fn what_others_count_is_known_from_them() {
        let mut both = pair();
        hear(&mut both, &["a", "b"], 0, 1_000);
        assert!(both[0].is_counted_elsewhere(7) && !both[0].is_counted_elsewhere(6));
    }

    #[test]
    fn who_says_goodbye_is_gone_at_once() {
        let mut both = pair();
        hear(&mut both, &["a", "b"], 0, 1_000);
        both[0].heard(&shows("b", true), at(1_100));
        assert_eq!(owned(&both[0]).len(), PARTITIONS as usize);
    }
}
